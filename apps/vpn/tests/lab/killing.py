"""An apply that is killed at one of its steps, from outside, and the wait until the servers have come to rest after it."""

import subprocess
import sys
import time
from pathlib import Path

from apps.vpn.tests.lab import dying
from roamlet_vpn.host import rollback as host_rollback

NAMES = ("alpha", "beta", "gamma")
ROOT = Path(__file__).parents[4]
PATIENCE = 120  # seconds for what takes one or two


def started(offices, step):
    words = [sys.executable, "-m", "apps.vpn.tests.lab.applier", offices.lab.name, step]
    return subprocess.Popen(words, cwd=ROOT, stdin=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)


def killed(offices, step):
    """Let it run until it kills itself at this step."""
    with started(offices, step) as process:
        _, said = process.communicate(timeout=PATIENCE)
    assert process.returncode == -9, said


def killed_while_acting(offices, first):
    """Kill it when the servers wait in the middle of their actions, the first one before number `first`; then they go on."""
    for name in NAMES:
        offices.server(name).shell(f"rm -f {dying.HELD} {dying.GO_ON}")
    with started(offices, f"acting {first}") as process:
        try:
            for name in NAMES:
                waiting = f"until [ -e {dying.HELD} ]; do sleep 0.05; done"
                offices.server(name).run(["timeout", str(PATIENCE), "sh", "-c", waiting], timeout=PATIENCE + 20)
            assert process.poll() is None
        finally:
            process.kill()
            process.communicate()
    for name in NAMES:
        offices.server(name).shell(f"touch {dying.GO_ON}")


def settled(offices):
    """Let the time of what waits to be confirmed be over, and wait until all of it has been taken back."""
    deadline = time.monotonic() + PATIENCE
    everywhere = dict.fromkeys(NAMES, ())
    with offices.servers() as servers:
        assert servers.connect() == {}
        assert all(answer.get() in (True, False) for answer in servers.each(dying.run_out_of_time, everywhere).values())
        while any(answer.get() for answer in servers.each(host_rollback.armed, everywhere).values()):
            assert time.monotonic() < deadline, "a rollback is armed still"
            time.sleep(0.2)
        left = servers.each(dying.forgotten_pieces, everywhere)
        assert all(answer.get() == [] for answer in left.values())
    # The outcome is written after everything else.
    until = f"for i in $(seq {10 * PATIENCE}); do ls /run/roamlet-vpn/*/rolling >/dev/null 2>&1 || exit 0; sleep 0.1; done; exit 1"
    for name in NAMES:
        offices.server(name).run(["sh", "-c", until], timeout=2 * PATIENCE)
