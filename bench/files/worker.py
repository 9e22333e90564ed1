"""The parent process of one side: `python -m bench.files.worker roamlet|mitogen`, asked through bench.workers.

Each sends as its own documentation does it. roamlet's time includes the checksum, fsync and the rename; Mitogen's file service has
none of them, so that its file is opened, written and closed.
"""

import sys
import time

from ..shipped import shipped
from ..workers import serve


def by_roamlet(python: str, source: str, target: str) -> float:
    """Seconds of one transfer in a context that has been called before."""
    from roamlet import remote

    with remote.local(python=python) as context:
        context.call(shipped("no_op").no_op)
        return context.put(source, target).seconds


def by_mitogen(python: str, source: str, target: str) -> float:
    """The same, pulled by the target from the file service of this process."""
    import mitogen.master
    import mitogen.service

    broker = mitogen.master.Broker()
    router = mitogen.master.Router(broker)
    service = mitogen.service.FileService(router)
    pool = mitogen.service.Pool(router, services=[service])
    try:
        service.register(source)
        context = router.local(python_path=python)
        fetch = shipped("fetch_file")
        context.call(fetch.nothing)
        began = time.monotonic()
        context.call(fetch.fetch, router.myself(), source, target)
        seconds = time.monotonic() - began
        context.shutdown(wait=True)
        return seconds
    finally:
        pool.stop()
        broker.shutdown()
        broker.join()


if __name__ == "__main__":
    serve({"send": {"roamlet": by_roamlet, "mitogen": by_mitogen}[sys.argv[1]]})
