"""The delaying line: nothing is lost, everything is counted, nothing comes early."""

import os
import subprocess
import sys
import time
from pathlib import Path

from roamlet_bench.programs import relay
from roamlet_bench.programs.relay import PACKET, Line, read_counters

ECHO = "import sys; sys.stdout.buffer.write(sys.stdin.buffer.read())"
ANSWER = "import sys\nfor line in sys.stdin: print(line, end='', flush=True)"


def relayed(round_trip: float | str, rate: int, counters: Path, program: str) -> "subprocess.Popen[bytes]":
    return subprocess.Popen(
        [sys.executable, relay.__file__, str(round_trip), str(rate), str(counters), sys.executable, "-c", program],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    )


def test_a_megabyte_comes_back_unchanged_and_is_counted_both_ways(tmp_path: Path) -> None:
    data = bytes(range(256)) * 4096
    with relayed(0, 0, tmp_path / "counters", ECHO) as process:
        back, _ = process.communicate(data, timeout=30)
    counted = read_counters(str(tmp_path / "counters"))
    assert back == data
    assert process.returncode == 0
    assert (counted["down"], counted["up"], counted["turnarounds"], counted["started"]) == (len(data), len(data), 0, 1)


def test_each_answer_that_is_answered_again_counts_as_one_turnaround(tmp_path: Path) -> None:
    with relayed(0, 0, tmp_path / "counters", ANSWER) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        for word in (b"one\n", b"two\n", b"three\n"):
            process.stdin.write(word)
            process.stdin.flush()
            assert process.stdout.readline() == word
    assert read_counters(str(tmp_path / "counters"))["turnarounds"] == 2


def test_nothing_comes_back_before_a_whole_round_trip_has_passed(tmp_path: Path) -> None:
    began = time.monotonic()
    with relayed(0.1, 0, tmp_path / "counters", ECHO) as process:
        back, _ = process.communicate(b"x", timeout=30)
    assert back == b"x"
    assert time.monotonic() - began >= 0.1


def test_a_line_with_a_rate_passes_no_more_than_its_rate(tmp_path: Path) -> None:
    began = time.monotonic()
    with relayed(0, 1_000_000, tmp_path / "counters", ECHO) as process:
        process.communicate(b"x" * 100_000, timeout=30)
    assert time.monotonic() - began >= 0.1


def test_the_exit_code_behind_the_line_is_the_lines_own(tmp_path: Path) -> None:
    with relayed(0, 0, tmp_path / "counters", "raise SystemExit(7)") as process:
        process.communicate(timeout=30)
    assert process.returncode == 7


def test_counters_of_a_line_that_nobody_has_used_are_zero(tmp_path: Path) -> None:
    (tmp_path / "counters").touch()
    assert set(read_counters(str(tmp_path / "counters")).values()) == {0}


def test_what_jitters_and_is_lost_comes_late_and_still_unchanged_and_in_order(tmp_path: Path) -> None:
    data = bytes(range(256)) * 1024
    with relayed("0.01:0.005:0.1:3", 0, tmp_path / "counters", ECHO) as process:
        back, _ = process.communicate(data, timeout=30)
    assert back == data


def dues(**line: float) -> list[float]:
    """When each packet of 32 would come, of those that all left at second 0."""
    source, end = os.pipe()
    sink = os.open(os.devnull, os.O_WRONLY)
    os.write(end, b"x" * 32 * PACKET)
    os.close(end)
    try:
        one = Line(source, sink, delay=1.0, **line)  # type: ignore[arg-type]
        one.take(0.0)
        return [due for due, _ in one._queue]
    finally:
        os.close(source)
        os.close(sink)


def test_a_packet_that_is_lost_holds_up_all_behind_it_for_a_round_trip() -> None:
    come = dues(rate=0, loss=0.1, seed=1)
    assert come == sorted(come)
    assert set(come) >= {1.0, 3.0}, "some were lost, and not the first one"
    assert all(due % 2 == 1 for due in come), "each loss costs a whole round trip of 2 s"


def test_jitter_delays_by_no_more_than_it_says_and_the_same_seed_by_the_same() -> None:
    come = dues(rate=0, jitter=0.5, seed=1)
    assert come == sorted(come)
    assert 1.0 <= come[0] < come[-1] <= 1.5
    assert come == dues(rate=0, jitter=0.5, seed=1) != dues(rate=0, jitter=0.5, seed=2)


def test_a_rate_lets_one_packet_after_the_other_through() -> None:
    assert dues(rate=PACKET)[:3] == [2.0, 3.0, 4.0]
