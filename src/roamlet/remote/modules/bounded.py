"""A cache that forgets what was used longest ago; for several threads. Those of the whole package are emptied here, too."""

import weakref
from collections import OrderedDict
from collections.abc import Callable, Hashable
from typing import Any, Generic, TypeVar

from roamlet.core.os_threads import allocate_lock

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")


class Bounded(Generic[K, V]):
    """A mapping whose entries weigh at most `limit` together; each weighs 1, or what `weight` says.

    Thread-safe; no call but `of` blocks longer than a dictionary's own work. A value that alone weighs more than the limit is not
    kept.
    """

    def __init__(self, limit: int, weight: Callable[[V], int] = lambda value: 1) -> None:
        self._limit = limit
        self._weight = weight
        self._total = 0
        self._entries: OrderedDict[K, V] = OrderedDict()
        self._lock = allocate_lock()
        _caches.add(self)

    def get(self, key: K) -> V | None:
        """The value, which counts as used now, or None."""
        with self._lock:
            value = self._entries.get(key)
            if value is not None:
                self._entries.move_to_end(key)
            return value

    def of(self, key: K, make: Callable[[], V]) -> V:
        """The value, from `make()` if it is not here; kept then. Several threads may make it at the same time."""
        value = self.get(key)
        if value is None:
            value = make()
            self.put(key, value)
        return value

    def put(self, key: K, value: V) -> None:
        """Keep `value`, and forget what was used longest ago until all fits."""
        weight = self._weight(value)
        with self._lock:
            old = self._entries.pop(key, None)
            if old is not None:
                self._total -= self._weight(old)
            if weight > self._limit:
                return
            self._entries[key] = value
            self._total += weight
            while self._total > self._limit:
                _, dropped = self._entries.popitem(last=False)
                self._total -= self._weight(dropped)

    def clear(self) -> None:
        """Forget everything."""
        with self._lock:
            self._entries.clear()
            self._total = 0

    def __len__(self) -> int:
        return len(self._entries)


_caches: "weakref.WeakSet[Bounded[Any, Any]]" = weakref.WeakSet()


def trim() -> None:
    """Empty all caches; the next call pays for finding, scanning and compressing again."""
    for cache in _caches:
        cache.clear()


def renew() -> None:
    """Make all caches usable in a forked process, whose other threads may have held their locks and are gone."""
    for cache in _caches:
        cache._lock = allocate_lock()
