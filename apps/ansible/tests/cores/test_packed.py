"""What is kept of packed modules across runs, and when it is not used. The installed core is a small one, made for each test."""

import os
import stat
from pathlib import Path

import pytest

from roamlet_ansible.cores import installed, packed

FQN = "ansible.modules.ping"
NAME = FQN + "-ZIP_DEFLATED"
PAYLOAD = b"the base64 of a zip"
FILES = {"ansible/modules/ping.py": b"ping", "ansible/module_utils/basic.py": b"basic"}


class Runs:
    """Runs on one controller, each with a folder of its own."""

    def __init__(self, folder: Path) -> None:
        self.core = folder / "site-packages" / "ansible"
        self.cache = folder / "cache"
        self.others = False
        self._folder = folder
        self._count = 0
        for path, source in FILES.items():
            file = self.core.parent / path
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_bytes(source)

    def begin(self) -> str:
        """A new run's folder, after restore()."""
        self._count += 1
        run = self._folder / f"run{self._count}"
        (run / packed.OF_RUN).mkdir(parents=True)
        packed.restore(str(run))
        return str(run)

    def pack(self, run: str, name: str = NAME, data: bytes = b"{" + PAYLOAD + b"}") -> None:
        """What core does, unless it finds the file."""
        file = Path(run, packed.OF_RUN, name)
        if not file.exists():
            file.write_bytes(data)

    def finish(self, run: str, fqn: str = FQN, files: dict[str, bytes] = FILES) -> None:
        """What the broker does."""
        keeper = packed.Keeper(run)
        keeper.used(fqn, PAYLOAD, files.items())
        keeper.write()

    def whole(self) -> None:
        """A run that uses the module."""
        run = self.begin()
        self.pack(run)
        self.finish(run)

    def kept(self) -> list[Path]:
        return sorted(path for path in self.cache.glob("*/*"))

    def restored(self) -> list[str]:
        return sorted(os.listdir(os.path.join(self.begin(), packed.OF_RUN)))


@pytest.fixture
def runs(tmp_path, monkeypatch):
    runs = Runs(tmp_path)
    monkeypatch.setattr(installed, "root", lambda: str(runs.core))
    monkeypatch.setattr(packed, "others", lambda: runs.others)
    monkeypatch.setattr(packed, "SETTLED", -3600)  # the files were made a moment ago
    monkeypatch.setenv(packed.PLACE, str(runs.cache))
    return runs


def test_a_packed_module_is_there_in_the_next_run(runs):
    runs.whole()
    run = runs.begin()
    file = Path(run, packed.OF_RUN, NAME)
    assert file.read_bytes() == b"{" + PAYLOAD + b"}"
    assert os.listdir(file.parent) == [NAME]


def test_no_other_account_can_read_or_write_it(runs):
    runs.whole()
    (file,) = runs.kept()
    assert [stat.S_IMODE(path.stat().st_mode) for path in (file, file.parent, runs.cache)] == [0o600, 0o700, 0o700]


@pytest.mark.parametrize("change", ["changed", "same size", "added", "removed", "elsewhere"])
def test_another_installation_has_core_pack_it(runs, change, monkeypatch):
    runs.whole()
    basic = runs.core / "module_utils" / "basic.py"
    if change == "changed":
        basic.write_bytes(b"another basic")
    elif change == "same size":
        times = basic.stat()
        while basic.stat().st_ctime_ns == times.st_ctime_ns:  # within one tick of the clock
            basic.write_bytes(b"BASIC")
            os.utime(basic, ns=(times.st_atime_ns, times.st_mtime_ns))
    elif change == "added":
        (runs.core / "module_utils" / "basic").mkdir()
        (runs.core / "module_utils" / "basic" / "__init__.py").write_bytes(b"")
    elif change == "removed":
        basic.unlink()
    else:
        monkeypatch.setattr(packed.sys, "version", "another Python")
    assert runs.restored() == []


def test_what_was_changed_a_moment_ago_counts_as_unknown(runs, monkeypatch):
    assert packed.installation() is not None
    monkeypatch.setattr(packed, "SETTLED", 3600)
    assert packed.installation() is None
    runs.whole()
    assert runs.kept() == []


def test_a_link_in_an_installation_counts_as_unknown(runs):
    (runs.core / "module_utils" / "other.py").symlink_to("basic.py")
    assert packed.installation() is None


@pytest.mark.parametrize(
    "files",
    [
        {**FILES, "ansible/module_utils/basic.py": b"of a role"},
        {**FILES, "ansible/module_utils/own.py": b"of a role"},
        {**FILES, "ansible_collections/some/name/plugins/module_utils/own.py": b"of a collection"},
    ],
)
def test_a_module_with_a_file_that_is_not_cores_is_not_kept(runs, files):
    run = runs.begin()
    runs.pack(run)
    runs.finish(run, files=files)
    assert runs.kept() == []


@pytest.mark.parametrize("fqn", ["ansible.legacy.ping", "ansible_collections.some.name.plugins.modules.ping"])
def test_a_module_of_others_is_not_kept(runs, fqn):
    run = runs.begin()
    runs.pack(run, name=fqn + "-ZIP_DEFLATED")
    runs.finish(run, fqn=fqn)
    assert runs.kept() == []


def test_another_file_of_that_name_is_not_kept(runs):
    run = runs.begin()
    runs.pack(run)
    runs.pack(run, name=NAME + "-other", data=b"of another payload")
    runs.finish(run)
    assert [path.name for path in runs.kept()] == [NAME]


def test_nothing_is_kept_when_core_was_changed_during_the_run(runs):
    run = runs.begin()
    runs.pack(run)
    (runs.core / "modules" / "new.py").write_bytes(b"")
    runs.finish(run)
    assert runs.kept() == []


@pytest.mark.parametrize("damage", ["cut", "other", "empty", "writable", "link", "folder", "open folder", "open cache"])
def test_what_is_damaged_or_open_to_others_is_left_to_core(runs, damage):
    runs.whole()
    (file,) = runs.kept()
    data = file.read_bytes()
    if damage == "cut":
        file.write_bytes(data[:-1])
    elif damage == "other":
        file.write_bytes(data[:-1] + b"!")
    elif damage == "empty":
        file.write_bytes(b"")
    elif damage == "writable":
        file.chmod(0o620)
    elif damage == "link":
        file.rename(file.parent.parent / "moved")
        file.symlink_to(file.parent.parent / "moved")
    elif damage == "folder":
        file.unlink()
        file.mkdir()
    elif damage == "open folder":
        file.parent.chmod(0o750)
    else:
        runs.cache.chmod(0o755)
    assert runs.restored() == []


@pytest.mark.skipif(os.geteuid() != 0, reason="gives a file to another account")
@pytest.mark.parametrize("whose", ["file", "folder"])
def test_what_another_account_has_made_is_left_to_core(runs, whose):
    runs.whole()
    (file,) = runs.kept()
    os.chown(file if whose == "file" else file.parent, 65534, 65534)
    assert runs.restored() == []


def test_module_utils_of_the_users_own_have_core_pack_all(runs):
    runs.whole()
    runs.others = True
    assert runs.restored() == []


def test_only_what_no_task_has_used_is_withdrawn(runs):
    other = "ansible.modules.stat"
    run = runs.begin()
    runs.pack(run)
    runs.pack(run, name=other + "-ZIP_DEFLATED")
    keeper = packed.Keeper(run)
    keeper.used(FQN, PAYLOAD, FILES.items())
    keeper.used(other, PAYLOAD, FILES.items())
    keeper.write()

    run = runs.begin()
    packed.Keeper(run).used(FQN, PAYLOAD, FILES.items())
    packed.withdraw(run)
    assert os.listdir(os.path.join(run, packed.OF_RUN)) == [NAME]


def test_what_core_has_packed_already_stays(runs):
    runs.whole()
    run = runs.begin()
    file = Path(run, packed.OF_RUN, NAME)
    file.write_bytes(b"packed in this run")
    packed.restore(run)
    assert file.read_bytes() == b"packed in this run"
    packed.withdraw(run)
    assert file.exists()


def test_the_installations_that_were_used_last_are_kept(runs, monkeypatch):
    for number in range(packed.MOST_INSTALLATIONS + 2):
        monkeypatch.setattr(packed.sys, "version", f"Python {number}")
        runs.whole()
        for age, path in enumerate(sorted(runs.cache.iterdir(), key=lambda path: -path.stat().st_mtime_ns)):
            os.utime(path, (1000 - age, 1000 - age))
    assert len(list(runs.cache.iterdir())) == packed.MOST_INSTALLATIONS
    assert runs.restored() == [NAME]


def test_the_files_of_one_installation_are_bounded(runs, monkeypatch):
    monkeypatch.setattr(packed, "MOST_FILES", 1)
    runs.whole()
    run = runs.begin()
    runs.pack(run, name="ansible.modules.stat-ZIP_DEFLATED")
    runs.finish(run, fqn="ansible.modules.stat")
    assert [path.name for path in runs.kept()] == [NAME]


def test_nothing_is_kept_when_the_user_has_switched_it_off(runs, monkeypatch):
    monkeypatch.setenv(packed.PLACE, "")
    monkeypatch.setenv("HOME", str(runs.cache))
    runs.whole()
    assert runs.restored() == []
    assert not runs.cache.exists()


def test_the_place_is_the_users_cache_folder(monkeypatch):
    monkeypatch.delenv(packed.PLACE, raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", "/somewhere")
    assert packed.place() == Path("/somewhere/roamlet-ansible")
    monkeypatch.delenv("XDG_CACHE_HOME")
    monkeypatch.setenv("HOME", "/home/some")
    assert packed.place() == Path("/home/some/.cache/roamlet-ansible")
    monkeypatch.setenv(packed.PLACE, "relative")
    assert packed.place() is None
