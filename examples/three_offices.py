"""Three offices on this machine, joined by roamlet vpn, looked at, drawn, and all taken down again.

    sudo python examples/three_offices.py      or: sudo make lab-demo

The same commands that a person types for real servers, over real ssh to servers that run systemd, with 80 ms between the offices.
The file of the network and its picture stay, in build/lab-demo; nothing else does, however this ends.
"""

import subprocess
import sys
import time
from pathlib import Path
from typing import NamedTuple

from roamlet_lab import Lab, LabError, why_not

ROOT = Path(__file__).resolve().parent.parent
FOLDER = ROOT / "build" / "lab-demo"
ROAMLET = Path(sys.executable).with_name("roamlet")
OFFICES = ("alpha", "beta", "gamma")
HANDSHAKES = 30  # seconds that the tunnels have to be up


def roamlet(*words: str) -> int:
    """Run a command of roamlet in the folder of the demo, show it as it is typed, and return its exit code."""
    print(f"\n$ roamlet {' '.join(words)}", flush=True)
    return subprocess.run([ROAMLET, *words], cwd=FOLDER, stdin=subprocess.DEVNULL, check=False).returncode


def wait_for_handshakes() -> None:
    deadline = time.monotonic() + HANDSHAKES
    while time.monotonic() < deadline:
        done = subprocess.run(
            [ROAMLET, "vpn", "status"], cwd=FOLDER, stdin=subprocess.DEVNULL, capture_output=True, check=False
        )
        if done.returncode == 0:
            return


def reached(lab: Lab, patience: float) -> bool:
    """Whether a client of the first office gets an answer from one of the last within so many seconds."""
    first, last = (lab.office(name).client for name in (OFFICES[0], OFFICES[-1]))
    deadline = time.monotonic() + patience
    while not first.ping(last.address, timeout=1):
        if time.monotonic() > deadline:
            return False
    return True


class Step(NamedTuple):
    """One thing that the demo shows."""

    what: str
    well: bool


def demo(lab: Lab) -> list[Step]:
    """Join the offices of the lab; each step, and whether it went as it should."""
    config = lab.ssh_config
    before = reached(lab, patience=0)
    print(f"{len(OFFICES)} offices, 80 ms apart; a client of alpha reaches one of gamma: {'YES' if before else 'no'}")
    steps = [
        Step("before, no client of alpha reaches one of gamma", not before),
        Step("roamlet vpn init", roamlet("vpn", "init", "--yes", "--ssh-config", config, *OFFICES) == 0),
        Step("roamlet vpn apply", roamlet("vpn", "apply", "--yes") == 0),
    ]
    started = time.monotonic()
    joined = reached(lab, patience=10)
    print(
        f"\na client of alpha reaches one of gamma: {'yes' if joined else 'NO'}, {time.monotonic() - started:.1f} s after apply"
    )
    wait_for_handshakes()
    steps += [
        Step("after it, a client of alpha reaches one of gamma", joined),
        Step("roamlet vpn status", roamlet("vpn", "status") == 0),
        Step("roamlet vpn check", roamlet("vpn", "check", "--svg", "network.svg") == 0),
        Step("roamlet vpn plan", roamlet("vpn", "plan") == 0),
    ]
    print(f"\nthe picture: {(FOLDER / 'network.svg').relative_to(ROOT)}")
    return steps


def main() -> int:
    if reason := why_not():  # before the folder, which the last demo has left to root
        print(f"lab-demo: {reason}", file=sys.stderr)
        return 1
    FOLDER.mkdir(parents=True, exist_ok=True)
    for old in FOLDER.iterdir():
        old.unlink()
    try:
        started = time.monotonic()
        with Lab(OFFICES, rtt=0.080, systemd=True, say=print) as lab:
            print(f"the offices took {time.monotonic() - started:.1f} s to build")
            steps = demo(lab)
        print("all taken down again")
    except LabError as error:
        print(f"lab-demo: {error}", file=sys.stderr)
        return 1
    wrong = [step.what for step in steps if not step.well]
    if wrong:
        print(f"lab-demo: not as it should be: {'; '.join(wrong)}", file=sys.stderr)
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
