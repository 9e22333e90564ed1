"""What the sitecustomize of `python -m roamlet.patch` calls: install() with the options of the command, from the environment."""

import os
import sys
from collections.abc import Mapping

from roamlet.patch import EarlyImport, install

STRICT, PIPES, LOCAL = "ROAMLET_PATCH_STRICT", "ROAMLET_PATCH_PIPES", "ROAMLET_PATCH_LOCAL"
THREADS = "ROAMLET_PATCH_THREADS"


def install_from(environment: Mapping[str, str]) -> None:
    """Call install() as the command was told. With --strict, end the process with status 1 where that refuses."""
    try:
        install(
            pipes=environment.get(PIPES) == "1",
            local=environment.get(LOCAL) == "1",
            threads="tasklets" if environment.get(THREADS) == "tasklets" else "os",
            strict=environment.get(STRICT) == "1",
        )
    except EarlyImport as error:
        # What a sitecustomize raises is printed, and Python goes on.
        sys.stderr.write(f"python -m roamlet.patch --strict: {error}\n")
        sys.stderr.flush()
        os._exit(1)
