"""Imports in a target of each version: from bundles, from the parent's answers, or known to be absent."""

from types import SimpleNamespace

import pytest

from roamlet.wire import build, codec, protocol
from roamlet.wire.modules import bundle, importer
from tests.wire.interpreters import since
from tests.wire.target import ErrorAnswer, packed

WORK = """
import sys

def load(name):
    __import__(name)
    module = sys.modules[name]
    return [module.__name__, getattr(module, "__file__", None), getattr(module, "value", None)]

def value(name):
    __import__(name)
    return sys.modules[name].value

def error(name):
    try:
        __import__(name)
    except ImportError as error:
        return [type(error).__name__, str(error), getattr(error, "name", name)]
    return None

def twice(name):
    import threading
    results = []
    def run():
        results.append(error(name) or value(name))
    threads = [threading.Thread(target=run) for _ in range(5)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(20)
    return results

def source(name):
    import inspect
    __import__(name)
    module = sys.modules[name]
    return [inspect.getsource(module.function), inspect.getsourcefile(module)]

def run(text):
    names = {}
    exec(text, names)
    return names["result"]
"""


@pytest.fixture
def work(target):
    target.modules({"work": WORK})
    return target


def wanted(target, name):
    target.wait_until(lambda: name in target.wants)
    return target.wants[name]


def test_a_module_from_a_bundle_needs_no_question(work):
    work.modules({"plain": "value = 5\n"})
    assert work.call("work:load", "plain") == ["plain", "roamlet:/parent/plain.py", 5]
    assert not work.wants


def test_packages_and_submodules_import_in_every_way(work):
    work.modules(
        {
            "pack": "value = 'pack'\nfrom pack import one\nfrom .two import value as second\n",
            "pack.one": "value = 'one'\n",
            "pack.two": "from . import one\nfrom .deep.er import value as below\nvalue = 'two'\n",
            "pack.deep": "value = 'deep'\n",
            "pack.deep.er": "from .. import one\nfrom ..one import value as above\nvalue = 'er'\n",
        },
        packages=["pack", "pack.deep"],
        complete={
            "pack": ["one", "two", "deep"],
            "pack.deep": ["er"],
        },  # 2.7 tries every import next to the module first
    )
    assert work.call("work:value", "pack.deep.er") == "er"
    assert work.call("work:run", "import pack.two as t\nresult = [t.below, t.one.value, t.__package__]") == [
        "er",
        "one",
        "pack",
    ]
    assert work.call("work:run", "import pack\nresult = pack.second + str(len(pack.__path__))") == "two1"
    assert not work.wants


def test_circular_imports_work_as_they_do_from_files(work):
    work.modules(
        {
            "ring": "",
            "ring.a": "import ring.b\nvalue = 'a'\ndef both():\n    return value + ring.b.value\n",
            "ring.b": "from ring import a\nimport ring.a\nvalue = 'b'\n",
        },
        packages=["ring"],
        complete={"ring": ["a", "b"]},
    )
    if work.hello["python"] < (3, 7):  # as long as a module is being imported, its package does not have it
        work.modules({"ring.b": "import ring.a\nvalue = 'b'\n"})
    assert work.call("ring.a:both") == "ab"
    assert not work.wants


def test_a_namespace_package_holds_modules(work):
    work.modules({"space": None, "space.inner": None, "space.inner.leaf": "value = 'leaf'\n"})
    assert work.call("work:value", "space.inner.leaf") == "leaf"
    assert not work.wants


def test_the_main_script_comes_under_its_own_name(work):
    work.modules({"__roamlet_main__": "value = __name__\nif __name__ == '__main__':\n    raise SystemExit\n"})
    assert work.call("work:value", "__roamlet_main__") == "__roamlet_main__"


def test_known_absent_names_fail_at_once_and_ask_nobody(work):
    work.modules(
        {"pack": "", "pack.here": "value = 1\n"},
        packages=["pack"],
        absent=["nowhere", "pack.gone"],
        reasons={"nowhere": "Python has it since 9.9"},
        complete={"pack": ["here", "known"]},
    )
    kind = "ImportError" if work.hello["python"] < (3,) else "ModuleNotFoundError"
    assert work.call("work:error", "nowhere") == [kind, "No module named nowhere: Python has it since 9.9", "nowhere"]
    name, text, _ = work.call("work:error", "pack.gone")
    assert (name, "gone" in text) == (kind, True)
    assert work.call("work:error", "pack.other")[0] == kind
    assert not work.wants


def test_standard_modules_ask_for_nothing(work):
    for name in ("subprocess", "pickle", "platform", "hashlib", "tempfile", "json", "decimal", "socket", "unittest"):
        assert work.call("work:error", name) is None
    assert not work.wants


def test_the_answer_to_a_question_brings_the_module_and_more(work):
    number = work.begin("work:value", "asked")
    work.modules(
        {"helper": "value = 'help'\n", "asked": "import helper\nvalue = helper.value\n"}, number=wanted(work, "asked")
    )
    assert work.answer(number) == "help"
    assert list(work.wants) == ["asked"]


def test_an_answer_without_the_module_makes_it_absent(work):
    number = work.begin("work:error", "missing")
    work.modules({}, number=wanted(work, "missing"))
    name, text, _ = work.answer(number)
    assert name in ("ImportError", "ModuleNotFoundError")
    assert "missing" in text
    assert work.call("work:error", "missing")[1] == text
    assert list(work.wants) == ["missing"]


def test_an_answer_may_say_why_a_module_is_absent(work):
    number = work.begin("work:error", "missing")
    work.modules({}, number=wanted(work, "missing"), absent=["missing"], reasons={"missing": "no Python has it"})
    assert work.answer(number)[1] == "No module named missing: no Python has it"


def test_a_submodule_that_no_bundle_brought_is_asked_for(work):
    work.modules({"pack": ""}, packages=["pack"])
    number = work.begin("work:value", "pack.late")
    work.modules({"pack.late": "value = 'late'\n"}, number=wanted(work, "pack.late"))
    assert work.answer(number) == "late"


def test_threads_that_want_the_same_module_ask_once(work):
    number = work.begin("work:twice", "shared")
    work.modules({"shared": "value = 7\n"}, number=wanted(work, "shared"))
    assert work.answer(number) == [7] * 5
    assert [frame[3] for frame in work.frames].count(protocol.WANT) == 1


def test_other_calls_go_on_while_one_waits_for_a_module(work):
    waiting = work.begin("work:value", "slow")
    request = wanted(work, "slow")
    assert work.call("os:getpid") == work.hello["pid"]
    work.modules({"slow": "value = 1\n"}, number=request)
    assert work.answer(waiting) == 1


def test_threads_that_import_each_others_modules_while_they_wait_see_none_half_done(work):
    work.modules({"left": "import late_left\nvalue = late_left.value + 1\n"})
    work.modules({"right": "import left, late_right\nvalue = left.value + late_right.value\n"})
    calls = [work.begin("work:value", name) for name in ("left", "right", "left", "right")]
    work.modules({"late_left": "value = 1\n"}, number=wanted(work, "late_left"))
    work.modules({"late_right": "value = 10\n"}, number=wanted(work, "late_right"))
    assert [work.answer(number) for number in calls] == [2, 12, 2, 12]


# 2.7 has one lock for all imports, from their beginning to their end.
@pytest.mark.parametrize("python", since(3, 6), indirect=True)
def test_a_call_that_fails_is_answered_while_an_import_waits_for_its_answer(work):
    waiting = work.begin("work:value", "slow")
    request = wanted(work, "slow")
    assert work.call("work:value", "this")["type"] == "AttributeError"  # its traceback is made by a module, too
    work.modules({"slow": "value = 1\n"}, number=request)
    assert work.answer(waiting) == 1


def test_a_question_has_a_time_limit(python, start):
    target = start(python, import_timeout=0.2)
    target.modules({"work": WORK})
    _, text, name = target.call("work:error", "silent")
    assert text.startswith("No module named silent came: the parent did not answer within 0.2 seconds")
    assert name == "silent"


def test_an_answer_that_comes_too_late_still_serves_the_next_import(python, start):
    target = start(python, import_timeout=0.2)
    target.modules({"work": WORK})
    assert target.call("work:error", "late") is not None
    target.modules({"late": "value = 3\n"}, number=target.wants["late"])
    assert target.call("work:value", "late") == 3


def test_the_target_s_own_copy_of_a_package_wins(work):
    work.modules({"json": "value = 'from the parent'\n", "json.extra": "value = 1\n"}, packages=["json"])
    assert work.call("work:load", "json")[2] is None
    assert work.call("work:error", "json.extra") is not None
    assert not work.wants


def test_the_parent_s_copy_wins_where_the_policy_says_so(python, start):
    target = start(python, prefer="parent")
    target.modules({"work": WORK, "colorsys": "value = 'from the parent'\n"})
    assert target.call("work:value", "colorsys") == "from the parent"


def test_a_module_that_sys_path_has_grown_to_show_is_found_there(work, tmp_path):
    (tmp_path / "grown.py").write_text("value = 'from a file'\n")
    work.call("work:run", "import sys\nsys.path.append(%r)\nresult = 1" % str(tmp_path))
    assert work.call("work:value", "grown") == "from a file"
    assert not work.wants


def test_sources_are_there_for_inspect(work):
    source = "# coding: utf-8\ndef function():\n    return 'h\xe9'\n"
    work.modules({"seen": source})
    text, filename = work.call("work:source", "seen")
    assert text == "def function():\n    return 'h\xe9'\n"
    assert filename == "roamlet:/parent/seen.py"


def test_a_module_that_fails_can_be_imported_again(work):
    work.modules(
        {"flaky": "import sys\nsys.tries = getattr(sys, 'tries', 0) + 1\n1 // (sys.tries - 1)\nvalue = sys.tries\n"}
    )
    first = work.call("work:value", "flaky")
    assert isinstance(first, ErrorAnswer)
    assert first["type"] == "ZeroDivisionError"
    assert work.call("work:value", "flaky") == 2


def test_a_reload_asks_the_parent_for_the_source_as_it_is_now(work):
    work.modules({"again": "value = 1\n"})
    assert work.call("work:value", "again") == 1
    reload = "reload" if work.hello["python"] < (3,) else "__import__('importlib').reload"
    for value in (2, 3):
        number = work.begin("work:run", "import again\nresult = %s(again).value" % reload)
        work.modules({"again": "value = %d\n" % value}, number=wanted(work, "!again"))
        work.wants.clear()
        assert work.answer(number) == value
    number = work.begin("work:run", "import again\nresult = %s(again)" % reload)
    work.modules({}, number=wanted(work, "!again"), absent=["again"])
    assert work.answer(number)["type"] in ("ImportError", "ModuleNotFoundError", "AttributeError")  # 3.6 says so


@pytest.mark.parametrize("python", since(3), indirect=True)
def test_find_spec_tells_what_is_there_and_what_is_not_and_imports_nothing(work):
    work.modules({"here": "raise ZeroDivisionError"}, absent=["known", "why"], reasons={"why": "it stays where it is"})
    text = "from importlib.util import find_spec\nspec = find_spec(%r)\nresult = spec is None or spec.origin"
    assert work.call("work:run", text % "here") == "roamlet:/parent/here.py"
    assert work.call("work:run", text % "known") is True
    assert work.call("work:run", text % "why") is True
    assert work.call("work:error", "why")[1] == "No module named why: it stays where it is"
    number = work.begin("work:run", text % "nobodys")
    work.modules({}, number=wanted(work, "nobodys"))
    assert work.answer(number) is True


def test_a_module_that_no_bundle_made_a_package_has_no_submodules_to_ask_for(work):
    work.modules(
        {
            "six_like": "import sys\nclass Finder(object):\n    def find_module(self, name, path=None):\n"
            "        return self if name == 'six_like.moves' else None\n    def find_spec(self, name, path, target=None):\n"
            "        from importlib.util import spec_from_loader\n"
            "        return spec_from_loader(name, self) if name == 'six_like.moves' else None\n"
            "    def load_module(self, name):\n        return sys.modules.setdefault(name, type(sys)(name))\n"
            "    def create_module(self, spec):\n        return None\n    def exec_module(self, module):\n        pass\n"
            "__path__ = []\nsys.meta_path.append(Finder())\n"
        }
    )
    assert work.call("work:load", "six_like.moves")[0] == "six_like.moves"
    assert work.call("work:error", "six_like.others") is not None
    assert not work.wants


@pytest.mark.parametrize("python", since(3), indirect=True)
def test_a_namespace_package_has_the_target_s_own_portions_too(work, tmp_path):
    (tmp_path / "shared_space" / "deep").mkdir(parents=True)
    (tmp_path / "shared_space" / "over_there.py").write_text("value = 'from a file'\n")
    (tmp_path / "shared_space" / "deep" / "er.py").write_text("value = 'deeper'\n")
    work.modules(
        {"shared_space": None, "shared_space.sent": "value = 'sent'\n", "shared_space.deep": None},
        complete={"shared_space": ["sent", "deep"], "shared_space.deep": []},
    )
    work.call("work:run", "import sys\nsys.path.append(%r)\nresult = 1" % str(tmp_path))
    names = ("shared_space.sent", "shared_space.over_there", "shared_space.deep.er")
    assert [work.call("work:value", name) for name in names] == ["sent", "from a file", "deeper"]
    assert work.call("work:load", "shared_space")[1] is None  # no __file__
    assert not work.wants


def test_a_loader_answers_what_pkgutil_and_runpy_ask(work):
    work.modules({"pack": "value = 1\n", "pack.sub": "x = 2\n"}, packages=["pack"])
    text = (
        "import pack, pack.sub\nloader = pack.__loader__\n"
        "result = [loader.is_package('pack'), loader.is_package('pack.sub'), loader.get_filename('pack'),\n"
        "    loader.get_source('pack.sub'), loader.get_code('pack.sub') is not None,\n"
        "    loader.get_data(pack.__file__) == b'value = 1\\n']\n"
    )
    assert work.call("work:run", text) == [True, False, "roamlet:/parent/pack/__init__.py", "x = 2\n", True, True]


def test_a_data_file_is_asked_for_and_its_absence_is_an_error_that_names_it(work):
    work.modules({"pack": "", "roamlet.wire.modules.resources": RESOURCES}, packages=["pack"])
    text = "import pkgutil, pack\nresult = pkgutil.get_data('pack', %r)"
    number = work.begin("work:run", text % "some/data.txt")
    work.send(protocol.MODULES, wanted(work, "pack/some/data.txt"), data(("pack/some/data.txt", b"words")))
    assert work.answer(number) in (b"words", "words")
    number = work.begin("work:run", text % "none.txt")
    work.send(protocol.MODULES, wanted(work, "pack/none.txt"), bundle.pack([], ["pack/none.txt"]))
    answer = work.answer(number)
    assert answer["type"] in ("Problem", "FileNotFoundError")
    assert "pack/none.txt is not here: the parent's package pack has no such file" in answer["text"]
    work.wants.clear()
    assert work.call("work:run", text % "some/data.txt") in (b"words", "words")
    assert work.call("work:run", text % "none.txt")["text"] == answer["text"]
    assert not work.wants


def test_a_question_for_a_data_file_has_a_time_limit(python, start):
    target = start(python, import_timeout=0.2)
    target.modules({"work": WORK, "pack": "", "roamlet.wire.modules.resources": RESOURCES}, packages=["pack"])
    answer = target.call("work:run", "import pkgutil, pack\nresult = pkgutil.get_data('pack', 'data.txt')")
    assert answer["type"] in ("IOError", "OSError", "Problem")
    assert "the parent did not answer within 0.2 seconds" in answer["text"]


def test_a_process_that_a_call_forked_off_has_what_came_and_never_waits_for_more(work):
    work.modules({"before": "value = 1\n"})
    text = (
        "import os\nread, write = os.pipe()\nif not os.fork():\n    try:\n        import before\n        import later\n"
        "    except ImportError as error:\n        os.write(write, ('%s' % error).encode())\n    os._exit(0)\n"
        "os.close(write)\nresult = os.read(read, 1000).decode()\nos.wait()"
    )
    assert "this process was forked off the context" in work.call("work:run", text)
    assert not work.wants


def data(*files):
    return bundle.pack([(name, bundle.DATA, content, "") for name, content in files])


RESOURCES = build.part("modules.resources")[2].decode()


def test_roamlet_can_be_imported_but_not_used(work):
    names = "import roamlet\nfrom roamlet import remote\nimport roamlet.io.deep\nfrom roamlet.remote import local\n"
    assert work.call("work:run", names + "result = 1") == 1
    answer = work.call("work:run", names + "result = remote.ssh('x')")
    assert answer["type"] == "NoCore"
    assert answer["text"].startswith("roamlet.remote.ssh() was called in a context, ")
    assert not work.wants


def test_a_class_that_is_registered_stays_what_it_is(work):
    text = "from roamlet import remote\n@remote.register\nclass Own(object):\n    pass\nresult = Own.__name__\n"
    assert work.call("work:run", text) == "Own"
    assert work.call("work:run", "from roamlet import remote\nresult = remote.register()")["type"] == "NoCore"


def test_exceptions_of_roamlet_can_be_caught_raised_and_derived_from(work):
    text = (
        "import roamlet\nfrom roamlet import remote, ChannelClosed\nclass Own(remote.ContextDied):\n    pass\n"
        "try:\n    raise Own('x')\nexcept roamlet.remote.ContextDied as error:\n"
        "    result = [str(error), roamlet.ChannelClosed is ChannelClosed]\n"
    )
    assert work.call("work:run", text) == ["x", True]
    caught = "import roamlet\ntry:\n    1 // 0\nexcept (roamlet.Deadlock, ZeroDivisionError):\n    result = 'caught'\n"
    assert work.call("work:run", caught) == "caught"


def test_a_script_that_connects_while_it_is_imported_is_refused_by_name(work):
    work.modules(
        {
            "__roamlet_main__": "from roamlet import remote\nwith remote.local() as context:\n    pass\ndef f():\n    pass\n"
        }
    )
    answer = work.call("__roamlet_main__:f")
    assert (answer["reason"], answer["type"]) == (protocol.ERROR_IMPORT, "NoCore")
    assert "roamlet.remote.local()" in answer["text"]
    assert "where there is no core of roamlet" in answer["text"]
    assert "tasklets=True" in answer["text"]


def test_hello_names_what_the_target_has(target):
    names = target.hello["packages"].split(" ")
    assert {"sys", "os", "json", "itertools", "zlib", "math", "logging", "struct"} <= set(names)
    assert names == sorted(names)
    assert "__pycache__" not in names


def test_what_hello_names_can_be_found_over_there(target):
    """Every top-level name that the standard finders know, and no other."""
    target.modules({"asks": ASKS})
    mentioned = set(target.hello["packages"].split(" "))
    missing = target.call("asks:not_found", sorted(mentioned))
    assert missing == []
    assert set(target.call("asks:all_names")) - mentioned == {"asks"}  # which came from here


ASKS = """
import pkgutil
import sys

def not_found(names):
    if sys.version_info < (3,):
        import imp
        result = []
        for name in names:
            try:
                found = imp.find_module(name)
                if found[0]:
                    found[0].close()
            except ImportError:
                result.append(name)
        return result
    from importlib import machinery
    finders = (machinery.BuiltinImporter, machinery.FrozenImporter, machinery.PathFinder)
    return [name for name in names if not any(finder.find_spec(name) for finder in finders)]

def all_names():
    return sorted(set(module[1] for module in pkgutil.iter_modules()) | set(sys.builtin_module_names))
"""


def test_names_in_directories_zip_files_and_extensions_are_listed(tmp_path, target):
    import zipfile

    (tmp_path / "lib" / "pack").mkdir(parents=True)
    (tmp_path / "lib" / "pack" / "__init__.py").write_text("")
    (tmp_path / "lib" / "space").mkdir()
    (tmp_path / "lib" / "dist-1.0.dist-info").mkdir()
    (tmp_path / "lib" / "plain.py").write_text("")
    (tmp_path / "lib" / "fast.cpython-312-x86_64-linux-gnu.so").write_text("")
    (tmp_path / "lib" / "notes.txt").write_text("")
    with zipfile.ZipFile(tmp_path / "more.zip", "w") as archive:
        archive.writestr("zipped.py", "")
        archive.writestr("zippack/__init__.py", "")
        archive.writestr("zippack/inner.py", "")
        archive.writestr("data/readme.txt", "")
    path = [str(tmp_path / "lib"), str(tmp_path / "more.zip"), str(tmp_path / "not there"), ""]
    target.modules({"lister": LISTER})
    packages, namespaces = target.call("lister:names", path)
    assert set(packages) == {"pack", "plain", "fast", "zipped", "zippack"}
    assert set(namespaces) == (set() if target.hello["python"] < (3,) else {"space"})


LISTER = """
import sys
inventory = sys.modules["roamlet.wire.modules.available"]

def names(path):
    packages, namespaces = inventory.top_level_names(path[:3])
    return [sorted(packages - set(sys.builtin_module_names)), sorted(namespaces)]
"""


def test_a_want_names_the_module_as_text(work):
    number = work.begin("work:error", "nothing")
    request = wanted(work, "nothing")
    assert codec.loads(next(frame[4] for frame in work.frames if frame[2] == request)) == "nothing"
    work.modules({}, number=request)
    assert work.answer(number)[0] in ("ImportError", "ModuleNotFoundError")


def test_a_want_for_a_package_names_what_the_import_is_after(work):
    number = work.begin("work:error", "nothing.here")
    work.wait_until(lambda: work.wants)
    if "nothing.here" in work.wants:  # 2.7 does not tell
        work.modules({}, number=work.wants["nothing.here"])
    work.modules({}, number=wanted(work, "nothing"))
    assert work.answer(number)[0] in ("ImportError", "ModuleNotFoundError")


def test_what_has_come_just_before_the_question_is_not_asked_for():
    asked = []
    finder = importer.Importer(SimpleNamespace(send=lambda *frame: asked.append(frame)), set(), timeout=0.01)
    finder.receive(packed({"late": "value = 1"}))
    finder._pull("late")  # by whoever looked a moment earlier
    assert not asked
    with pytest.raises(ImportError, match="No module named later came: the parent did not answer"):
        finder._pull("later")
    assert len(asked) == 1
    vars(finder).clear()  # it holds its own methods, for as long as a process lives
