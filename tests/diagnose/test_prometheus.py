"""A scrape of this process's counters, by prometheus_client's own server, over loopback."""

import threading
import urllib.request

import prometheus_client
import pytest
from prometheus_client.parser import text_string_to_metric_families

import roamlet
from roamlet import remote
from roamlet.diagnose import prometheus
from roamlet.diagnose.counting import metrics


def samples(registry):
    """Each sample's value by its name and labels, of a scrape by way of a socket."""
    server, thread = prometheus_client.start_http_server(0, "127.0.0.1", registry)
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{server.server_port}/metrics", timeout=30) as answer:
            text = answer.read().decode()
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
    return {
        (sample.name, *sorted(sample.labels.items())): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
    }


def test_a_scrape():
    registry = prometheus_client.CollectorRegistry()
    prometheus.Collector(registry)
    channel = roamlet.channel()
    tasklet = roamlet.tasklet(channel.receive)()
    tasklet.run()
    with remote.local(name="alpha") as alpha:
        alpha.call(len, ("abc",))
        before = metrics()
        found = samples(registry)
    channel.send(None)
    context = ("context", "alpha")
    assert found["roamlet_tasklets",] == before["tasklets"] >= 2
    assert found["roamlet_blocked_tasklets", ("wait", "receive")] >= 1
    assert found["roamlet_switches_total",] >= before["switches"]
    assert found["roamlet_messages_total",] == before["messages"]
    assert found["roamlet_worker_threads", ("state", "busy")] == 0
    assert found["roamlet_context_calls_total", context] == before["contexts"]["alpha"]["calls"]
    assert found["roamlet_context_calls_in_flight", context] == 0
    for direction in ("down", "up"):
        assert (
            found["roamlet_context_bytes_total", context, ("direction", direction)]
            == before["contexts"]["alpha"][f"bytes_{direction}"]
        )
    assert {name for name, *_ in found} == {
        "roamlet_threads",
        "roamlet_tasklets",
        "roamlet_runnable",
        "roamlet_timers",
        "roamlet_waits",
        "roamlet_switches_total",
        "roamlet_messages_total",
        "roamlet_blocked_tasklets",
        "roamlet_worker_threads",
        "roamlet_worker_jobs_queued",
        "roamlet_context_calls_in_flight",
        "roamlet_context_calls_total",
        "roamlet_context_modules_total",
        "roamlet_context_round_trips_total",
        "roamlet_context_bytes_total",
    }


def test_counters_grow_though_threads_end():
    registry = prometheus_client.CollectorRegistry()
    prometheus.Collector(registry)
    go, done = threading.Event(), threading.Event()

    def switches():
        for _ in range(50):
            roamlet.tasklet(lambda: None)()
            roamlet.run()
        done.set()
        go.wait()

    thread = threading.Thread(target=switches)
    thread.start()
    done.wait()
    busy = registry.get_sample_value("roamlet_switches_total")
    counted = metrics()
    go.set()
    thread.join()
    for name in ("switches", "messages"):
        assert counted[name] <= metrics()[name] < counted[name] + 100
    assert registry.get_sample_value("roamlet_switches_total") >= busy


def test_it_is_registered_once_where_it_is_told_to_be():
    registry = prometheus_client.CollectorRegistry()
    collector = prometheus.Collector(registry)
    with pytest.raises(ValueError, match="Duplicated timeseries"):
        prometheus.Collector(registry)
    registry.unregister(collector)
    assert prometheus.Collector(registry, register=False)
    assert registry.get_sample_value("roamlet_tasklets") is None
    everybody_s = prometheus.Collector()
    assert prometheus_client.REGISTRY.get_sample_value("roamlet_tasklets") >= 1
    prometheus_client.REGISTRY.unregister(everybody_s)
