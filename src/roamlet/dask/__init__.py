"""Dask on hosts where nothing is installed: a cluster whose workers start in contexts, from memory.

    from roamlet.dask import Cluster

    with Cluster(["alpha", "beta"], workers_per_host=4) as cluster, cluster.get_client() as client:
        print(client.submit(pow, 2, 10).result())

What starts, places and ends workers is here; everything else is Dask's own.
"""

try:
    import cryptography as _cryptography
    import distributed as _distributed
except ImportError as _error:
    raise ImportError(
        f"roamlet.dask needs Dask and cryptography in this process ({_error}); hosts need neither.\n"
        "    pip install 'roamlet[dask]'"
    ) from None

from roamlet.dask.cluster import Cluster
from roamlet.dask.worker import ContextWorker

__all__ = ["Cluster", "ContextWorker"]

del _cryptography, _distributed
