"""Calls with a trace context, for roamlet.diagnose.opentelemetry: sent to a context before the first of them.

Such a call has a fifth item: the value of a W3C traceparent header, and in a second line that of tracestate. What runs in it has
that as the parent of its spans, where OpenTelemetry is imported on the target by then; nothing of it is imported for that.
"""

import sys

from roamlet.wire import protocol
from roamlet.wire.calls import calls


def run(self, frame):
    """As calls.Calls._run, which this replaces."""
    if frame[3] == protocol.CANCEL:
        self._let_go(frame)
        return
    reason = protocol.ERROR_MESSAGE
    self.here.number = frame[2]
    attached = None
    try:
        called = self.loads(frame[4])
        module, name, args, kwargs = called[:4]
        reason = protocol.ERROR_IMPORT
        function = calls._module(str(module))
        reason = protocol.ERROR_FUNCTION
        for part in str(name).split("."):
            function = getattr(function, part)
        reason = protocol.ERROR_RAISED
        if len(called) > 4:
            if module == "roamlet.wire.channels":  # a stream: the function is called by it
                calls._module(str(args[1]))
            attached = attach(str(called[4]))
        value = function(*args, **kwargs) if kwargs else function(*args)
        reason = protocol.ERROR_RESULT
        kind, body = protocol.RESULT, self.dumps(value, "result")
    except BaseException:
        # Whatever a call raises belongs to its caller: sys.exit() too.
        kind, body = protocol.ERROR, calls._describe_somehow(reason)
    if attached is not None:
        attached[0].detach(attached[1])
    value = args = kwargs = function = called = attached = None
    self.here.number = None
    self._answer(frame, kind, body)


def attach(header):
    """Make the span of this header the current one; return (opentelemetry.context, what ends that), or None where it cannot be."""
    trace, context = sys.modules.get("opentelemetry.trace"), sys.modules.get("opentelemetry.context")
    try:
        header, _, state = header.partition("\n")
        _, number, span, flags = header.split("-")
        state = trace.TraceState.from_header([state] if state else [])
        parent = trace.SpanContext(int(number, 16), int(span, 16), True, trace.TraceFlags(int(flags, 16)), state)
        return context, context.attach(trace.set_span_in_context(trace.NonRecordingSpan(parent)))
    except Exception:  # it is not imported, or is another version: the call does without
        return None


def install(child):
    type(child.pool)._run = run
