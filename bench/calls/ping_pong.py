"""Two Python processes that send each other 64 bytes over pipes: nothing can answer faster, so this is the floor of a call."""

import os
import subprocess
import sys
import time
from typing import Any

from ..shipped import shipped

MESSAGE = b"." * 64
ECHO = "import os\nwhile True:\n data = os.read(0, 65536)\n if not data: break\n os.write(1, data)"


class PingPong:
    """The pair, with the calls that bench.calls.worker measures. Leaving the `with` ends the other process."""

    def __enter__(self) -> "PingPong":
        self._process = subprocess.Popen(
            [sys.executable, "-I", "-S", "-c", ECHO], stdin=subprocess.PIPE, stdout=subprocess.PIPE, bufsize=0
        )
        keep_to = shipped("no_op").keep_to
        keep_to(1, self._process.pid)
        keep_to(0)
        return self

    def __exit__(self, *_: object) -> None:
        with self._process as process:
            assert process.stdin is not None
            process.stdin.close()

    def rate(self, count: int, at_once: int) -> dict[str, Any]:
        """Seconds for `count` exchanges, one at a time."""
        assert at_once == 1, "several messages at once would only be read together: that shows nothing"
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        to, back = self._process.stdin.fileno(), self._process.stdout.fileno()
        read, write = os.read, os.write
        cpu, began = time.process_time(), time.perf_counter()
        for _ in range(count):
            write(to, MESSAGE)
            read(back, 65536)
        return {"seconds": time.perf_counter() - began, "parent_cpu_s": time.process_time() - cpu}
