"""The measuring processes of this folder: its modules, run from the repository. roamlet_bench.workers has Worker."""

import sys
from collections.abc import Iterable, Mapping
from contextlib import ExitStack
from pathlib import Path

from roamlet_bench import workers
from roamlet_bench.programs.answers import serve
from roamlet_bench.workers import WorkerFailed

__all__ = ["ROOT", "Worker", "WorkerFailed", "serve", "with_contexts"]

ROOT = Path(__file__).resolve().parent.parent


class Worker(workers.Worker):
    """`python -m MODULE ARG...` as a measuring process."""

    def __init__(self, module: str, *arguments: str, environment: Mapping[str, str] | None = None) -> None:
        command = [sys.executable, "-m", module, *arguments]
        super().__init__(" ".join([module, *arguments]), command, environment=environment, folder=ROOT)


def with_contexts(
    stack: ExitStack, module: str, sides: Iterable[str], python: str, skipped: dict[str, str]
) -> dict[str, Worker]:
    """A worker for each side that can open a context of `python`, until `stack` is left; `skipped` gets why others cannot."""
    present = {}
    for name in sides:
        worker = stack.enter_context(Worker(module, name))
        try:
            worker.ask("open", python=python, timeout=30)
        except WorkerFailed as failure:
            skipped[name] = str(failure)
        else:
            present[name] = worker
    return present
