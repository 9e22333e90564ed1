"""The measured side of a measuring process: questions come in, one line of JSON each, and answers go out. Standard library only.

The answers travel on a descriptor of their own: whatever the measured library prints goes to stderr and disturbs nothing.
"""

import json
import os
from collections.abc import Callable, Mapping
from typing import Any


def serve(handlers: Mapping[str, Callable[..., Any]]) -> None:
    """Answer questions until the asking side closes our input. An exception is the answer to its question; we go on."""
    answers = os.fdopen(os.dup(1), "w")
    questions = os.fdopen(os.dup(0))
    os.dup2(2, 1)
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)
    os.close(nothing)
    for line in questions:
        question, arguments = json.loads(line)
        try:
            answer = ["value", handlers[question](**arguments)]
        except Exception as error:
            answer = ["error", f"{type(error).__name__}: {error}"]
        answers.write(json.dumps(answer) + "\n")
        answers.flush()
