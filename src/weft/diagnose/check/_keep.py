"""`# weft: keep`: the comments by which somebody accepts a finding."""

import io
import re
import tokenize

__all__ = ["kept_lines"]

KEEP = re.compile(r"#\s*weft:\s*keep\b")


def kept_lines(text: str) -> frozenset[int]:
    """The lines that have such a comment; in a string it is none. Of what is no source, those before it breaks off."""
    if not KEEP.search(text):
        return frozenset()
    kept = set()
    try:
        # Ends of lines as the compiler takes them.
        for token in tokenize.generate_tokens(io.StringIO(text, newline=None).readline):
            if token.type == tokenize.COMMENT and KEEP.search(token.string):
                kept.add(token.start[0])
    except (tokenize.TokenError, SyntaxError):  # no source, or that of another version: what came before counts
        pass
    return frozenset(kept)
