"""Three of the core's figures beside Stackless Python, which is an interpreter of its own: both in turns, in ns of CPU.

    python -m bench.core.beside_stackless /path/to/stackless/bin/python

Both interpreters run this file, so that they run the same code: it is written for Stackless's CPython 3.7, too. Each side is a
process, which takes its turns while the other one sleeps.

Two CPythons take different times for a loop that calls a method. So "interpreter" is the message's two loops around methods that
never switch, and the last line is what a message takes beyond them.
"""

from __future__ import annotations

import gc
import subprocess
import sys
from collections import deque
from importlib import import_module
from time import thread_time
from typing import Any, Callable, Dict, List, Sequence  # noqa: UP035 - 3.7 has no other names for them

# How many operations make a turn, how many belong together, and what roamlet is to need of Stackless's time at most.
BARS = {
    "create": (20000, 1000, 0.6),
    "message": (80000, 1, 0.9),
    "interpreter": (80000, 1, None),
    "schedule_10": (120000, 10, 0.8),
    "schedule_1000": (120000, 1000, 0.8),
}
ROUNDS = 40


def nothing() -> None:
    pass


def create(side: Any, operations: int) -> float:
    """In batches of 1000: the batch exists before its first member runs."""
    tasklet, run = side.tasklet, side.run
    began = thread_time()
    for _ in range(operations // 1000):
        for _ in range(1000):
            tasklet(nothing)()
        run()
    return thread_time() - began


def message(side: Any, operations: int) -> float:
    pipe = side.channel()

    def reader() -> None:
        receive = pipe.receive
        for _ in range(operations):
            receive()

    def writer() -> None:
        send = pipe.send
        for i in range(operations):
            send(i)

    side.tasklet(reader)()
    side.tasklet(writer)()
    began = thread_time()
    side.run()
    return thread_time() - began


def interpreter(side: Any, operations: int) -> float:
    """The loops of message(), and its values, of which the next one drops the last, without a switch."""
    values: Any = deque(maxlen=1)

    def reader() -> None:
        receive = values.clear
        for _ in range(operations):
            receive()

    def writer() -> None:
        send = values.append
        for i in range(operations):
            send(i)

    began = thread_time()
    writer()
    reader()
    return thread_time() - began


def schedule(side: Any, count: int, operations: int) -> float:
    turns, schedule = operations // count, side.schedule

    def spin() -> None:
        for _ in range(turns):
            schedule()

    for _ in range(count):
        side.tasklet(spin)()
    began = thread_time()
    side.run()
    return thread_time() - began


FIGURES: Dict[str, Callable[[Any, int], float]] = {  # noqa: UP006
    "create": create,
    "message": message,
    "interpreter": interpreter,
    "schedule_10": lambda side, operations: schedule(side, 10, operations),
    "schedule_1000": lambda side, operations: schedule(side, 1000, operations),
}


def answer(module: str) -> None:
    """One side: for each line "FIGURE OPERATIONS" a line with the seconds that it took."""
    side = import_module(module)
    gc.disable()
    print(sys.version.split()[0], flush=True)
    for line in sys.stdin:
        name, operations = line.split()
        gc.collect()
        print(FIGURES[name](side, int(operations)), flush=True)


class Side:
    """A process that answers. `version`: of its Python."""

    def __init__(self, python: str, module: str) -> None:
        command = [python, __file__, "answer", module]
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, universal_newlines=True)
        self.version = self._line()

    def _line(self) -> str:
        assert self.process.stdout is not None
        line = self.process.stdout.readline().strip()
        if not line:
            self.close()
            raise SystemExit(f"{self.process.args}: it has ended, and what it wrote says why")
        return line

    def ns(self, name: str, operations: int) -> float:
        """Of one operation."""
        assert self.process.stdin is not None
        print(name, operations, file=self.process.stdin, flush=True)
        return float(self._line()) / operations * 1e9

    def close(self) -> None:
        self.process.communicate()


def report(name: str, theirs: Sequence[float], ours: Sequence[float]) -> None:
    """A line: the best turn of each side, their ratio, the median of the ratios of pairs, and the bar where there is one."""
    pairs = sorted(our / their for our, their in zip(ours, theirs, strict=True))
    bar = BARS[name][2] if name in BARS else None
    print(
        f"{name:14} {min(theirs):8.1f} {min(ours):8.1f}   {min(ours) / min(theirs):.2f}, pairs {pairs[len(pairs) // 2]:.2f}"
        + (f", bar {bar}" if bar else "")
    )


def measure(python: str, rounds: int = ROUNDS, part: int = 1) -> Dict[str, Dict[str, List[float]]]:  # noqa: UP006
    """{figure: {side: ns of each turn}}, and prints the table: the best turns, and the median of what each pair of turns gives.

    `part`: turns are shorter by that factor.
    """
    sides = {"Stackless": Side(python, "stackless"), "roamlet": Side(sys.executable, "roamlet")}
    taken: Dict[str, Dict[str, List[float]]] = {name: {side: [] for side in sides} for name in FIGURES}  # noqa: UP006
    for _ in range(rounds):
        for name, (operations, step, _) in BARS.items():
            for title, side in sides.items():
                taken[name][title].append(side.ns(name, max(operations // part // step, 1) * step))
    print("ns of CPU:", ", ".join(f"{title} on Python {side.version}" for title, side in sides.items()))
    for name, turns in taken.items():
        report(name, turns["Stackless"], turns["roamlet"])
    beyond = {
        side: [whole - loops for whole, loops in zip(turns, taken["interpreter"][side], strict=True)]
        for side, turns in taken["message"].items()
    }
    report("message beyond", beyond["Stackless"], beyond["roamlet"])
    for side in sides.values():
        side.close()
    return taken


def main(words: Sequence[str]) -> None:
    if len(words) == 2 and words[0] == "answer":
        answer(words[1])
    elif len(words) == 1:
        measure(words[0])
    else:
        raise SystemExit("python -m bench.core.beside_stackless /path/to/stackless/bin/python")


if __name__ == "__main__":
    main(sys.argv[1:])
