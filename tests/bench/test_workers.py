import pytest

from bench.workers import Worker, WorkerFailed


def test_an_exception_in_the_worker_is_told_with_its_type_and_the_worker_goes_on() -> None:
    with Worker("bench.core.worker", "generators") as worker:
        with pytest.raises(WorkerFailed, match=r"bench.core.worker generators' could not measure unit: TypeError"):
            worker.ask("unit", operations="many")
        assert worker.ask("unit", operations=1000) > 0


def test_a_worker_that_dies_is_reported_with_its_last_words() -> None:
    with Worker("bench.core.worker", "no such peer") as worker:
        worker.ask("about")
        with pytest.raises(WorkerFailed, match="could not measure message: KeyError: 'message'"):
            worker.ask("message")
    with (
        Worker("bench.no_such_module") as worker,
        pytest.raises(WorkerFailed, match=r"No module named bench\.no_such_module"),
    ):
        worker.ask("about")


def test_a_worker_that_gives_no_answer_in_time_is_killed_and_named() -> None:
    with (
        Worker("bench.core.worker", "generators") as worker,
        pytest.raises(WorkerFailed, match=r"no answer to unit within 0 s"),
    ):
        worker.ask("unit", operations=10**9, timeout=0.05)
