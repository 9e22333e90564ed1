"""A timeline of what tasklets do: recorded by the core in a bounded buffer, written for Perfetto, speedscope or as a page."""

from roamlet.diagnose.tracing.taking import Trace

__all__ = ["Trace"]
