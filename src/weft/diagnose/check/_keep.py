"""`# weft: keep`: the comments by which somebody accepts a finding."""

import io
import re
import tokenize

__all__ = ["kept_lines"]

KEEP = re.compile(r"#\s*weft:\s*keep\b")


def kept_lines(text: str) -> frozenset[int]:
    """The lines that have such a comment; in a string it is none."""
    if not KEEP.search(text):
        return frozenset()
    tokens = tokenize.generate_tokens(io.StringIO(text).readline)
    return frozenset(token.start[0] for token in tokens if token.type == tokenize.COMMENT and KEEP.search(token.string))
