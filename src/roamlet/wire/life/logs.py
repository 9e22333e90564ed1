"""Records of the standard logging module become LOG frames.

logging itself is imported only by code that logs: that costs 10 milliseconds.
"""

import sys

from roamlet.wire import codec, protocol

_LONGEST = 1 << 18  # characters of a message or traceback: what a parent takes on the thread that all contexts share
_LONGEST_NAME = 500


def forward(link, level, importer):
    """Give the root logger `level` and a handler that sends records to the parent, as soon as logging is imported."""

    def install():
        _install(link, level)

    if "logging" in sys.modules:
        install()
    else:
        importer.watch("logging", install)


def _install(link, level):
    logging = sys.modules["logging"]

    class Forwarder(logging.Handler):
        """Sends each record. A record that cannot be formatted is reported as logging does it, on standard error."""

        def emit(self, record):
            try:
                trace = None
                if record.exc_info and record.exc_info[0] is not None:
                    trace = record.exc_text or logging.Formatter().formatException(record.exc_info)
                body = codec.dumps(
                    (
                        text(record.name)[:_LONGEST_NAME],
                        int(record.levelno),
                        shortened(text(record.getMessage())),
                        float(record.created),
                        text(record.pathname),
                        int(record.lineno or 0),
                        text(record.threadName),
                        trace and shortened(text(trace)),
                    )
                )
                link.send(protocol.LOG, 0, body)
            except EnvironmentError:
                return  # the link is lost; the reader ends the process
            except Exception:
                self.handleError(record)

    logging.root.addHandler(Forwarder())
    logging.root.setLevel(level)


def text(value):
    """Return `value`, a string of any kind, as one that travels as text."""
    if isinstance(value, codec.text_type):
        return codec.text_type(value)
    if isinstance(value, bytes):
        return value.decode("utf-8", "replace")
    return codec.text_type(value)


def shortened(value, longest=_LONGEST):
    """Return a text with its middle left out, as it then says, when it is longer than `longest` characters."""
    if len(value) <= longest:
        return value
    half = longest // 2
    return value[:half] + "\n  ... %d characters left out ...\n" % (len(value) - 2 * half) + value[-half:]
