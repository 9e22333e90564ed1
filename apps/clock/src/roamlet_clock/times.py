"""Times as people read them, the same in every time zone."""

from datetime import UTC, datetime


def when(epoch: float) -> str:
    """UTC, as a person reads it; what no calendar holds as a number."""
    try:
        return datetime.fromtimestamp(epoch, UTC).strftime("%Y-%m-%d %H:%M:%S UTC")
    except (OverflowError, ValueError, OSError):
        return f"@{epoch:.0f}"


def ago(seconds: float) -> str:
    """`4 min ago`; `in 2 h` for what is to come."""
    size = abs(seconds)
    for unit, length in (("d", 86400), ("h", 3600), ("min", 60)):
        if size >= 2 * length:
            words = f"{size / length:.0f} {unit}"
            break
    else:
        words = f"{size:.0f} s"
    return f"{words} ago" if seconds >= 0 else f"in {words}"
