"""The measuring processes of this folder: its modules, run from the repository. weft.cli._bench.workers says what a Worker is."""

import sys
from collections.abc import Mapping
from pathlib import Path

from weft.cli._bench import workers
from weft.cli._bench.programs.answers import serve
from weft.cli._bench.workers import WorkerFailed

__all__ = ["ROOT", "Worker", "WorkerFailed", "serve"]

ROOT = Path(__file__).resolve().parent.parent


class Worker(workers.Worker):
    """`python -m MODULE ARG...` as a measuring process."""

    def __init__(self, module: str, *arguments: str, environment: Mapping[str, str] | None = None) -> None:
        command = [sys.executable, "-m", module, *arguments]
        super().__init__(" ".join([module, *arguments]), command, environment=environment, folder=ROOT)
