"""The check of sources reports the same about the situations as running them does, where the source shows it."""

import ast
from pathlib import Path

from apps.leaks.tests import situations
from roamlet_leaks.check import check_source

SOURCE = Path(situations.__file__).read_text(encoding="utf-8")

# What a caller gets, what another method stores, and what is cleared only when the function goes on after a while.
ONLY_A_RUN_SEES = {
    "into_a_local_of_the_caller",
    "run_and_fail",
    "a_loop_that_remembers",
    "a_generator_that_remembers",
}


def functions_with_a_mark():
    lines = SOURCE.splitlines()
    return {
        node.name
        for node in ast.walk(ast.parse(SOURCE))
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef))
        and any("# leak: " in line for line in lines[node.lineno - 1 : node.end_lineno])
    }


def test_the_functions_that_keep_an_exception_are_found_in_the_source_too_and_no_others():
    marked = functions_with_a_mark()
    assert marked > ONLY_A_RUN_SEES
    found = {finding.function.rpartition(".")[2] for finding in check_source(SOURCE)}
    assert found == marked - ONLY_A_RUN_SEES
