"""For mkdocs: links from a page to files outside of docs/ become their text. On GitHub and in a clone they lead to the file."""

import re
from typing import Any

FILES = r"src|apps|tests|tools|bench|examples|[A-Z]+\.md|pyproject\.toml|Makefile"
OUTSIDE = re.compile(rf"\[([^\]]+)\]\((?:\.\./)+(?:{FILES})[^)\s]*\)")


def on_page_markdown(markdown: str, **_: Any) -> str:
    return OUTSIDE.sub(r"\1", markdown)
