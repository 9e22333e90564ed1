"""Spans of calls: made by the API with the real SDK, exported into memory; the trace context on targets."""

import math
import os
import time

import pytest
from opentelemetry import trace
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.sdk.trace.sampling import ALWAYS_OFF
from opentelemetry.trace import NonRecordingSpan, SpanContext, SpanKind, StatusCode, TraceFlags, TraceState

from roamlet import _observing as observing
from roamlet import remote
from roamlet.diagnose import opentelemetry
from roamlet.diagnose.tracing import Trace
from roamlet.wire import build
from roamlet.wire.calls import traced
from tests.diagnose import telemetry


@pytest.fixture
def spans():
    """spans(): those that have ended, since the last look. Calls are instrumented."""
    exporter, provider = InMemorySpanExporter(), TracerProvider(shutdown_on_exit=False)
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    opentelemetry.instrument(provider)

    def ended():
        found = exporter.get_finished_spans()
        exporter.clear()
        return found

    yield ended
    opentelemetry.uninstrument()
    assert observing.observer is None


@pytest.fixture(scope="module")
def alpha():
    with remote.local(name="alpha") as context:
        yield context


def key(span):
    return span.context.trace_id, span.context.span_id


def test_a_call_is_a_span_of_a_client(alpha, spans):
    assert alpha.call(math.sqrt, (16,)) == 4
    (span,) = spans()
    assert (span.name, span.kind, span.parent) == ("math.sqrt", SpanKind.CLIENT, None)
    assert dict(span.attributes) == {"rpc.system.name": "roamlet", "rpc.method": "math.sqrt", "server.address": "alpha"}
    assert (span.status.status_code, span.events) == (StatusCode.UNSET, ())
    assert span.end_time >= span.start_time
    assert span.instrumentation_scope.name == "roamlet"


def test_spans_of_the_target_are_below_it_through_chains_of_contexts_too(alpha, spans):
    with remote.local(name="beta", via=alpha) as beta:
        for context in (alpha, beta):
            inner = context.call(telemetry.makes_a_span)
            (span,) = spans()
            assert inner == (*key(span), True)
            assert span.attributes["server.address"] == context.name


def test_it_is_below_the_span_of_its_caller_whose_state_travels(alpha, spans):
    state = TraceState([("vendor", "value")])
    parent = NonRecordingSpan(SpanContext(1 << 90, 77, True, TraceFlags(1), state))
    with trace.use_span(parent):
        number, own, header = alpha.call(telemetry.current)
    (span,) = spans()
    assert (number, own) == key(span) == (1 << 90, span.context.span_id)
    assert span.parent.span_id == 77
    assert header == "vendor=value"


def test_all_ways_to_call(alpha, spans):
    assert alpha.spawn(telemetry.current).join()[:2] == key(*spans())
    assert {each[:2] for each in alpha.iterate(telemetry.gives, (3,))} == {key(*spans())}
    with alpha.chain() as chain:
        first = chain.spawn(telemetry.current)
        second = chain.call(telemetry.current)
    assert [first.join()[:2], second[:2]] == [key(span) for span in spans()]
    here = telemetry.current
    value = 5
    assert alpha.call(lambda: (here(), value))[0][:2] == key(*spans())
    assert alpha.call(len, (bytearray(3 << 20),)) == 3 << 20
    assert [span.name for span in spans()] == ["builtins.len"]


def test_where_calls_are_tasklets(spans):
    with remote.local(name="gamma", tasklets=True) as gamma:
        calls = [gamma.spawn(telemetry.current) for _ in range(5)]
        found = {call.join()[:2] for call in calls}
    ended = spans()
    assert len(found) == 5
    assert found == {key(span) for span in ended}


def test_nothing_is_left_of_it_on_the_target(alpha, spans):
    assert alpha.call(telemetry.current)[0]
    spans()
    opentelemetry.uninstrument()
    assert alpha.call(telemetry.current) == (0, 0, "")
    assert spans() == ()


def test_an_error_is_that_of_the_target(alpha, spans):
    for call in (lambda: alpha.call(telemetry.fails), lambda: alpha.spawn(telemetry.fails).join()):
        with pytest.raises(LookupError, match="it is not there"):
            call()
        (span,) = spans()
        assert (span.status.status_code, span.status.description) == (StatusCode.ERROR, "it is not there")
        assert span.attributes["error.type"] == "LookupError"
        (event,) = span.events
        assert event.name == "exception"
        assert event.attributes["exception.type"] == "LookupError"
        assert ", in fails\n" in event.attributes["exception.stacktrace"]
        assert "traced" not in event.attributes["exception.stacktrace"]


def test_errors_are_the_same_as_without(alpha, spans):
    def told():
        problems = []
        for function, args in ((_Gone.method, ()), (print, (object(),)), (telemetry.gives, (1,)), (os.kill, (1, "x"))):
            try:
                alpha.call(function, args)
            except Exception as error:
                problems.append((type(error), str(error)))
        return problems

    instrumented = told()
    assert len(instrumented) == 4
    assert [span.status.status_code for span in spans()] == [StatusCode.ERROR] * 4
    opentelemetry.uninstrument()
    assert told() == instrumented


class _Gone:
    def method(self):
        pass


def test_calls_that_get_no_answer(spans):
    with remote.local(name="delta") as delta:
        with pytest.raises(remote.CallTimeout):
            delta.call(time.sleep, (30,), timeout=0.05)
        (span,) = spans()
        assert span.attributes["error.type"] == "roamlet.remote.errors.CallTimeout"
        with pytest.raises(remote.ContextDied):
            delta.call(os._exit, (1,))
        with pytest.raises(remote.RemoteError):
            delta.call(len, ("x",))
        with pytest.raises(remote.RemoteError):
            delta.spawn(len, ("x",)).join()
    late, died, closed = spans()
    assert late.attributes["error.type"] == "roamlet.remote.errors.ContextDied"
    assert {died.status.status_code, closed.status.status_code} == {StatusCode.ERROR}


def test_without_a_provider_and_without_sampling_calls_are_as_they_are(alpha, spans):
    opentelemetry.instrument(trace.NoOpTracerProvider())
    assert alpha.call(telemetry.current) == (0, 0, "")
    opentelemetry.instrument(TracerProvider(sampler=ALWAYS_OFF, shutdown_on_exit=False))
    assert alpha.call(telemetry.current)[0] != 0
    assert spans() == ()


def test_a_target_that_has_no_opentelemetry(spans, monkeypatch):
    assert traced.attach("garbage") is None
    monkeypatch.delitem(traced.sys.modules, "opentelemetry.trace")
    assert traced.attach(f"00-{1:032x}-{1:016x}-01") is None
    with remote.local(name="bare", modules=remote.Modules(deny=["opentelemetry"])) as bare:
        assert bare.call(len, ("abc",)) == 3


def test_a_trace_at_the_same_time(spans):
    with Trace() as taken, remote.local(name="epsilon") as epsilon:
        assert epsilon.call(telemetry.current)[:2] == key(*spans())
        opentelemetry.uninstrument()
        epsilon.call(math.sqrt, (4,))
    calls = [span for span in taken.recordings[0].spans if span.kind == "remote call"]
    assert [span.name for span in calls] == ["tests.diagnose.telemetry.current", "math.sqrt"]
    assert all(span.details["on the target (ms)"] >= 0 for span in calls)


def test_calls_of_roamlet_s_own_are_no_spans(alpha, spans, tmp_path):
    (tmp_path / "file").write_text("x")
    alpha.put(tmp_path / "file", str(tmp_path / "copy"))
    alpha.heartbeat(30)
    alpha.heartbeat(None)
    assert spans() == ()


def test_the_start_is_no_larger_for_it():
    assert "calls.traced" in build.PARTS
    assert not any("traced" in str(name) for name in build.MODULES)
