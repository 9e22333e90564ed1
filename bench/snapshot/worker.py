"""The measuring process of one side: `python -m bench.snapshot.worker roamlet|dispatch-py|pickle`, asked through bench.workers."""

import gc
import pickle
import sys
from collections.abc import Callable
from time import thread_time
from typing import Any

from ..workers import serve
from . import chain


class Side:
    """How one side makes a chain, saves and restores it, and gets rid of what it has restored."""

    def __init__(self, name: str) -> None:
        self.save: Callable[[Any], bytes] = pickle.dumps
        self.restore: Callable[[bytes], Any] = pickle.loads
        self.make: Callable[[int], Any] = chain.plain
        self.end: Callable[[Any], object] = lambda copy: None
        if name == "roamlet":
            from roamlet import snapshot

            self.save, self.restore = snapshot.dumps, snapshot.loads
            self.make, self.end = chain.tasklet, lambda copy: copy.kill()
        elif name == "dispatch-py":
            from . import durable

            self.make = durable.chain

    def turn(self, frames: int, times: int) -> dict[str, float]:
        """CPU microseconds of this thread to save once, and to restore once; what is restored ends outside of the time."""
        what = self.make(frames)
        data = self.save(what)
        began = thread_time()
        for _ in range(times):
            self.save(what)
        saved = thread_time()
        copies = [self.restore(data) for _ in range(times)]
        restored = thread_time()
        for copy in copies:
            self.end(copy)
        self.end(what)
        return {
            "bytes": len(data),
            "save_us": (saved - began) / times * 1e6,
            "restore_us": (restored - saved) / times * 1e6,
        }


if __name__ == "__main__":
    gc.disable()
    serve({"turn": Side(sys.argv[1]).turn})
