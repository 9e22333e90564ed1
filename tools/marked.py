"""Pieces of pages that are made from the code: between `<!-- KIND: NAME -->` and `<!-- end -->`."""

import re
import sys
from collections.abc import Callable, Mapping
from pathlib import Path


def filled(text: str, kind: str, made: Callable[[str], str]) -> str:
    """`text` with each piece of this kind replaced by what `made` returns for its name."""
    piece = re.compile(rf"<!-- {kind}: (\S+) -->\n.*?<!-- end -->", re.DOTALL)
    return piece.sub(lambda found: f"<!-- {kind}: {found[1]} -->\n\n{made(found[1])}\n\n<!-- end -->", text)


def settle(wanted: Mapping[Path, str], tool: str, *, write: bool) -> int:
    """Write what differs, or name it. Return the exit status: 1 if something differs and was not written."""
    old = [path for path, text in wanted.items() if not path.exists() or path.read_text(encoding="utf-8") != text]
    if write:
        for path in old:
            path.write_text(wanted[path], encoding="utf-8")
    elif old:
        print(f"Not what the sources say: {', '.join(str(path) for path in old)}", file=sys.stderr)
        print(f"Type: python -m {tool} --write", file=sys.stderr)
    return 1 if old and not write else 0
