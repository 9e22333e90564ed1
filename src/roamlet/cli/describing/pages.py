"""Manual pages, one for each command, in the language of man(7)."""

import re

from roamlet.cli.describing.model import Command, Option

_EXIT = re.compile(r"^Exit codes?: ?", re.MULTILINE)


def page_name(command: Command) -> str:
    """Of the file, without its section: roamlet-vpn-apply."""
    return "-".join(command.words)


def page(command: Command, version: str, related: list[Command]) -> str:
    """The page of one command; `related` are named at its end."""
    title = page_name(command)
    first = command.help or command.description.partition("\n")[0]
    lines = [
        f'.TH "{title.upper()}" 1 "" "roamlet {version}" "roamlet"',
        ".SH NAME",
        f"{_roff(title)} \\- {_roff(first.rstrip('.'))}",
        ".SH SYNOPSIS",
        *_as_typed(command.usage),
        ".SH DESCRIPTION",
    ]
    epilog, _, codes = _split_exit(command.epilog)
    description, _, more_codes = _split_exit(command.description)
    lines += _paragraphs(description or first)
    if command.commands:
        lines.append(".SH COMMANDS")
        for each in command.commands:
            lines += [".TP", f".B {_roff(each.words[-1])}", _roff(each.help or each.description)]
    for heading, options in (("ARGUMENTS", command.arguments), ("OPTIONS", command.options)):
        if options:
            lines.append(f".SH {heading}")
            for option in options:
                lines += [".TP", _head(option), _roff(option.help) or "\\&"]
    if epilog:
        lines += [".SH NOTES", *_paragraphs(epilog)]
    lines += [".SH EXIT STATUS", *_paragraphs(codes or more_codes or _USUAL)]
    if related:
        lines += [".SH SEE ALSO", ", ".join(f"\\fB{_roff(page_name(each))}\\fR(1)" for each in related)]
    return "\n".join(lines) + "\n"


_USUAL = "0 all is well, 1 something failed, 64 the command line is wrong and nothing was touched, 130 interrupted."


def _split_exit(text: str) -> tuple[str, str, str]:
    """What is before the words on exit codes, these words, and the codes."""
    found = _EXIT.search(text)
    return (text, "", "") if found is None else (text[: found.start()].rstrip(), found[0], text[found.end() :])


def _head(option: Option) -> str:
    names = ", ".join(f"\\fB{_roff(name)}\\fR" for name in option.names)
    value = f"\\fI{_roff(option.value)}\\fR" if option.value else ""
    return " ".join(filter(None, (names, value)))


def _paragraphs(text: str) -> list[str]:
    """Paragraphs are filled; lines that begin with blanks stay as they are."""
    lines: list[str] = []
    for paragraph in re.split(r"\n\s*\n", text.strip("\n")):
        lines.append(".PP")
        lines += _as_typed(paragraph) if paragraph.startswith(" ") else [_roff(paragraph)]
    return lines[1:] if lines[:2] and lines[1] != ".nf" else lines


def _as_typed(text: str) -> list[str]:
    return [".nf", *(_roff(line, fill=False) or "\\&" for line in text.splitlines()), ".fi"]


def _roff(text: str, *, fill: bool = True) -> str:
    """The text as itself: no character of it is a command."""
    if fill:
        text = " ".join(text.split())
    text = text.replace("\\", "\\e").replace("-", "\\-")
    return f"\\&{text}" if text.startswith((".", "'")) else text
