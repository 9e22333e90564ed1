"""The fenced blocks of the documentation: where they are, and what they say."""

import re
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]

BLOCK = re.compile(r"^```(?P<language>\w*)\n(?P<text>.*?)^```$", re.MULTILINE | re.DOTALL)


@dataclass(frozen=True)
class Script:
    """A ```python block, which stands for a whole script, and the ```text block right behind it: what it prints."""

    page: str
    line: int
    text: str
    prints: str | None

    @property
    def name(self) -> str:
        return f"{self.page}:{self.line}"


def scripts(*pages: Path) -> list[Script]:
    """Every ```python block of `pages`, in order."""
    found = []
    for page in pages:
        text = page.read_text(encoding="utf-8")
        blocks = list(BLOCK.finditer(text))
        for block, following in zip(blocks, [*blocks[1:], None], strict=True):
            if block["language"] != "python":
                continue
            output = None
            if following and following["language"] == "text" and not text[block.end() : following.start()].strip():
                output = following["text"]
            line = text.count("\n", 0, block.start()) + 2
            found.append(Script(str(page.relative_to(ROOT)), line, block["text"], output))
    return found
