"""A hostile target that is asked for files: nothing is written outside of the place that was named, and nothing else is hurt."""

import pytest

from roamlet import remote
from roamlet.wire.files import files as wire
from tests.remote.fakes import hostile
from tests.remote.raising import raises

# Answers to the functions of roamlet.wire by their names; the first argument of each call is at hand as `token`.
SERVE = """
hello()
FACTS = [0o100644, 10**18, 5, [0, 0, None, None]]
FOLDER = [0o40755, 10**18, 0, [0, 0, None, None]]
answers = {{"start_walk": FOLDER, "start_reading": None, "more": [], "fetch": [], "stop": None, "stop_walk": None}}
answers.update({answers})
while True:
    number, kind, body = receive()
    if kind == protocol.GOODBYE:
        sys.exit(0)
    if kind == protocol.CALL:
        name = codec.loads(body)[1]
        value = answers[name]
        if name == "more":
            answers["more"] = []
        send(protocol.RESULT, codec.dumps(value), number)
"""


@pytest.fixture
def fetched(tmp_path):
    """`fetched(answers)` gets a file or folder from a target that gives these answers."""
    opened = []

    def fetch(answers, **options):
        context = remote.local(hostile(tmp_path, SERVE.format(answers=answers)), timeout=20)
        opened.append(context)
        (tmp_path / "into").mkdir(exist_ok=True)
        return context.get("/somewhere", tmp_path / "into" / "name", **options)

    yield fetch
    for context in opened:
        context.close()


def everything(folder):
    return sorted(str(path.relative_to(folder)) for path in folder.rglob("*") if path.name != "python")


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("../evil", "f"),
        ("../evil", "d"),
        ("../evil", "l"),
        ("/tmp/evil", "f"),
        ("a/../../evil", "f"),
        ("", "f"),
        ("a\\0b", "f"),
    ],
)
def test_names_that_lead_out_are_refused(fetched, tmp_path, name, kind):
    with raises(remote.UnsafeName, match="which is no name of something inside of it; it was not made here"):
        fetched(f"more=[[b'{name}', '{kind}', FACTS, b'x']]")
    assert everything(tmp_path) in (["into"], ["into", "into/name"])


@pytest.mark.parametrize("target", ["/etc/passwd", "../x"])
def test_links_that_lead_out_are_refused(fetched, tmp_path, target):
    with raises(remote.UnsafeName, match="a symbolic link that leads out of it"):
        fetched(f"more=[[b'link', 'l', FACTS, b'{target}']]")
    assert everything(tmp_path) in (["into"], ["into", "into/name"])


def test_a_name_that_is_a_link_and_a_folder_leads_nowhere(fetched, tmp_path):
    (tmp_path / "into/name").mkdir(parents=True)
    (tmp_path / "outside").mkdir()
    (tmp_path / "into/name/sub").symlink_to(tmp_path / "outside")
    with raises(NotADirectoryError, match="is no folder, but a file or a symbolic link"):
        fetched(
            "more=[[b'sub', 'd', FOLDER, None], [b'sub/x', 'f', FACTS, None]], fetch=[[FACTS, b'12345', 'abc', True]]"
        )
    assert everything(tmp_path / "outside") == []


WRONG = {
    "no list of names": "more=5",
    "a name that is text": "more=[['x', 'f', FACTS, None]]",
    "an unknown kind": "more=[[b'x', 'z', FACTS, None]]",
    "malformed facts": "more=[[b'x', 'f', [1, 2, -3, []], None]]",
    "a size beyond all": "more=[[b'x', 'f', [1, 2, 1 << 70, [0, 0, None, None]], None]]",
    "a link without a target": "more=[[b'x', 'l', FACTS, None]]",
    "files that were not asked for": "more=[[b'x', 'f', FACTS, None]], fetch=[1, 2, 3]",
    "more bytes than it says": "more=[[b'x', 'f', FACTS, None]], fetch=[[FACTS, b'123456', 'abc', True]]",
    "a malformed folder": "start_walk=7",
    "a malformed opening": "start_reading=7",
    "a malformed first piece": "start_reading=[FACTS, 'text', 'abc', True]",
    "a malformed checksum": "start_reading=[FACTS, b'12345', 7, True]",
    "too large a piece": "start_reading=[FACTS[:2] + [600000, FACTS[3]], b'x', None, None], read=b'x' * 600000, stop_reading=5",
    "a negative number of zeros": "start_reading=[FACTS[:2] + [600000, FACTS[3]], -5, None, None]",
    "a malformed end": "read=5, stop_reading=5, "
    f"start_reading=[FACTS[:2] + [{wire.PIECE + 5}, FACTS[3]], {wire.PIECE}, None, None]",
}


@pytest.mark.parametrize("answers", WRONG.values(), ids=WRONG)
def test_answers_that_are_none_close_the_context(fetched, tmp_path, answers):
    with raises(remote.ProtocolError, match="answered what it must never send, so it was closed"):
        fetched(answers)
    assert everything(tmp_path) in (["into"], ["into", "into/name"])


def test_a_checksum_that_is_not_that_of_the_bytes_is_noticed(fetched, tmp_path):
    with raises(remote.DamagedFile, match="did not arrive as it was sent; nothing was put in place"):
        fetched("start_reading=[FACTS, b'12345', 'abc', True]")
    assert everything(tmp_path) == ["into"]


def test_a_file_that_ends_early_is_not_put_in_place(fetched, tmp_path):
    with raises(remote.FileChanged, match="was changed while it was read"):
        fetched("start_reading=[FACTS, b'123', 'abc', True]")
    assert everything(tmp_path) == ["into"]
