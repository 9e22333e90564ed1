"""Random networks of processes end with the same results however they are run: in threads, interrupted anywhere."""

import sys
from collections.abc import Iterator

import pytest

from tests.core._networks import expected, random_network, run_alone, run_in_threads


@pytest.fixture
def hectic() -> Iterator[None]:
    """Threads take turns as often as they can."""
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    yield
    sys.setswitchinterval(before)


OPTIONS = [
    {},
    {"timeout": 1, "ignore_nesting": True},
    {"timeout": 7},
    {"timeout": 50, "ignore_nesting": True},
    {"timeout": 200, "totaltimeout": True},
    {"timeout": 100, "soft": True},
    {"slice": 1e-5},
]


def named(options):
    return ",".join(f"{name}={value}" for name, value in options.items()) or "cooperative"


@pytest.mark.parametrize("options", OPTIONS, ids=named)
def test_in_one_thread(options):
    messages = 6 if options.get("timeout") == 1 else 60  # an interrupt before every instruction takes its time
    interrupts = sum(run_alone(random_network(seed, messages=messages), **options) for seed in range(3))
    assert (interrupts > 20) == ("timeout" in options and "soft" not in options)


@pytest.mark.parametrize("options", [{}, {"timeout": 7}, {"slice": 1e-4}], ids=named)
@pytest.mark.parametrize("threads", [2, 4])
def test_in_several_threads(threads, options, hectic):
    for seed in range(3):
        run_in_threads(random_network(100 + seed), threads, **options)


def test_the_results_are_those_of_the_scripts():
    assert len({tuple(expected(random_network(seed))) for seed in range(20)}) == 20
    assert expected(random_network(1)) == expected(random_network(1))


@pytest.mark.soak
@pytest.mark.parametrize("options", OPTIONS, ids=named)
@pytest.mark.parametrize("block", range(10))
def test_many_more_in_one_thread(block, options):
    for seed in range(block * 30, block * 30 + 30):
        messages = 20 if options.get("timeout") == 1 else 100
        run_alone(random_network(1000 + seed, 3 + seed % 10, 4 + seed % 14, messages), **options)
    assert expected(random_network(1)) == expected(random_network(1))


@pytest.mark.soak
@pytest.mark.timeout(600)
@pytest.mark.parametrize("options", OPTIONS, ids=named)
@pytest.mark.parametrize("block", range(10))
def test_many_more_in_several_threads(block, options, hectic):
    for seed in range(block * 20, block * 20 + 20):
        messages = 20 if options.get("timeout") == 1 else 100
        run_in_threads(random_network(5000 + seed, 3 + seed % 10, 4 + seed % 14, messages), 2 + seed % 4, **options)
    assert expected(random_network(1)) == expected(random_network(1))
