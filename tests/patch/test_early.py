"""What was imported too early is named with its line, and with the import that is to move."""

import warnings

from roamlet.patch import EarlyImportWarning
from tests.programs import printed

HOLDER = """\
import queue
import socket, threading
from time import sleep as pause


class Mine(socket.socket):
    lock = threading.Lock()


def waits(seconds, how=pause):
    how(seconds)


waiting = queue.Queue()
"""


def test_each_place_is_named_with_its_line_and_the_import_that_led_to_it(python, program, tmp_path):
    program(HOLDER, "holder.py")
    program("""\
        import holder
        import roamlet.patch
        roamlet.patch.install()
        for each in roamlet.patch.status().early:
            print(each)
        """)
    done = python("-W", "ignore", "program.py")
    holder, move = tmp_path / "holder.py", f"move {tmp_path / 'program.py'}:1, which imports holder, after it"
    assert printed(done).splitlines() == [
        f"{holder}:6: Mine is derived from the original socket.socket: {move}",
        f"{holder}:7: Mine.lock was made by the original threading.Lock: {move}",
        f"{holder}:3: pause is the original time.sleep: {move}",
        f"{holder}:14: waiting was made by the original queue.Queue: {move}",
        f"{holder}:10: waits has the original time.sleep as the default of an argument: {move}",
    ]


def test_the_import_is_found_through_packages_of_others(python, program, tmp_path):
    """The program imports `outer`, which imports `between`, which imports `holder`."""
    (tmp_path / "site-packages").mkdir()
    for name, source in (
        ("holder", "from time import sleep\ndef used(): ...\n"),
        ("between", "from holder import used\nclass Used: ...\n"),
        ("outer", "import between\n"),
    ):
        (tmp_path / "site-packages" / f"{name}.py").write_text(source)
    program("""\
        import sys
        sys.path.append("site-packages")
        import outer
        import roamlet.patch
        roamlet.patch.install()
        print(*roamlet.patch.status().early)
        """)
    move = f"move {tmp_path / 'program.py'}:3, which imports outer, after it"
    assert printed(python("-W", "ignore", "program.py")).endswith(f"sleep is the original time.sleep: {move}\n")


def test_without_a_main_script_the_import_of_another_own_file_is_found(python, program, tmp_path):
    program("from time import sleep\n", "holder.py")
    program("import json\nimport holder\n", "mine.py")
    code = "import mine, roamlet.patch; roamlet.patch.install(); print(*roamlet.patch.status().early)"
    move = f"move {tmp_path / 'mine.py'}:2, which imports holder, after it"
    assert printed(python("-W", "ignore", "-c", code)).endswith(f"sleep is the original time.sleep: {move}\n")


def test_the_programs_own_lines_and_open_sockets_are_named(python, program, tmp_path):
    program("""\
        from socket import socket
        import roamlet.patch
        def main():
            inside = socket()
            roamlet.patch.install()
            closed = inside.close()
        main()
        """)
    done = python("program.py")
    assert f"{tmp_path / 'program.py'}:1: socket is the original socket.socket: move this line after" in done.stderr
    assert (
        "a socket, <socket.socket fd=" in done.stderr
        and "program.py:5: EarlyImportWarning: 2 places took" in done.stderr
    )
    assert done.returncode == 0


def test_strict_raises_and_changes_nothing(python, program):
    program("""\
        from time import sleep
        import time
        import roamlet.patch
        try:
            roamlet.patch.install(strict=True)
        except roamlet.patch.EarlyImport as error:
            print([(each.name, each.kind) for each in error.early], roamlet.patch.installed(), time.sleep is sleep)
        """)
    assert printed(python("program.py")) == "[('sleep', 'name')] frozenset() True\n"


def test_a_program_that_installs_first_is_told_nothing(python, program):
    program("""\
        import roamlet.patch
        roamlet.patch.install(strict=True)
        import http.client, urllib.request, concurrent.futures, logging.handlers, asyncio, multiprocessing
        from socket import socket
        class Mine(socket):
            pass
        made = Mine()
        print(roamlet.patch.status().early)
        made.close()
        """)
    assert printed(python("-W", "error", "program.py")) == "()\n"


def test_a_warning_is_one_that_can_be_turned_off():
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        warnings.warn(EarlyImportWarning([]), stacklevel=1)
    assert issubclass(caught[0].category, RuntimeWarning)
