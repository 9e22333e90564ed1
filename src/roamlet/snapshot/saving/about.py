"""The description of a checkpoint in its header: plain data that can be shown without running anything of what it holds.

| key | what |
| --- | --- |
| `path` | the file, as the job named it |
| `saved` | when, in seconds since 1970 |
| `process`, `folder`, `arguments` | its number, `sys.path[0]` and `sys.argv` there |
| `script`, `module` | the file that was `__main__`, and its module's name under `python -m`; None: there was none |
| `classes` | names of the classes of `__main__` that are needed |
| `left_out` | names of the context variables that were left out |
| `code` | (file, qualified name, names of the variables) of each code object |
| `lines` | {(number of the code, line): the line's text} |
| `stacks` | for each tasklet that has begun, in the order of the pickles: (number of the code, line), the outermost first |
"""

import linecache
import os
import sys
import time
import types
from typing import Any

from roamlet.snapshot.saving.frames import line_of, variable_names
from roamlet.snapshot.saving.saver import Saver


def about(saver: Saver, path: str | bytes, classes: set[str]) -> dict[str, Any]:
    """The description of a checkpoint that the saver has written."""
    main = sys.modules.get("__main__")
    file = getattr(main, "__file__", None)
    spec = getattr(main, "__spec__", None)
    stacks = _Stacks(saver)
    return {
        "path": path,
        "saved": time.time(),
        "process": os.getpid(),
        "folder": os.path.abspath(sys.path[0]) if sys.path else None,
        "arguments": [str(each) for each in sys.argv],
        "script": os.path.abspath(file) if isinstance(file, str) else None,
        "module": getattr(spec, "name", None),
        "classes": sorted(classes),
        "left_out": sorted(variable.name for variable in saver.left_out),
        "stacks": [stacks.of(records) for _, records in saver.captured],
        "code": [(code.co_filename, code.co_qualname, tuple(variable_names(code))) for code in stacks.numbers],
        "lines": stacks.lines,
    }


class _Stacks:
    """Names and numbers for the code in frames; each is looked at once."""

    def __init__(self, saver: Saver) -> None:
        self.functions = saver.functions_by_number()
        self.numbers: dict[types.CodeType, int] = {}
        self.lines: dict[tuple[int, int], str] = {}
        self._places: dict[tuple[int, int], tuple[int, int]] = {}

    def of(self, records: list[tuple[Any, ...]]) -> list[tuple[int, int]]:
        return [self._place(self.functions.get(named, named).__code__, unit) for named, unit, *_ in records]

    def _place(self, code: types.CodeType, unit: int) -> tuple[int, int]:
        number = self.numbers.setdefault(code, len(self.numbers))
        place = self._places.get((number, unit))
        if place is None:
            place = self._places[number, unit] = number, line_of(code, unit) or 0
            self.lines[place] = linecache.getline(code.co_filename, place[1]).strip()
        return place
