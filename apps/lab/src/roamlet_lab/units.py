"""Times and shares as people write them on a command line."""

import argparse
import re

UNITS = {"us": 1e-6, "ms": 1e-3, "s": 1.0}


def seconds(text: str) -> float:
    """Read "80ms", "0.08s" or "500us". Raises argparse.ArgumentTypeError, whose message argparse prints."""
    found = re.fullmatch(r"(\d+(?:\.\d+)?)(us|ms|s)", text.strip())
    if found is None:
        raise argparse.ArgumentTypeError(f"{text!r} is no time; give a number and us, ms or s, for example 80ms")
    return float(found[1]) * UNITS[found[2]]


def share(text: str) -> float:
    """Read "1%" or "0.01". Raises argparse.ArgumentTypeError, whose message argparse prints."""
    found = re.fullmatch(r"(\d+(?:\.\d+)?)(%?)", text.strip())
    value = float(found[1]) / (100 if found[2] else 1) if found else -1
    if not 0 <= value <= 1:
        raise argparse.ArgumentTypeError(f"{text!r} is no share; give a percentage, for example 1%")
    return value


def in_seconds(value: float) -> str:
    """A time for people."""
    return f"{value:g} s" if value >= 1 else f"{value * 1000:g} ms"


def in_percent(value: float) -> str:
    """A share for people."""
    return f"{value * 100:g} %"
