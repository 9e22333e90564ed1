"""Ten thousand times saved, resumed, moved: nothing is left, with the cyclic collector off. tests/snapshot/test_leaks.py says how
that is seen.
"""

import gc

import pytest

from roamlet import snapshot
from tests.remote.test_move_growth import check_travel, moves, visits
from tests.snapshot import programs
from tests.snapshot._driving import begun, end
from tests.snapshot.conftest import KNOWN
from tests.snapshot.test_leaks import check_nothing_grows, cycle, resumed_at_its_last_step

pytestmark = [
    pytest.mark.soak,
    pytest.mark.timeout(1200),
    pytest.mark.skipif(not KNOWN, reason="tasklets are not saved on this version or backend"),
]

# These make cycles of their own each time they run, saved or not: a closure that calls itself, contextlib's manager with an error.
HAVE_CYCLES = programs.recursive_closure, programs.with_contextmanager


@pytest.mark.parametrize("program", programs.PROGRAMS, ids=lambda program: program.__name__)
def test_ten_thousand_cycles_of_each_program_leave_nothing(program):
    tasklet, ch, out = begun(program)
    data = snapshot.dumps((tasklet, ch, out))

    def work():
        cycle(data)
        if program in HAVE_CYCLES:
            gc.collect(0)

    check_nothing_grows(work, 10_000)
    end(tasklet)
    gc.collect()


def test_ten_thousand_checkpoints_and_resumptions_leave_nothing(tmp_path):
    check_nothing_grows(resumed_at_its_last_step(tmp_path), 10_000)


@pytest.mark.parametrize("work", [moves, visits])
def test_ten_thousand_travels_leave_nothing(work):
    check_travel(work, 10_000)
