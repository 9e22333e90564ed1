"""What runs in contexts that are called with a trace context: it imports OpenTelemetry."""

from opentelemetry import trace
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter


def makes_a_span():
    """Make a span; return its trace, its parent's number, and whether that is another process's."""
    exporter, provider = InMemorySpanExporter(), TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    with provider.get_tracer("test").start_as_current_span("inner"):
        pass
    (span,) = exporter.get_finished_spans()
    return span.context.trace_id, span.parent.span_id, span.parent.is_remote


def current():
    context = trace.get_current_span().get_span_context()
    return context.trace_id, context.span_id, context.trace_state.to_header()


def gives(count):
    for _ in range(count):
        yield current()


def fails():
    raise LookupError("it is not there")
