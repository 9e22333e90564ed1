"""Parts of the payload that travel when they are needed: in place before the next frame, in every version of Python."""

import pytest

from roamlet.wire import build, codec, protocol
from tests.wire.interpreters import found, since
from tests.wire.target import Ended, send_part

ECHO = """
from roamlet.wire import protocol

def install(child):
    def echo(destination, source, identifier, kind, body):
        child._link.send(protocol.PONG, identifier, body[::-1], source)
    child.kinds[protocol.LOG] = echo
"""


LOOK = """
import sys

def loaded():
    return sorted(name for name in list(sys.modules) if not name.startswith("roamlet"))
"""


APART = {
    "calls.tasklets",
    "modules.resources",
    "modules.paths",
    "modules.metadata",
    "modules.children",
}  # needs roamlet itself; these come by imports


def install(target, name):
    target.send(protocol.PART, 0, codec.dumps(name))


def test_a_part_takes_frames_that_come_right_behind_it(target):
    target.modules({"roamlet.wire.echo": ECHO})
    install(target, "echo")
    target.send(protocol.LOG, 5, b"abc")
    assert target.wait_for(protocol.PONG, 5)[4] == b"cba"


def test_a_part_is_a_module_that_calls_can_import_beside_the_stand_in_of_roamlet(target):
    target.modules(
        {
            "roamlet.wire.echo": ECHO,
            "work": "import roamlet\nfrom roamlet.wire import echo, codec\nfrom roamlet.wire.echo import install\n"
            "def parts():\n    return [echo.__name__, echo.__file__, install is echo.install, repr(roamlet.channel)]\n",
        }
    )
    name, path, same, rest = target.call("work:parts")
    assert (name, path, same) == ("roamlet.wire.echo", "roamlet:roamlet.wire.echo", True)
    assert "which this context does not have" in rest


@pytest.mark.parametrize("kind", [protocol.RESULT, protocol.HELLO])
def test_a_frame_that_nothing_takes_ends_the_target_and_says_why(target, kind):
    target.send(kind, 1, b"N")
    with pytest.raises(Ended, match=f"a {protocol.kind_name(kind)} frame cannot be used.*nothing here takes it"):
        target.wait_for(protocol.PONG)


def test_a_part_that_is_not_there_ends_the_target_and_says_so(target):
    install(target, "nothing")
    with pytest.raises(Ended, match="PART frame cannot be used"):
        target.wait_for(protocol.PONG)


def parts_for(target):
    """Those that are made in the thread that reads."""
    apart = APART | {"modules.extensions"} if target.hello["python"][0] == 2 else APART
    return [part for part in build.PARTS if part not in apart and part not in build.CALLED]


def begin_to_import(target):
    """Begin a call that waits for a module; return the call's number."""
    target.modules({"work": "def get():\n    import far\n    return far.x\n"})
    number = target.begin("work:get")
    target.wait_until(lambda: "far" in target.wants)
    return number


def test_parts_are_in_place_although_a_call_is_in_the_middle_of_an_import_that_waits_for_the_parent(target):
    number = begin_to_import(target)
    for part in parts_for(target):
        send_part(target, part)
    assert target.call("os:getpid") == target.hello["pid"]  # the frame after them
    target.modules({"far": "x = 5\n"}, number=target.wants["far"])
    assert target.answer(number) == 5


def test_parts_import_nothing_that_a_context_has_not_imported_when_it_says_hello(target):
    target.modules({"look": LOOK})
    before = target.call("look:loaded")
    for part in parts_for(target):
        send_part(target, part)
    assert target.call("look:loaded") == before


@pytest.mark.parametrize("version", since(3, 6))
def test_other_threads_import_while_one_import_waits_for_the_parent(start, version):
    target = start(found()[version])
    number = begin_to_import(target)
    target.modules({"more": "def name():\n    import wave\n    return wave.__name__\n"})
    assert target.call("more:name") == "wave"
    target.modules({"far": "x = 5\n"}, number=target.wants["far"])
    assert target.answer(number) == 5


def test_every_module_of_the_package_can_be_a_part():
    name, kind, source, origin = build.part("codec")
    assert (name, kind, origin) == ("roamlet.wire.codec", 0, "roamlet/wire/codec.py")
    assert b'"""' not in source
    assert compile(source, origin, "exec")
