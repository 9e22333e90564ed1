"""For tests of programs that use tasklets: a virtual clock, and tasklets run as far as they go, in an order that a seed decides.

Tests of programs that use contexts find the rest in `roamlet.testing.links`: links that are cut or stall. Nothing in roamlet
imports this package. ::

    def test_a_worker_gives_up_after_a_minute():
        with testing.VirtualClock() as clock:
            working = roamlet.spawn(worker, (roamlet.channel(),))
            with pytest.raises(TimeoutError):
                working.join()
            assert clock.elapsed == 60
"""

from roamlet.testing.clock import VirtualClock
from roamlet.testing.order import run_until_blocked, wait_until

__all__ = ["VirtualClock", "run_until_blocked", "wait_until"]
