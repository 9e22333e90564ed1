"""For mkdocs: the navigation is what docs/contents.md lists, in its order; and links from a page to files outside of docs/
become their text. On GitHub and in a clone they lead to the file. The page of the examples gets the programs themselves.
"""

import re
from pathlib import Path
from typing import Any

FILES = r"src|apps|tests|tools|bench|examples|prototypes|[A-Z]+\.md|pyproject\.toml|Makefile"
OUTSIDE = re.compile(rf"\[([^\]]+)\]\((?:\.\./)+(?:{FILES})[^)\s]*\)")
SECTION = re.compile(r"^- \*\*(?P<title>[^*]+)\*\*:(?P<links>.*?)(?=^- |\Z)", re.MULTILINE | re.DOTALL)
EXAMPLE = re.compile(r"\]\((\w+)\.py\)")
PROGRAMS = "<!-- programs -->"
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


def programs(folder: Path) -> str:
    """The table of the examples, whose links lead to the programs below it, and each program."""
    table = [line for line in (folder / "README.md").read_text(encoding="utf-8").splitlines() if line.startswith("|")]
    names = EXAMPLE.findall("\n".join(table))
    pieces = [EXAMPLE.sub(lambda found: f"](#{found[1]}py)", "\n".join(table))]
    pieces += [f"## {name}.py\n\n```python\n{(folder / f'{name}.py').read_text(encoding='utf-8')}```" for name in names]
    return "\n\n".join(pieces)


def on_page_markdown(markdown: str, config: Any = None, **_: Any) -> str:
    if config is not None and PROGRAMS in markdown:
        markdown = markdown.replace(PROGRAMS, programs(Path(config.docs_dir).parent / "examples"))
    return OUTSIDE.sub(r"\1", markdown)
