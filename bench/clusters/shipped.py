"""The workloads: each a function of the client that returns a number to compare."""

from collections.abc import Callable
from typing import Any


def array(client: Any) -> float:
    import dask.array

    numbers = dask.array.arange(16_000_000, chunks=1_000_000, dtype=float).reshape(4000, 4000).rechunk((1000, 1000))
    return float((numbers + numbers.T).mean().compute())


def _table(number: int) -> Any:
    import pandas

    rows = range(number * 50_000, (number + 1) * 50_000)
    return pandas.DataFrame({"key": [row * 7919 % 5000 for row in rows], "value": list(rows)})


def groupby(client: Any) -> float:
    import dask.dataframe

    table = dask.dataframe.from_map(_table, range(16), meta={"key": "i8", "value": "i8"})
    return float(table.groupby("key").value.mean().compute().sum())


def join(client: Any) -> float:
    import dask.dataframe

    table = dask.dataframe.from_map(_table, range(6), meta={"key": "i8", "value": "i8"})
    other = dask.dataframe.from_map(_table, range(4), meta={"key": "i8", "value": "i8"}).drop_duplicates("value")
    return float(table.merge(other, on="value", shuffle_method="tasks").key_x.sum().compute())


def _one_more(number: int) -> int:
    return number + 1


def tiny(client: Any) -> float:
    return float(sum(client.gather(client.map(_one_more, range(2000), pure=False))))


WORKLOADS: dict[str, Callable[[Any], float]] = {"array": array, "groupby": groupby, "join": join, "tiny": tiny}
