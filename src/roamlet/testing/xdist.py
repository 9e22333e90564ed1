"""A project's tests on other hosts: what pytest-xdist's `--tx roamlet//ssh=alpha` does. The pytest plugin of roamlet calls it.

The project travels into a private folder in each host's memory, packages come from this process as they are imported.
"""

import contextlib
import fnmatch
import os
import sys
import tarfile
import tempfile
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any, BinaryIO

import execnet
import pytest

import roamlet
from roamlet.execnet import Gateway, Group, UnknownSpec, open_place, place_of
from roamlet.remote import Context, RemoteError, open_all
from roamlet.remote.calls.engine import calls_of
from roamlet.wire.calls import gateways as on_target

__all__ = ["prepare"]

_LEFT_OUT = {".git", ".hg", ".svn", "__pycache__", "node_modules", ".tox", ".nox"}  # folders that no test needs
_CACHES = ".*_cache"
_COMPILED = ("*.pyc", "*.pyo")
_WINDOW = 16  # pieces of an archive that may be on their way to a host
_PACKAGES = ("execnet", "pytest", "pytest-xdist")  # that a worker imports
PATIENCE = 5.0  # seconds that hosts have to end when not all of them opened


def prepare(config: pytest.Config, specs: Sequence[execnet.XSpec], sys_path: Sequence[str]) -> None:
    """Before xdist makes its workers: open the hosts of all `roamlet//...` among the specs at once, and bring the project there.

    `sys_path`: that of this process before pytest added to it; workers search those entries that are in the project.
    Blocks; raises pytest.UsageError where a specification is wrong, a host does not open, or its memory does not take the project.
    """
    ours = [spec for spec in specs if spec.roamlet]
    nodes = config.pluginmanager.get_plugin("dsession").nodemanager  # type: ignore[union-attr] # of xdist, which calls this
    if len(nodes.group):
        raise pytest.UsageError("--px is for gateways of execnet's own, and cannot stand beside --tx roamlet//...")
    if config.getoption("roamlet_patch"):
        raise pytest.UsageError("--roamlet-patch: workers on hosts have the small module roamlet, which has no patch")
    for spec in ours:
        if "chdir=" in str(spec):
            raise pytest.UsageError(f"--tx: {spec}: workers are in the copy of the project, which chdir= cannot be")
    group = _Group(config, sys_path)
    for _ in specs:
        group.allocate_id(execnet.XSpec("popen"))  # which gives out the names that the specs have already
    try:
        group.bring(ours)
    except UnknownSpec as error:
        raise pytest.UsageError(f"--tx: {error}") from None
    except BaseException:
        group.terminate(PATIENCE)
        raise
    nodes.group = group
    for spec in ours:
        # As for workers of this machine: xdist copies nothing and leaves paths as they are. See _instruct().
        spec.popen, spec.chdir = True, None
    if all(spec.popen for spec in specs):
        nodes.roots = []


class Project:
    """What travels: the folder `root`, and which words of the command line, and folders of sys.path, are in it."""

    def __init__(self, config: pytest.Config, sys_path: Sequence[str]) -> None:
        self._invoked = config.invocation_params.dir.resolve()
        self._rootpath = config.rootpath
        self.root: Path = self._rootpath.resolve()
        self._inside = self._invoked.is_relative_to(self.root)
        self._tests = {str(word) for word in config.option.file_or_dir}
        home = Path.home().resolve()
        if home.is_relative_to(self.root) or Path(tempfile.gettempdir()).resolve().is_relative_to(self.root):
            raise pytest.UsageError(
                f"{self.root} would travel to the hosts, as pytest takes it for the project: "
                "name the project's folder as --rootdir, or give it a pytest.ini"
            )
        self.place: str = os.fspath(self._invoked.relative_to(self.root)) if self._inside else "."
        self._ignored = [*_COMPILED, *map(str, config.getini("rsyncignore")), *map(str, config.option.rsyncignore)]
        resolved = [Path(path).resolve() for path in sys_path if os.path.isabs(path)]
        inside = [path for path in resolved if path.is_relative_to(self.root) and not self._is_in_environment(path)]
        self.paths: list[str] = [os.fspath(path.relative_to(self.root)) for path in dict.fromkeys(inside)]

    def words(self, words: Sequence[object], there: str) -> list[str]:
        """The words of the command line for a worker whose project is in the folder `there`.

        No entry point names roamlet's plugin there, whose settings a project may have.
        """
        return ["-p", "roamlet_pytest", *(self._word(str(word), there) for word in words)]

    def _word(self, word: str, there: str) -> str:
        option, equals, value = word.partition("=") if word.startswith("-") else ("", "", word)
        path, colons, rest = value.partition("::")
        if not path or (option and not equals):
            return word
        is_test = word in self._tests  # and no expression of -k, nor the file of another option
        if self._inside and not is_test and not os.path.isabs(path):
            return word  # it means the same in the copy, where the worker is in the same folder
        whole = self._invoked / path
        try:
            if not whole.exists():
                return word
            inside = whole.resolve().relative_to(self.root)
        except OSError:
            return word
        except ValueError:
            if not is_test:
                return word
            raise pytest.UsageError(
                f"{word} is outside of {self.root}, which is what travels to the hosts: "
                "put the tests in it, or name a folder above both as --rootdir"
            ) from None
        return f"{option}{equals}{os.path.join(there, inside)}{colons}{rest}"

    def archive(self) -> BinaryIO:
        """All of it as a compressed tar archive, in a file that has no name. The caller closes it."""
        file = tempfile.TemporaryFile()  # noqa: SIM115
        try:
            with tarfile.open(fileobj=file, mode="w:gz", compresslevel=1) as archive:
                for path, name in self._files():
                    try:
                        archive.add(path, name, recursive=False, filter=self._entry)
                    except FileNotFoundError:
                        continue  # it has just been removed, as temporary files of editors are
                    except OSError as error:
                        raise _does_not_travel(path, error) from error
        except BaseException:
            file.close()
            raise
        return file

    def _entry(self, entry: tarfile.TarInfo) -> tarfile.TarInfo:
        """Whoever unpacks it owns it, and a link into the project leads into the copy."""
        entry.uid = entry.gid = 0
        entry.uname = entry.gname = ""
        target = Path(entry.linkname)
        if entry.issym() and target.is_absolute():
            for root in (self._rootpath, self.root):
                if target.is_relative_to(root):
                    entry.linkname = os.path.relpath(target.relative_to(root), os.path.dirname(entry.name) or ".")
                    break
        return entry

    def _files(self) -> Iterator[tuple[str, str]]:
        for folder, folders, files in os.walk(self.root, onerror=_refuse_folder):
            kept = []
            for each in folders:
                path = Path(folder, each)
                if each in _LEFT_OUT or fnmatch.fnmatch(each, _CACHES):
                    continue
                if self._is_environment(path) or self._ignores(path):
                    continue
                kept.append(each)
                yield self._named(path)
            folders[:] = [each for each in kept if not Path(folder, each).is_symlink()]
            for each in files:
                path = Path(folder, each)
                if not self._ignores(path) and (path.is_file() or path.is_symlink()):
                    yield self._named(path)

    def _named(self, path: Path) -> tuple[str, str]:
        return os.fspath(path), os.fspath(path.relative_to(self.root))

    def _ignores(self, path: Path) -> bool:
        relative = os.fspath(path.relative_to(self.root))
        return any(
            fnmatch.fnmatch(name, pattern)
            for pattern in self._ignored
            for name in (path.name, relative, os.fspath(path))
        )

    def _is_environment(self, path: Path) -> bool:
        """Whether the folder is a virtual environment, or has the packages of one that the project's folder is itself."""
        if path == self.root:
            return False
        if path.parent == self.root / "lib" and path.name.startswith("python"):
            return (self.root / "pyvenv.cfg").exists()
        return (path / "pyvenv.cfg").exists() or (path / "conda-meta").is_dir()

    def _is_in_environment(self, path: Path) -> bool:
        return any(self._is_environment(each) for each in (path, *path.parents) if each.is_relative_to(self.root))


def _refuse_folder(error: OSError) -> None:
    if not isinstance(error, FileNotFoundError):
        raise _does_not_travel(error.filename, error) from error


def _does_not_travel(path: object, error: OSError) -> pytest.UsageError:
    return pytest.UsageError(
        f"--tx: {path} cannot travel to the hosts: {error.strerror or error}\n"
        "    If no test needs it, leave it out: rsyncignore = NAME in pytest's settings"
    )


class _Group(Group):
    """The workers of one session of xdist."""

    def __init__(self, config: pytest.Config, sys_path: Sequence[str]) -> None:
        self._config = config
        self._project = Project(config, sys_path)
        self._folders: dict[Context, str] = {}
        super().__init__(execmodel="main_thread_only")

    def bring(self, specs: Sequence[execnet.XSpec]) -> None:
        """Open the hosts and bring the project to each, all of them at a time."""
        first = {place_of(spec): spec for spec in specs}
        opened = open_all([partial(open_place, place, _PACKAGES) for place in first])
        if opened.failed:
            opened.close()
            raise pytest.UsageError("\n".join(f"--tx: {each.error}" for each in opened.failed))
        for context, spec in zip(opened.contexts, first.values(), strict=True):
            self.adopt(spec, context)
        self._send(opened.contexts)

    def _send(self, hosts: Sequence[Context]) -> None:
        with self._project.archive() as file:
            size = file.seek(0, os.SEEK_END)
            file.seek(0)
            self._say(
                f"roamlet: {self._project.root}, {size / 1e6:.1f} MB, goes to {', '.join(each.name for each in hosts)}"
            )
            channels = {context: roamlet.channel[bytes](_WINDOW) for context in hosts}
            calls = {}
            for context, pieces in channels.items():
                calls_of(context).shipping.need("calls.gateways")
                calls[context] = context.spawn(on_target.receive_tree, (pieces, self._project.root.name))
                calls[context].then(pieces.close)  # it takes no more, perhaps because it has failed
            while piece := file.read(on_target.PIECE):
                for pieces in channels.values():
                    with contextlib.suppress(roamlet.ChannelClosed):  # its call says why
                        pieces.send(piece)
            for pieces in channels.values():
                pieces.close()
            for context, call in calls.items():
                try:
                    self._folders[context] = call.join()
                except Exception as error:
                    raise pytest.UsageError(
                        f"--tx: {context.name} did not take {self._project.root}: {error}"
                    ) from error

    def _say(self, text: str) -> None:
        reporter = self._config.pluginmanager.get_plugin("terminalreporter")
        if reporter is not None and self._config.get_verbosity() >= 0:
            reporter.write_line(text)

    def makegateway(self, spec: "execnet.XSpec | str | None" = None) -> execnet.Gateway:
        """A worker of xdist, in the folder of the project."""
        if not isinstance(spec, execnet.XSpec) or not spec.roamlet:
            return super().makegateway(spec)
        try:
            host = self.host_of(spec)
            if host not in self._folders:  # the one before it was lost
                self._send([host])
            gateway = super().makegateway(spec)
            assert isinstance(gateway, Gateway)
            folder = self._folders[host]
            gateway.context.call(on_target.enter, (folder, self._project.place, self._project.paths))
        except (RemoteError, OSError) as error:
            raise pytest.UsageError(f"--tx: {spec}: {error}") from error  # pytest reports the tests that ran, and this
        _instruct(gateway, self._project, folder)
        return gateway


def _instruct(gateway: Gateway, project: Project, folder: str) -> None:
    """Have what xdist tells a worker first, its arguments, name paths in the folder there. What comes back calls nothing here."""
    remote_exec = gateway.remote_exec

    def executed(source: Any, **options: object) -> execnet.Channel:
        channel = remote_exec(source, **options)
        send, setcallback = channel.send, channel.setcallback

        def first(item: object) -> None:
            channel.send = send  # type: ignore[method-assign]
            if isinstance(item, tuple) and len(item) == 4 and isinstance(item[0], dict) and "workerid" in item[0]:
                about, words, settings, _ = item
                temporary = os.path.join(os.path.dirname(folder), f"tmp-{gateway.id}")
                item = about, project.words(words, folder), {**settings, "basetemp": temporary}, None
            send(item)

        def harmless_alone(callback: Callable[[Any], Any], *more: Any, **named: Any) -> None:
            setcallback(lambda item: callback(harmless(item)), *more, **named)

        channel.send = first  # type: ignore[method-assign]
        channel.setcallback = harmless_alone  # type: ignore[method-assign]
        return channel

    gateway.remote_exec = executed  # type: ignore[method-assign]


def harmless(event: Any) -> Any:
    """An event of a worker, whose warnings name no other classes than those of warnings that are loaded here.

    xdist imports the module and calls the class that a worker names.
    """
    # xdist takes all that it can unpack, so a list, too.
    if not isinstance(event, (tuple, list)) or len(event) != 2:
        return event
    name, about = event
    if name != "warning_recorded" or not isinstance(about, dict):
        return event
    data = about.get("warning_message_data")
    if not isinstance(data, dict):
        return event
    data = dict(data)
    for kind, function in (("message", "message_class_name"), ("category", "category_class_name")):
        module = data.get(f"{kind}_module")
        # Not by getattr(), which would call the __getattr__ of a module.
        found = getattr(sys.modules.get(str(module)), "__dict__", {}).get(str(data.get(function)))
        if module and not (isinstance(found, type) and issubclass(found, Warning)):
            data |= {f"{kind}_module": "builtins", function: "Warning"}
            if kind == "message":
                data["message_args"] = (str(data.get("message_str")),)
    return name, {**about, "warning_message_data": data}
