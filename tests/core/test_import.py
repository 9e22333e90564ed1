"""Importing the core: which backend is loaded, once more, and where it is refused."""

import sys

import pytest

import weft
from tests.core._scripts import output_of
from weft import core


@pytest.mark.parametrize("value", ["nonsense", "SLICED", " "])
def test_a_backend_that_does_not_exist_is_refused_by_name(value):
    printed = output_of(
        """
        try:
            import weft
        except ImportError as error:
            print(error)
        """,
        env={"WEFT_SWITCH": value},
    )
    assert (
        printed == f"WEFT_SWITCH={value!r} names no switching backend: use one of sliced, greenlet, stacks, or unset it"
    )


def test_the_backend_in_use_is_named_and_its_types_do_not_tell_it():
    assert core.backend in ("sliced", "stacks", "greenlet")
    assert weft.tasklet.__module__ == "weft" and weft.channel.__module__ == "weft"


def test_the_environment_chooses_the_backend():
    for name in ("sliced", "stacks", "greenlet"):
        assert output_of("from weft import core; print(core.backend)", env={"WEFT_SWITCH": name}) == name


def test_the_backend_with_stacks_is_never_chosen_by_itself():
    printed = output_of(
        """
        import sys
        for name in ("weft.core._sliced", "weft.core._greenlet"):
            sys.modules[name] = None
        try:
            import weft
        except ImportError as error:
            print(error)
        """,
        env={"WEFT_SWITCH": ""},
    )
    assert printed.startswith("weft's C core cannot be loaded (sliced: ")
    assert "; greenlet: " in printed and "stacks: " not in printed


def test_imported_once_more_it_has_the_same_types_and_goes_on():
    printed = output_of("""
        import sys, weft
        from weft import core
        before = [getattr(core, name) for name in core.__all__ if isinstance(getattr(core, name), type)]
        tasklet = weft.tasklet(weft.schedule_remove)()
        weft.run()
        for name in [name for name in sys.modules if name.split(".")[0] == "weft"]:
            del sys.modules[name]
        import weft
        from weft import core
        after = [getattr(core, name) for name in core.__all__ if isinstance(getattr(core, name), type)]
        tasklet.kill()
        print(before == after, tasklet.alive, len(before) > 6)
    """)
    assert printed == "True False True"


@pytest.mark.parametrize("first", [True, False])
def test_a_subinterpreter_is_refused_whether_or_not_the_main_one_has_it(first):
    name = "_interpreters" if sys.version_info >= (3, 13) else "_xxsubinterpreters"
    printed = output_of(f"""
        import {name} as interpreters
        first = {first}
        if first:
            import weft
        try:
            other = interpreters.create("legacy")
        except (TypeError, AttributeError):
            other = interpreters.create()
        interpreters.run_string(other, '''if True:
            try:
                import weft
            except ImportError as error:
                print("refused:", error)
        ''')
        interpreters.destroy(other)
        import weft
        weft.tasklet(print)("the main one works")
        weft.run()
    """)
    lines = printed.splitlines()
    assert lines[0].startswith("refused: weft's C core cannot be loaded")
    assert lines[1] == "the main one works"
    assert len(lines) == 2
