"""Where tasklets waited, in speedscope's own format: a flame graph by reason and place, one profile for each thread.

The trace of chrome.py opens there too, and shows when; this one shows how much.
"""

import json
from collections import defaultdict
from typing import Any, TextIO

from roamlet.diagnose.tracing.recording import Place
from roamlet.diagnose.tracing.timeline import WAITS, Timeline


def write(file: TextIO, lines: list[Timeline]) -> None:
    """Write the profiles, the threads of this process first."""
    frames: dict[tuple[str, str | None, int], int] = {}
    profiles = []
    for line in lines:
        for thread in line.recording.threads:
            weights: dict[tuple[int, ...], int] = defaultdict(int)
            for track in line.tracks.values():
                if track.thread != thread.ident:
                    continue
                root = _frame(frames, Place(track.name or "tasklet", None, 0))
                for stretch in track.stretches:
                    if stretch.state != WAITS:
                        continue
                    places = [place for place in (stretch.caller, stretch.place) if place is not None]
                    reason = Place(f"waits: {stretch.why}", None, 0)
                    stack = (root, *(_frame(frames, place) for place in [*places, reason]))
                    weights[stack] += stretch.end - stretch.begin
            if weights:
                profiles.append(_profile(f"waits in {line.recording.process}, {thread.name}", weights))
    json.dump(
        {
            "$schema": "https://www.speedscope.app/file-format-schema.json",
            "exporter": "roamlet trace",
            "name": "waits of tasklets",
            "activeProfileIndex": 0,
            "shared": {"frames": [_described(*key) for key in frames]},
            "profiles": profiles,
        },
        file,
    )


def _frame(frames: dict[tuple[str, str | None, int], int], place: Place) -> int:
    return frames.setdefault((place.name, place.file, place.line), len(frames))


def _described(name: str, file: str | None, line: int) -> dict[str, Any]:
    return {"name": name, "file": file, "line": line} if file else {"name": name}


def _profile(name: str, weights: dict[tuple[int, ...], int]) -> dict[str, Any]:
    stacks = sorted(weights)
    return {
        "type": "sampled",
        "name": name,
        "unit": "nanoseconds",
        "startValue": 0,
        "endValue": sum(weights.values()),
        "samples": [list(stack) for stack in stacks],
        "weights": [weights[stack] for stack in stacks],
    }
