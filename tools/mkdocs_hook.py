"""For mkdocs: the navigation is what docs/contents.md lists, in its order; and links from a page to files outside of docs/
become their text. On GitHub and in a clone they lead to the file.
"""

import re
from pathlib import Path
from typing import Any

FILES = r"src|apps|tests|tools|bench|examples|prototypes|[A-Z]+\.md|pyproject\.toml|Makefile"
OUTSIDE = re.compile(rf"\[([^\]]+)\]\((?:\.\./)+(?:{FILES})[^)\s]*\)")
SECTION = re.compile(r"^- \*\*(?P<title>[^*]+)\*\*:(?P<links>.*?)(?=^- |\Z)", re.MULTILINE | re.DOTALL)
LINK = re.compile(r"\[(?P<title>[^\]]+)\]\((?P<page>[\w/-]+\.md)\)")


def navigation(contents: str) -> list[dict[str, Any]]:
    """The front page, and the sections of the contents with the pages that each links to, as mkdocs takes them."""
    sections = [
        {found["title"]: [{" ".join(link["title"].split()): link["page"]} for link in LINK.finditer(found["links"])]}
        for found in SECTION.finditer(contents)
    ]
    filled = [section for section in sections if any(section.values())]
    return [{"roamlet": "index.md"}, *filled, {"All pages": "contents.md"}]


def on_config(config: Any, **_: Any) -> Any:
    config.nav = navigation(Path(config.docs_dir, "contents.md").read_text(encoding="utf-8"))
    return config


def on_page_markdown(markdown: str, **_: Any) -> str:
    return OUTSIDE.sub(r"\1", markdown)
