"""Two threads whose tasklets switch in finalizers, weak references' callbacks and the ends of tasklets, while both collect.

Ten minutes on each CPython >= 3.11 that is on this machine, on the backend native. ROAMLET_SOAK_COLLECTING says how many
seconds instead, ROAMLET_SOAK_SEED with which seed. The other Pythons get roamlet in build/bench-X.Y.
"""

import os
import signal
import subprocess
import time

import pytest

from tests.soak._pythons import ROOT, pythons, with_roamlet

SECONDS = float(os.environ.get("ROAMLET_SOAK_COLLECTING", "600"))
GRACE = 120  # seconds after which it hangs


@pytest.mark.soak
@pytest.mark.timeout(SECONDS + 3 * GRACE)
@pytest.mark.parametrize(("version", "path"), pythons(), ids=lambda each: "{}.{}".format(*each) if each else "")
def test_two_threads_collect_while_their_tasklets_switch(version, path, told):
    python = with_roamlet(version, path)
    seed = int(os.environ.get("ROAMLET_SOAK_SEED") or time.time())
    told("python{}.{}: {:.0f} seconds from seed {}".format(*version, SECONDS, seed))
    run = subprocess.Popen(
        [python, "-X", "faulthandler", "-m", "tests.soak._collecting", str(SECONDS), str(seed)],
        cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env={**os.environ, "ROAMLET_SWITCH": "native"},
    )  # fmt: skip
    try:
        output, errors = run.communicate(timeout=SECONDS + GRACE)
    except subprocess.TimeoutExpired:
        run.send_signal(signal.SIGABRT)  # faulthandler says where it hangs
        output, errors = run.communicate()
    last = output.splitlines()[-1:]
    told(f"python{version[0]}.{version[1]}: {last}")
    assert run.returncode == 0, (run.returncode, last, errors[-3000:])
