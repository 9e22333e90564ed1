"""`# roamlet: keep`: the comments that accept a finding."""

import ast
import io
import re
import tokenize
import warnings

Place = ast.stmt | ast.expr | ast.arg | ast.excepthandler  # what has a line and a column
KEEP = re.compile(r"#\s*roamlet:\s*keep\b")


def kept_lines(text: str) -> frozenset[int]:
    """The lines that have such a comment; text in a string does not count. Of text that is not Python, those before the
    first error.
    """
    if not KEEP.search(text):
        return frozenset()
    kept = set()
    try:
        # Ends of lines as the compiler takes them.
        for token in tokenize.generate_tokens(io.StringIO(text, newline=None).readline):
            if token.type == tokenize.COMMENT and KEEP.search(token.string):
                kept.add(token.start[0])
    except (tokenize.TokenError, SyntaxError):  # not Python, or another version of it: what came before counts
        pass
    return frozenset(kept)


def accepts(text: str, line: int) -> bool:
    """Whether the statement in `line` has such a comment, or the `def` of the function that contains it.

    Raises SyntaxError for what cannot be parsed, unless there is no such comment or `line` has it itself.
    """
    kept = kept_lines(text)
    if not kept or line in kept:
        return bool(kept)
    statement: ast.stmt | None = None
    function: ast.AST | None = None
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the compiler has already warned about the file
        todo: list[ast.AST] = [ast.parse(text)]
    while todo:
        for node in ast.iter_child_nodes(todo.pop()):
            first, last = getattr(node, "lineno", None), getattr(node, "end_lineno", None)
            if first is not None and last is not None and not first <= line <= last:
                continue
            todo.append(node)
            if isinstance(node, ast.stmt):
                statement = node  # a nested one is visited later
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda | ast.ClassDef):
                function = node
    return statement is not None and is_kept(kept, statement, getattr(function, "lineno", 0))


def is_kept(kept: frozenset[int], place: Place, function_line: int) -> bool:
    """The rule: such a comment is on a line of the place, or on that of its function's `def`. `kept`: see kept_lines."""
    return function_line in kept or not kept.isdisjoint(_lines_of(place))


def _lines_of(node: Place) -> range:
    """The lines of a statement; of one with a body, its first alone."""
    first = node.lineno
    body = getattr(node, "body", None)
    last = body[0].lineno - 1 if isinstance(body, list) else node.end_lineno or first
    return range(first, max(first, last) + 1)
