"""The process that measures one peer's core figures: `python -m bench.core.worker PEER`, asked through bench.workers."""

import gc
import sys
from collections.abc import Callable
from functools import partial

from ..workers import serve
from . import FIGURES, unit


def seconds(way: Callable[[int], float], operations: int) -> float:
    gc.collect()
    return way(operations)


def about(peer: str) -> dict[str, str]:
    """What the peer reports about itself, beyond its version. Imports it, so a peer that is not installed fails here."""
    if peer == "roamlet":
        import roamlet  # here, because each process measures one peer and must not carry the others

        return {"backend": str(getattr(roamlet.core, "backend", "unknown"))} if hasattr(roamlet, "core") else {}
    if peer in ("greenlet", "gevent"):
        __import__(peer)
    return {}


def main(peer: str) -> None:
    gc.disable()
    ways = {name: figure.peers[peer] for name, figure in FIGURES.items() if peer in figure.peers}
    handlers: dict[str, Callable[..., object]] = {name: partial(seconds, way) for name, way in ways.items()}
    handlers["unit"] = partial(seconds, unit.generator_send)
    handlers["about"] = partial(about, peer)
    gc.freeze()
    serve(handlers)


if __name__ == "__main__":
    main(*sys.argv[1:])
