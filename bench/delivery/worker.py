"""The process that measures delivery: `python -m bench.delivery.worker`, asked through bench.workers."""

import importlib
import importlib.util
import time
from typing import Any

from ..workers import serve
from . import shipped

PACKAGES = ("numpy", "scipy.linalg", "pandas", "pyarrow", "sklearn.ensemble", "dask.dataframe")


def present() -> list[str]:
    """Those of PACKAGES that are installed here, imported."""
    found = [name for name in PACKAGES if importlib.util.find_spec(name.partition(".")[0]) is not None]
    for name in found:
        importlib.import_module(name)
    return found


def about() -> list[str]:
    return present()


def contexts(python: str, number: int) -> dict[str, Any]:
    """For each of `number` contexts behind one intermediary: s of this process's CPU, and bytes that went to the intermediary."""
    from roamlet import remote

    names = present()
    costs = []
    with remote.local(python) as hub:
        before = hub.stats.bytes_down
        for _ in range(number):
            began = time.process_time()
            with remote.local(python, via=hub) as context:
                context.call(shipped.use, (names,))
                context.call(shipped.nothing)
            costs.append((time.process_time() - began, hub.stats.bytes_down - before))
            before = hub.stats.bytes_down
    return {"cpu_s": [cpu for cpu, _ in costs], "bytes": [sent for _, sent in costs]}


if __name__ == "__main__":
    serve({"about": about, "contexts": contexts})
