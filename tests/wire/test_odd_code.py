"""Exceptions and streams whose own code misbehaves, and names outside of ASCII: each is answered, and the context lives on."""

import pytest

from roamlet.wire import protocol
from roamlet.wire.modules import bundle

ODD = """
import sys

class Unbound(object):
    @property
    def __class__(self):
        raise RuntimeError("unbound")
    def __getattr__(self, name):
        raise RuntimeError("unbound")

class ExitsInText(Exception):
    def __str__(self):
        sys.exit(3)

class RaisesInArgs(Exception):
    @property
    def args(self):
        raise RuntimeError("no args")

class RaisesInFilename(OSError):
    @property
    def filename(self):
        raise RuntimeError("no file name")

class ExitsInFlush(object):
    def write(self, text):
        pass
    def flush(self):
        sys.exit(3)

def unbound():
    raise ValueError(Unbound())

def exits_in_text():
    raise ExitsInText("text")

def raises_in_args():
    raise RaisesInArgs("text")

def raises_in_filename():
    raise RaisesInFilename(1, "text")

def long_text(size):
    raise ValueError("x" * size)

def exit_in_flush():
    sys.stdout = ExitsInFlush()
    return "answered"

def remove_stdout():
    del sys.stdout
    return "answered"
"""


@pytest.fixture
def odd(target):
    target.modules({"odd": ODD})
    return target


@pytest.mark.parametrize(
    ("function", "kind", "args"),
    [
        ("unbound", "ValueError", None),
        ("exits_in_text", "ExitsInText", ("text",)),
        ("raises_in_args", "RaisesInArgs", None),
        ("raises_in_filename", "RaisesInFilename", None),
    ],
)
def test_an_exception_whose_own_code_raises_is_answered_as_far_as_it_goes(odd, function, kind, args):
    answer = odd.call(f"odd:{function}")
    assert (answer["reason"], answer["type"], answer["args"]) == (protocol.ERROR_RAISED, kind, args)
    assert odd.call("os:getpid") == odd.hello["pid"]


def test_the_text_of_an_error_is_of_bounded_size_and_arguments_beyond_it_stay_there(odd):
    size = protocol.MAX_BODY // 2 + 1
    answer = odd.call("odd:long_text", size)
    assert answer["type"] == "ValueError"
    assert answer["args"] is None
    assert len(answer["text"]) < 70_000
    assert "characters left out" in answer["text"]
    assert odd.call("odd:long_text", 100_000)["args"] == ("x" * 100_000,)


@pytest.mark.parametrize("function", ["exit_in_flush", "remove_stdout"])
def test_a_stdout_that_cannot_be_flushed_keeps_no_answer_back(odd, function):
    assert odd.call(f"odd:{function}") == "answered"
    assert odd.call("os:getpid") == odd.hello["pid"]


def test_modules_from_a_folder_with_a_name_outside_of_ascii_can_be_imported(target):
    source = b"def where():\n    return __file__\n\ndef fail():\n    raise ValueError('it failed')\n"
    sent = [
        ("plain", bundle.MODULE, source, "/home/m\xfcller/plain.py"),
        ("\xe4nderung", bundle.MODULE, source, "/\xe4nderung.py"),
    ]
    target.send(protocol.MODULES, 0, bundle.pack(sent, ["\xfcbrig"], None, {"plain": ["\xe4"]}))
    assert target.call("plain:where") == "roamlet:/home/m\xfcller/plain.py"
    assert 'File "roamlet:/home/m\xfcller/plain.py", line 5, in fail' in target.call("plain:fail")["traceback"]
