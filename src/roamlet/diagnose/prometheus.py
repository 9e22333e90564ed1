"""Counters of this process for Prometheus: a collector for prometheus_client over diagnose.metrics(). Needs `roamlet[metrics]`.

from roamlet.diagnose import prometheus
prometheus.Collector()
prometheus_client.start_http_server(9100)
"""

from collections.abc import Iterator

from prometheus_client.core import REGISTRY, CounterMetricFamily, GaugeMetricFamily
from prometheus_client.metrics_core import Metric
from prometheus_client.registry import Collector as BaseCollector
from prometheus_client.registry import CollectorRegistry

from roamlet.diagnose.counting import BLOCKED_IN, metrics

__all__ = ["Collector"]

GAUGES = {
    "threads": "Threads that have used roamlet.",
    "tasklets": "Tasklets that have begun and not ended, the main ones included.",
    "runnable": "Tasklets in run queues, those that run included.",
    "timers": "Timers that are set.",
    "waits": "Waits for descriptors, jobs and timers.",
}
COUNTERS = {
    "switches": "How often tasklets have come to where others may run.",
    "messages": "Values that have passed through channels.",
}
OF_CONTEXTS = {
    "calls": "Calls that were sent to a context.",
    "modules": "Modules that were sent to a context.",
    "round_trips": "Round trips that an import on the target has waited for.",
}


class Collector(BaseCollector):
    """Registers itself in `registry`; None: in the one that prometheus_client serves by default. `register=False`: in none.

    collect() never blocks or switches, and takes a millisecond for some 100,000 tasklets. Thread-safe. Raises ValueError where the
    registry has these metrics already.
    """

    def __init__(self, registry: CollectorRegistry | None = None, *, register: bool = True) -> None:
        if register:
            (registry or REGISTRY).register(self)

    def describe(self) -> Iterator[Metric]:
        """The metrics without values, for the registry."""
        for metric in self.collect():
            metric.samples = []
            yield metric

    def collect(self) -> Iterator[Metric]:
        """The metrics of this moment."""
        found = metrics()
        for name, text in GAUGES.items():
            yield GaugeMetricFamily(f"roamlet_{name}", text, value=found[name])
        for name, text in COUNTERS.items():
            yield CounterMetricFamily(f"roamlet_{name}", text, value=found[name])
        blocked = GaugeMetricFamily("roamlet_blocked_tasklets", "Tasklets that wait, by what in.", labels=["wait"])
        for name in BLOCKED_IN:
            blocked.add_metric([name], found["blocked"][name])
        yield blocked
        workers = GaugeMetricFamily("roamlet_worker_threads", "Worker threads, by what they do.", labels=["state"])
        for state in ("busy", "idle"):
            workers.add_metric([state], found["workers"][state])
        yield workers
        yield GaugeMetricFamily(
            "roamlet_worker_jobs_queued", "Jobs that wait for a worker thread.", value=found["workers"]["queued"]
        )
        contexts = found["contexts"]
        in_flight = GaugeMetricFamily(
            "roamlet_context_calls_in_flight", "Calls that a context has not answered yet.", labels=["context"]
        )
        for name, counts in contexts.items():
            in_flight.add_metric([name], counts["calls_in_flight"])
        yield in_flight
        for counter, text in OF_CONTEXTS.items():
            family = CounterMetricFamily(f"roamlet_context_{counter}", text, labels=["context"])
            for name, counts in contexts.items():
                family.add_metric([name], counts[counter])
            yield family
        carried = CounterMetricFamily(
            "roamlet_context_bytes", "Bytes that went to and from a context.", labels=["context", "direction"]
        )
        for name, counts in contexts.items():
            carried.add_metric([name, "down"], counts["bytes_down"])
            carried.add_metric([name, "up"], counts["bytes_up"])
        yield carried
