"""The process that measures one peer's calls: `python -m bench.call_async.worker PEER`, asked through bench.workers."""

import sys
import time

from ..workers import serve
from .peers import PEERS


def main(peer: str) -> None:
    way = PEERS[peer]

    def rate(count: int, at_once: int) -> dict[str, float]:
        """Wall and CPU seconds for `count` calls, `at_once` outstanding at any time."""
        cpu = time.process_time()
        return {"seconds": way(count, at_once), "cpu_s": time.process_time() - cpu}

    serve({"rate": rate})


if __name__ == "__main__":
    main(*sys.argv[1:])
