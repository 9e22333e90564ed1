"""Files and folders to contexts and back: whole or not at all, from every Python, whatever happens in between."""

import fcntl
import hashlib
import os
import resource
import signal
from pathlib import Path
from typing import get_type_hints

import pytest

import roamlet
from roamlet import remote
from roamlet.remote.files import options
from roamlet.remote.files import transfer as files_transfer
from roamlet.wire.files import files as wire
from roamlet.wire.files import trees
from tests.remote import interpreters
from tests.remote.inside import link_of
from tests.remote.raising import raises

SIZES = (0, 1, wire.PIECE, wire.PIECE + 1, 3 * wire.PIECE + 17)


@pytest.fixture(scope="module", params=interpreters.found())
def anywhere(request):
    """A context of each version; over which transport makes no difference to ordinary calls."""
    with remote.local(interpreters.found()[request.param]) as context:
        yield context


@pytest.fixture(scope="module")
def here():
    with remote.local() as context:
        yield context


@pytest.fixture
def own():
    """For what changes the target's process."""
    with remote.local() as context:
        yield context


def file(path, data, mode=0o640, mtime=1_500_000_000):
    path.write_bytes(data)
    path.chmod(mode)
    os.utime(path, (mtime, mtime))
    return path


def names(folder):
    return sorted(str(path.relative_to(folder)) for path in folder.rglob("*"))


def noise(size):
    return os.urandom(size)


@pytest.mark.parametrize("size", SIZES)
def test_a_file_goes_there_and_back_as_it_is(anywhere, tmp_path, size):
    data = noise(size)
    there = anywhere.put(file(tmp_path / "sent", data), str(tmp_path / "there"))
    back = anywhere.get(str(tmp_path / "there"), tmp_path / "back")
    for result, path in ((there, tmp_path / "there"), (back, tmp_path / "back")):
        assert (result.path, result.bytes, result.files) == (str(path), size, 1)
        assert result.checksum == hashlib.sha256(data).hexdigest()
        assert path.read_bytes() == data
        assert (path.stat().st_mode & 0o7777, path.stat().st_mtime) == (0o640, 1_500_000_000)
    assert names(tmp_path) == ["back", "sent", "there"]


def make_tree(folder):
    (folder / "a" / "b").mkdir(parents=True)
    (folder / "empty").mkdir()
    for number in range(30):
        file(folder / "a" / str(number), noise(number * 100))
    for number in range(3):
        file(folder / "a" / "b" / f"large{number}", noise(wire.PIECE * 2 + number))
    file(folder / "a" / os.fsdecode(b"no text \xff"), b"x")
    (folder / "a" / "link").symlink_to("b/large1")
    (folder / "dangling").symlink_to("nowhere")
    (folder / "a").chmod(0o750)
    os.utime(folder / "a", (1_400_000_000, 1_400_000_000))
    return folder


def test_a_folder_goes_there_and_back_as_it_is(anywhere, tmp_path):
    sent = make_tree(tmp_path / "sent")
    os.mkfifo(sent / "pipe")
    there = anywhere.put(sent, str(tmp_path / "there"), sync=False)
    back = anywhere.get(str(tmp_path / "there"), tmp_path / "back", sync=False)
    assert (there.files, there.skipped, there.checksum) == (34, ("pipe",), None)
    assert (back.files, back.bytes) == (34, there.bytes)
    (sent / "pipe").unlink()
    for copy in (tmp_path / "there", tmp_path / "back"):
        assert names(copy) == names(sent)
        for path in sent.rglob("*"):
            other = copy / path.relative_to(sent)
            assert other.is_symlink() == path.is_symlink()
            if path.is_symlink():
                assert other.readlink() == path.readlink()
            else:
                assert other.stat().st_mode == path.stat().st_mode
                assert int(other.stat().st_mtime) == int(path.stat().st_mtime)
                assert path.is_dir() or other.read_bytes() == path.read_bytes()


def test_links_are_followed_or_left_out_when_that_is_asked_for(here, tmp_path):
    sent = tmp_path / "sent"
    (sent / "sub").mkdir(parents=True)
    file(tmp_path / "outside", b"o")
    (sent / "sub" / "link").symlink_to(tmp_path / "outside")
    here.put(sent, str(tmp_path / "followed"), symlinks="follow")
    assert not (tmp_path / "followed/sub/link").is_symlink()
    assert (tmp_path / "followed/sub/link").read_bytes() == b"o"
    assert here.put(sent, str(tmp_path / "left"), symlinks="skip").skipped == ("sub/link",)
    here.get(str(sent), tmp_path / "back", symlinks="follow")
    assert (tmp_path / "back/sub/link").read_bytes() == b"o"
    with raises(remote.UnsafeName, match="leads out of it, to .*outside.*symlinks='follow' gets what it points to"):
        here.get(str(sent), tmp_path / "kept")
    assert names(tmp_path / "kept") == [] or names(tmp_path / "kept") == ["sub"]


@pytest.mark.parametrize("direction", ["put", "get"])
@pytest.mark.parametrize(
    ("prepare", "target", "options", "error", "message"),
    [
        (lambda folder: (folder / "t").mkdir(), "t", {}, IsADirectoryError, "is a folder; give the name"),
        (None, "missing/t", {}, FileNotFoundError, "make it first, or say parents=True: .*missing'"),
        (lambda folder: (folder / "t").touch(), "t", {"overwrite": False}, FileExistsError, "overwrite=False was said"),
        (
            lambda folder: os.mkfifo(folder / "t"),
            "t",
            {},
            FileExistsError,
            "a pipe or a socket, which no file replaces",
        ),
        (
            lambda folder: (folder / "t").touch(),
            "t/x",
            {},
            NotADirectoryError,
            "is no folder, and a file was to be put",
        ),
    ],
    ids=["a folder", "no folder", "not again", "a pipe", "in a file"],
)
def test_a_target_that_cannot_be_is_refused_with_the_reason(
    here, tmp_path, direction, prepare, target, options, error, message
):
    if prepare is not None:
        prepare(tmp_path)
    before = names(tmp_path)
    source = file(tmp_path / "source", noise(wire.PIECE * 2))
    with raises(error, match=message):
        getattr(here, direction)(str(source), str(tmp_path / target), **options)
    assert names(tmp_path) == sorted([*before, "source"])


@pytest.mark.parametrize("direction", ["put", "get"])
def test_a_target_that_can_be(here, tmp_path, direction):
    copy = getattr(here, direction)
    source = file(tmp_path / "source", b"new")
    (tmp_path / "folder").mkdir()
    file(tmp_path / "old", b"old content")
    (tmp_path / "link").symlink_to("old")
    assert copy(str(source), str(tmp_path / "folder") + "/").path == str(tmp_path / "folder/source")
    copy(str(source), str(tmp_path / "x/y/z"), parents=True)
    copy(str(source), str(tmp_path / "link"), mode=0o4711)
    assert (tmp_path / "old").read_bytes() == b"old content"
    for path in ("folder/source", "x/y/z", "link"):
        assert (tmp_path / path).read_bytes() == b"new"
    assert not (tmp_path / "link").is_symlink()
    assert (tmp_path / "link").stat().st_mode & 0o7777 == 0o4711


def test_set_uid_bits_do_not_come_along_unasked(here, tmp_path):
    file(tmp_path / "source", b"x", mode=0o4755)
    here.get(str(tmp_path / "source"), tmp_path / "plain")
    here.get(str(tmp_path / "source"), tmp_path / "owned", owner=True)
    assert (tmp_path / "plain").stat().st_mode & 0o7777 == 0o755
    assert (tmp_path / "owned").stat().st_mode & 0o7777 == 0o4755


@pytest.mark.skipif(os.geteuid() != 0, reason="only root may become somebody else")
def test_missing_permission_on_the_target_is_its_error(own, tmp_path):
    source = file(tmp_path / "source", noise(wire.PIECE * 2), mode=0o600)
    for folder in (tmp_path, *tmp_path.parents[:-2]):
        folder.chmod(0o755)
    own.put(source, str(tmp_path / "first"))  # before that, because where its Python lies not everybody may read
    own.call(os.setuid, (65534,))
    with raises(PermissionError, match="Permission denied: .*target"):
        own.put(source, str(tmp_path / "target"))
    with raises(PermissionError, match="Permission denied: .*source"):
        own.get(str(source), tmp_path / "target")
    assert names(tmp_path) == ["first", "source"]


@pytest.mark.parametrize("resume", [False, True])
def test_a_disk_that_takes_no_more_in_the_middle_ends_it_and_nothing_half_is_left(own, tmp_path, resume):
    own.call(resource.setrlimit, (resource.RLIMIT_FSIZE, (wire.PIECE * 3, wire.PIECE * 3)))
    file(tmp_path / "target", b"old")
    with raises(OSError, match="File too large: .*target"):
        own.put(file(tmp_path / "source", noise(wire.PIECE * 5)), str(tmp_path / "target"), resume=resume)
    assert (tmp_path / "target").read_bytes() == b"old"
    assert names(tmp_path) == ["source", "target"]


def test_what_an_interruption_left_is_gone_on_with(tmp_path):
    data = noise(wire.PIECE * 40)
    file(tmp_path / "source", data)
    with remote.local() as first, raises(remote.ContextDied):
        pid = first.facts.pid

        killed = []

        def kill_it(progress):
            if progress.done >= wire.PIECE * 8 and not killed:  # answers that were on their way are told of too
                killed.append(os.kill(pid, 9))

        first.put(tmp_path / "source", str(tmp_path / "target"), resume=True, progress=kill_it)
    assert names(tmp_path) == [".target.roamlet-unfinished", "source"]
    with remote.local() as second:
        result = second.put(tmp_path / "source", str(tmp_path / "target"), resume=True)
    assert (tmp_path / "target").read_bytes() == data
    assert result.resumed >= wire.PIECE * 8
    assert (result.bytes, result.files) == (len(data), 1)
    assert names(tmp_path) == ["source", "target"]


class Enough(Exception):
    pass


def enough(progress):
    if progress.done >= wire.PIECE * 4:
        raise Enough


@pytest.mark.parametrize("direction", ["put", "get"])
def test_symbolic_links_stay_what_they_are_where_nothing_may_be_replaced(anywhere, tmp_path, direction):
    (tmp_path / "sent").mkdir()
    (tmp_path / "sent" / "nowhere").symlink_to("missing")
    (tmp_path / "sent" / "self").symlink_to("nowhere")
    getattr(anywhere, direction)(str(tmp_path / "sent"), str(tmp_path / "there"), overwrite=False)
    assert names(tmp_path / "there") == ["nowhere", "self"]
    assert [os.readlink(tmp_path / "there" / name) for name in ("nowhere", "self")] == ["missing", "nowhere"]
    with raises(FileExistsError, match="overwrite=False was said"):
        getattr(anywhere, direction)(str(tmp_path / "sent"), str(tmp_path / "there"), overwrite=False)


def test_a_folder_that_is_fetched_in_vain_is_not_listed_any_further(own, tmp_path):
    (tmp_path / "sent").mkdir()
    for number in range(12 * trees.PAGE):
        (tmp_path / "sent" / str(number)).touch()
    (tmp_path / "empty").mkdir()
    own.get(str(tmp_path / "empty"), tmp_path / "there")
    before = own.call(os.listdir, ("/proc/self/fd",))

    def refuse(progress):
        raise Enough

    with raises(Enough):
        own.get(str(tmp_path / "sent"), tmp_path / "there", progress=refuse)
    for _ in range(500):
        left = own.call(os.listdir, ("/proc/self/fd",))
        if left == before:
            break
        roamlet.sleep(0.01)
    assert left == before


@pytest.mark.parametrize("direction", ["put", "get"])
def test_an_error_of_the_callers_function_leaves_nothing(here, tmp_path, direction):
    source = file(tmp_path / "source", noise(wire.PIECE * 40))
    with raises(Enough):
        getattr(here, direction)(str(source), str(tmp_path / "target"), progress=enough)
    assert names(tmp_path) == ["source"]
    assert getattr(here, direction)(str(source), str(tmp_path / "target")).bytes == wire.PIECE * 40


def test_a_second_transfer_waits_until_the_interrupted_transfer_has_let_go(here, tmp_path, monkeypatch):
    data = noise(wire.PIECE * 2)
    file(tmp_path / "source", data)
    with open(file(tmp_path / ".target.roamlet-unfinished", data[: wire.PIECE]), "rb") as interrupted:
        fcntl.flock(interrupted, fcntl.LOCK_EX)
        monkeypatch.setattr(files_transfer, "LETS_GO", 0)
        with raises(OSError, match="is being written by another transfer at this moment"):
            here.put(tmp_path / "source", str(tmp_path / "target"), resume=True)
        monkeypatch.setattr(files_transfer, "LETS_GO", 60)
        monkeypatch.setattr(files_transfer, "_pause", lambda: fcntl.flock(interrupted, fcntl.LOCK_UN))
        result = here.put(tmp_path / "source", str(tmp_path / "target"), resume=True)
    assert result.resumed == wire.PIECE
    assert (tmp_path / "target").read_bytes() == data


def test_errors_name_paths_as_text(here, tmp_path):
    (tmp_path / "folder").mkdir()
    file(tmp_path / "source", b"new")
    missing = str(tmp_path / "missing")
    for move in (lambda: here.put(missing, str(tmp_path / "x")), lambda: here.get(missing, tmp_path / "x")):
        with raises(FileNotFoundError, match=": '.*/missing'$"):
            move()
    with raises(IsADirectoryError, match="or end it with a slash: '.*/folder'"):
        here.put(tmp_path / "source", str(tmp_path / "folder"))


@pytest.mark.parametrize("resume", [False, True])
def test_fetching_is_gone_on_with_too_or_leaves_nothing(here, tmp_path, resume):
    data = noise(wire.PIECE * 40)
    file(tmp_path / "source", data)
    begun = roamlet.channel()

    def fetch():
        here.get(str(tmp_path / "source"), tmp_path / "target", resume=resume, progress=begun.send)

    fetching = roamlet.tasklet(fetch)()
    while begun.receive().done < wire.PIECE * 8:
        pass
    fetching.kill()
    assert (".target.roamlet-unfinished" in names(tmp_path)) == resume
    assert "target" not in names(tmp_path)
    result = here.get(str(tmp_path / "source"), tmp_path / "target", resume=resume)
    assert (result.resumed >= wire.PIECE * 8) == resume
    assert (tmp_path / "target").read_bytes() == data
    assert names(tmp_path) == ["source", "target"]


@pytest.mark.parametrize("direction", ["put", "get"])
def test_what_is_left_of_another_file_is_not_gone_on_with(here, tmp_path, direction):
    data = noise(wire.PIECE * 3)
    file(tmp_path / "source", data)
    file(tmp_path / ".target.roamlet-unfinished", noise(wire.PIECE * 2))
    result = getattr(here, direction)(str(tmp_path / "source"), str(tmp_path / "target"), resume=True)
    assert (result.resumed, result.bytes, result.files) == (0, len(data), 1)
    assert (tmp_path / "target").read_bytes() == data
    assert names(tmp_path) == ["source", "target"]


@pytest.mark.parametrize("direction", ["put", "get"])
def test_a_source_that_is_changed_while_it_is_read_is_not_put_in_place(here, tmp_path, direction):
    source = file(tmp_path / "source", noise(wire.PIECE * 80))

    changed = []

    def change(progress):
        if not changed:  # the first time: several pieces may have arrived by then
            with source.open("ab") as end:
                changed.append(end.write(b"more"))

    with raises(remote.FileChanged, match="was changed while it was read; nothing was put in place"):
        getattr(here, direction)(str(source), str(tmp_path / "target"), progress=change)
    assert names(tmp_path) == ["source"]


def test_holes_stay_holes(here, tmp_path):
    with (tmp_path / "source").open("wb") as sparse:
        sparse.seek(8 << 20)
        sparse.write(b"end")
    before = here.stats.bytes_down + here.stats.bytes_up
    sent = here.put(tmp_path / "source", str(tmp_path / "there"))
    here.get(str(tmp_path / "there"), tmp_path / "back")
    assert sent.bytes == (8 << 20) + 3
    for name in ("there", "back"):
        assert (tmp_path / name).read_bytes() == (tmp_path / "source").read_bytes()
        assert (tmp_path / name).stat().st_blocks * 512 < 1 << 20
    assert here.stats.bytes_down + here.stats.bytes_up - before < 1 << 20


def test_small_files_do_not_cost_a_call_each(here, tmp_path):
    (tmp_path / "source").mkdir()
    for number in range(1000):
        (tmp_path / "source" / str(number)).write_bytes(b"x")
    here.call(os.getpid)
    before = here.stats.calls
    here.put(tmp_path / "source", str(tmp_path / "target"), sync=False)
    here.get(str(tmp_path / "target"), tmp_path / "back", sync=False)
    assert names(tmp_path / "back") == names(tmp_path / "source")
    assert here.stats.calls - before < 25


def test_many_files_at_once_share_the_limit(here, tmp_path, in_tasklets):
    data = noise(wire.PIECE * 10)
    for number in range(10):
        file(tmp_path / f"source{number}", data)
    here.call(os.getpid)
    in_tasklets(lambda number: here.put(tmp_path / f"source{number}", str(tmp_path / f"target{number}")), range(10))
    assert all((tmp_path / f"target{number}").read_bytes() == data for number in range(10))


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({"checksum": "md5"}, ValueError, "checksum='md5': say one of 'sha256', 'blake2b'"),
        ({"symlinks": "maybe"}, ValueError, "symlinks='maybe': say one of"),
        ({"mode": "644"}, ValueError, "give permissions such as 0o644"),
        ({"progress": 5}, TypeError, "progress must be a function"),
        ({"mdoe": 5}, TypeError, r"put\(\) and get\(\) know no option 'mdoe'; they take mode, owner, .*, progress$"),
    ],
)
def test_wrong_options_are_refused_before_anything_happens(here, tmp_path, options, error, message):
    calls = here.stats.calls
    with raises(error, match=message):
        here.put(file(tmp_path / "source", b"x"), str(tmp_path / "target"), **options)
    assert here.stats.calls == calls


def test_a_transfer_to_a_context_that_has_ended_is_called_a_transfer(tmp_path):
    (tmp_path / "file").write_text("data")
    (tmp_path / "folder").mkdir()
    context = remote.local()
    context.put(tmp_path / "file", str(tmp_path / "there"))
    context.close()
    for transfer in (context.put, context.get):
        with raises(remote.ContextClosed, match="^a transfer of files was not sent: 'local' is closed"):
            transfer(tmp_path / "file", str(tmp_path / "again"))
    with raises(remote.ContextClosed, match=r"^heartbeat\(\) was not sent: 'local' is closed"):
        context.heartbeat(3)
    with remote.local() as context:
        os.kill(context.facts.pid, signal.SIGKILL)
        link_of(context).ended.wait(10)
        with raises(remote.ContextDied, match="^a transfer of files was not sent: 'local' has died before"):
            context.put(tmp_path / "folder", str(tmp_path / "again"))


def test_wrong_paths_are_refused(here, tmp_path):
    with raises(TypeError, match="local must be a path, not 5"):
        here.put(5, "x")
    with raises(ValueError, match="remote='' is no path"):
        here.get("", tmp_path / "x")
    with raises(FileNotFoundError, match="absent"):
        here.get(str(tmp_path / "absent"), tmp_path / "x")
    with raises(FileNotFoundError, match="absent"):
        here.put(tmp_path / "absent", str(tmp_path / "x"))
    with raises(OSError, match="is no regular file"):
        here.get("/dev/zero", tmp_path / "x")
    with raises(ValueError, match="mode= is for one file"):
        here.put(tmp_path, str(tmp_path / "x"), mode=0o600)
    assert names(tmp_path) == []


def test_the_home_directory_is_the_one_of_the_target(here, tmp_path):
    home = here.call(os.path.expanduser, ("~",))
    assert Path(home).is_dir()
    with raises(FileNotFoundError, match="no-such-folder-at-all"):
        here.get("~/no-such-folder-at-all/file", tmp_path / "x")


def test_files_go_through_hops(here, tmp_path):
    data = noise(wire.PIECE * 5 + 3)
    file(tmp_path / "source", data)
    with remote.local(via=here) as second, remote.local(via=second) as third:
        assert third.put(tmp_path / "source", str(tmp_path / "target")).bytes == len(data)
        third.get(str(tmp_path / "target"), tmp_path / "back")
    assert (tmp_path / "back").read_bytes() == data


def test_each_option_is_declared_with_one_type():
    hints = get_type_hints(options.Options)
    del hints["key"]
    assert get_type_hints(options.TransferOptions) == hints
