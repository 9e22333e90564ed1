"""Spans of OpenTelemetry for the calls into contexts. Needs `roamlet[metrics]`.

A span is made for each call of a function, by call(), spawn(), iterate(), acall() and in chains. The trace context goes to the
target with the call, so that what runs there, and has OpenTelemetry imported, makes spans below it: also on a target that is
reached through others, and in contexts which that function opens, where it calls instrument() itself.
"""

from typing import Any

from opentelemetry import trace

from roamlet import _observing as observing
from roamlet._version import VERSION
from roamlet.remote.values.registry import Incoming
from roamlet.wire import protocol

__all__ = ["instrument", "uninstrument"]

_spans: "list[_Spans]" = []  # one while it is instrumented


def instrument(tracer_provider: trace.TracerProvider | None = None) -> None:
    """Make a span of each call into a context from now on; `tracer_provider`: None for the global one.

    Spans have the kind CLIENT and are named as the called function; attributes are rpc.system.name ("roamlet"), rpc.method (the
    function), server.address (the context's name) and, of calls that fail, error.type; the error is an event with the traceback of
    the target. The parent is the caller's current span. A further call replaces the provider. Does not block; thread-safe.
    """
    uninstrument()
    spans = _Spans(trace.get_tracer("roamlet", VERSION, tracer_provider))
    _spans.append(spans)
    observing.add(spans)


def uninstrument() -> None:
    """Make no more of them; those of calls in flight end with their calls. Idempotent."""
    while _spans:
        observing.remove(_spans.pop())


class _Spans(observing.Observer):
    def __init__(self, tracer: trace.Tracer) -> None:
        self._tracer = tracer

    def prepared(self, calls: Any, text: str) -> "_Span | None":
        attributes = {"rpc.system.name": "roamlet", "rpc.method": text, "server.address": str(calls.name)}
        span = self._tracer.start_span(text, kind=trace.SpanKind.CLIENT, attributes=attributes)
        return _Span(span) if span.get_span_context().is_valid else None  # there is no provider


class _Span:
    """One call; see observing.Observed."""

    def __init__(self, span: trace.Span) -> None:
        self._span: trace.Span | None = span
        context = span.get_span_context()
        self.carrier = f"00-{context.trace_id:032x}-{context.span_id:016x}-{context.trace_flags:02x}"
        if context.trace_state:
            self.carrier += f"\n{context.trace_state.to_header()}"

    def answered(self, answer: tuple[int, Any]) -> None:
        kind, body = answer
        if kind == protocol.ERROR:
            self._end(*_told(body))
        else:
            self._end()

    def failed(self, error: BaseException | None) -> None:
        self._end(_name_of(type(error)), str(error)) if error is not None else self._end("_OTHER", "it was not sent")

    def _end(self, kind: str = "", text: str = "", traceback: str = "") -> None:
        span, self._span = self._span, None
        if span is None:
            return
        if kind:
            span.set_attribute("error.type", kind)
            about = {"exception.type": kind, "exception.message": text, "exception.stacktrace": traceback}
            span.add_event("exception", {name: value for name, value in about.items() if value})
            span.set_status(trace.StatusCode.ERROR, text)
        span.end()


def _told(body: Any) -> tuple[str, str, str]:
    """Type, text and traceback of an error, as the target has told them; its objects are not made."""
    try:
        said = Incoming().loads(body, lambda number: None)
        kind, module = str(said["type"]), str(said["module"])
        name = kind if module in ("", "builtins") else f"{module}.{kind}"
        return name or str(said["reason"]), str(said["text"]), str(said["traceback"])
    except Exception:  # it holds what may not be made here: the caller gets an error for it
        return "_OTHER", "", ""


def _name_of(kind: type) -> str:
    return kind.__qualname__ if kind.__module__ == "builtins" else f"{kind.__module__}.{kind.__qualname__}"
