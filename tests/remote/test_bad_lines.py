"""Lines that are slow in fits: what is read comes in odd pieces, with stalls as after a lost packet. Nothing depends on it."""

import importlib
import sys

import pytest
import roamlet_sent

from roamlet import remote
from tests.remote.fakes import script

# Stands between parent and child. The stalls are a line's, not the test's: whatever the dice say, what is asserted holds.
BAD_LINE = """\
#!{python}
import os, random, select, subprocess, sys, time
dice = random.Random({seed})
child = subprocess.Popen([{python!r}, *sys.argv[1:]], stdin=subprocess.PIPE, stdout=subprocess.PIPE, bufsize=0)
ends = {{0: child.stdin.fileno(), child.stdout.fileno(): 1}}
while child.stdout.fileno() in ends:
    for fd in select.select(list(ends), [], [])[0]:
        data = os.read(fd, dice.choice((1, 16, 17, 1448, 65536)))
        if not data:
            os.close(ends.pop(fd))
            continue
        time.sleep(dice.choice((0, 0, 0, 0.0005, 0.002)) if dice.random() < 0.98 else 0.1)
        while data:
            data = data[os.write(ends[fd], data):]
"""


@pytest.mark.parametrize("seed", [1, 2])
def test_imports_calls_and_large_values_arrive_over_a_line_that_stalls(tmp_path, seed):
    pytest.importorskip("django")
    uses = importlib.import_module("tests.remote.sent.roamlet_uses")
    line = script(tmp_path, BAD_LINE.format(python=getattr(sys, "_base_executable", sys.executable), seed=seed))
    with remote.local(line, modules=remote.Modules(prefer="parent"), timeout=60) as context:
        assert context.call(uses.models) == "django.db.models.base"
        assert context.stats.round_trips == 0
        calls = [context.spawn(roamlet_sent.echo, (number,)) for number in range(50)]
        assert context.call(roamlet_sent.size_of, (bytes(300_000),)) == 300_000
        assert [call.join() for call in calls] == list(range(50))
