"""The parent process of one side: `python -m bench.remote_import.worker SIDE VARIANT`, asked through bench.workers.

VARIANT is the module with the function to call: import_at_top (this process has imported Django, then), import_in_function (it
has not, until one of the two sides imports it in order to read it) or import_requests.
"""

import sys
import time
from functools import partial
from typing import Any

from roamlet_bench.programs.relay import read_counters

from ..shipped import shipped
from ..sides import SIDES, Side
from ..workers import serve


def fresh_import(side: Side, variant: str, python: str, counters: str) -> dict[str, Any]:
    """Open a context through `python`, make the one call that imports the package there, close: what each part took.

    "sent behind" is what was still sent down after the result had arrived: the caller did not wait for it.
    """
    load = shipped(variant).load
    imported_here = "django.db.models" in sys.modules
    cpu = time.process_time()
    began = time.monotonic()
    context = side.open(python, far=True)
    connected, at_connect = time.monotonic(), read_counters(counters)
    version, modules = side.call(context, load)
    done, at_result = time.monotonic(), read_counters(counters)
    requests = side.requests(context)
    side.close(context)
    cpu, at_end = time.process_time() - cpu, read_counters(counters)
    return {
        "version": version,
        "modules": modules,
        "imported_here": imported_here,
        "connect_s": connected - began,
        "import_s": done - connected,
        "parent_cpu_s": cpu,
        "connect_down": at_connect["down"],
        "import_down": at_result["down"] - at_connect["down"],
        "sent_behind": at_end["down"] - at_result["down"],
        "import_up": at_result["up"] - at_connect["up"],
        "connect_turnarounds": at_connect["turnarounds"],
        "import_turnarounds": at_result["turnarounds"] - at_connect["turnarounds"],
        "argv": at_connect["argv"],
        "processes": at_connect["started"],
        "requests": requests,
    }


def through_hops(side: Side, variant: str, pythons: list[str]) -> dict[str, Any]:
    """Seconds of the call that imports, made in the last of a chain of fresh contexts, each opened through the one before."""
    chain: list[Any] = []
    try:
        for python in pythons:
            chain.append(side.open(python, via=chain[-1] if chain else None, far=True))
        began = time.monotonic()
        side.call(chain[-1], shipped(variant).load)
        return {"import_s": time.monotonic() - began}
    finally:
        for context in reversed(chain):
            side.close(context)


def scan() -> dict[str, Any]:
    """Seconds to find, read and pack what Django's models import, in this process, which has not looked at any of it before."""
    from roamlet.remote import modules

    has = frozenset(sys.stdlib_module_names)
    modules.plan("argparse", (), has)  # what is loaded once, whatever is planned
    began = time.monotonic()
    bundle = modules.plan("django.db.models", (), has)
    seconds = time.monotonic() - began
    assert bundle is not None
    return {"seconds": seconds, "modules": len(bundle.modules), "bytes": len(bundle.data)}


def main(name: str, variant: str) -> None:
    side = SIDES[name]()
    serve(
        {
            "about": side.about,
            "fresh_import": partial(fresh_import, side, variant),
            "through_hops": partial(through_hops, side, variant),
            "scan": scan,
        }
    )
    side.stop()


if __name__ == "__main__":
    main(*sys.argv[1:])
