"""What makes a connection plugin of core's one that goes by roamlet: a class to put before core's in the bases.

A module that ansible-core has packed in a way that is known byte for byte goes to a zygote on the target. Everything else runs as
the command that it is, as ssh would run it. Where there is no Python for roamlet on the target, core's own plugin does it all.
"""

import os
import secrets
import shlex
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from multiprocessing import parent_process
from typing import Any

from ansible import constants
from ansible.errors import AnsibleAuthenticationFailure, AnsibleConnectionFailure, AnsibleError, AnsibleFileNotFound
from ansible.module_utils.common.text.converters import to_bytes
from ansible.utils.display import Display

from roamlet_ansible.broker.client import BrokerError, Client
from roamlet_ansible.broker.start import LOG
from roamlet_ansible.cores import ansiballz, packed, plain

from .through import Stacked, Target

# Imported where they are needed: each task runs in a process of its own, which would import and compile them for nothing.
#   cores.commands   commands with become or with variables, and the start of a zygote
#   host             the start of a zygote
#   .escalation      passwords
#   .steps           failures
#   .failures        failures

PIECE = 1024 * 1024  # bytes of a file in one message
SMALL = 64 * 1024  # bytes of a file that may wait for the next request
MOST = 256 * 1024  # bytes of all that wait

display = Display()

Output = tuple[int, bytes, bytes]


class NotOverRoamlet(Exception):
    """The target has no Python that roamlet can use: core's own plugin goes there."""


class RoamletConnection(Stacked):
    """Goes before a class of core's: `class Connection(RoamletConnection, ssh.Connection)`. Subclasses define target()."""

    has_pipelining = True
    _client: Client | None = None
    _variables: Any = None  # those of the latest set_options()
    # Whether work on temporary folders may be done by the context without a shell, and may wait for the next request: only
    # where put_file() and commands are those of this class.
    folders_by_context = False
    _suffixes: Any = None  # of modules, where core's plugin has set them
    _answered: Target | None = None  # its context is there: what waits for the next request can be carried out
    _fine = False  # the latest of what core has asked for was done over roamlet

    _waiting: tuple[tuple[plain.Step, bytes | None], ...] = ()  # for the next request, with the bytes of a file
    _made: frozenset[str] = frozenset()  # temporary folders of this worker

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._task = str(kwargs.get("task_uuid", ""))
        self.went: dict[str, str] = {}  # the way that the last module took, for `roamlet ansible doctor`

    def target(self) -> Target | None:
        """What the broker is to open, as hosts.py reads it; None where roamlet cannot: core's own plugin is used then."""
        raise NotImplementedError

    def starts_in(self) -> str:
        """The folder that modules start in; empty for the home folder of the account."""
        return ""

    def shown(self, target: Target) -> str:
        """What -vvv says about how `target` is reached; empty where that is nothing that can be typed."""
        return ""

    # What core asks

    def set_options(self, task_keys: Any = None, var_options: Any = None, direct: Any = None) -> None:
        """As of core's plugin."""
        super().set_options(task_keys=task_keys, var_options=var_options, direct=direct)
        self._variables = var_options

    def get_option(self, option: str, hostvars: Any = None) -> Any:
        """As of core's plugin; but pipelining is on unless the user has switched it off, since modules come here by it."""
        if option != "pipelining":
            return super().get_option(option, hostvars)  # type: ignore[misc]
        # Cores until 2.16 look it up again for this, without the task's variables unless they are given here.
        variables = hostvars if hostvars is not None else self._variables
        value, origin = super().get_option_and_origin(option, variables)  # type: ignore[misc]
        return True if origin == "default" else value

    def exec_command(self, cmd: str, in_data: bytes | None = None, sudoable: bool = True) -> Output:
        """Run a command on the target, or the module that it would have been given on its stdin."""
        try:
            with self._failures():
                return self._carry_out(cmd, in_data, sudoable)
        except NotOverRoamlet:
            return super().exec_command(cmd, in_data=in_data, sudoable=sudoable)  # type: ignore[misc, no-any-return]

    def put_file(self, in_path: str, out_path: str) -> Any:
        """Copy a file to the target. A small one for a temporary folder of this task goes with the next request."""
        try:
            with self._failures(f"failed to transfer file to {out_path}: "), _opened(in_path) as file:
                display.vvv(f"PUT {in_path} TO {out_path}", host=self._host())
                status = os.fstat(file.fileno())
                mode = status.st_mode & 0o777
                if os.path.dirname(out_path) in self._made and status.st_size <= SMALL and self._room(status.st_size):
                    self._wait(plain.Step("put", "", (out_path, mode)), file.read())
                    return None
                append = False
                while True:
                    data = file.read(PIECE)
                    more = len(data) == PIECE
                    self._ask({"do": "put", "path": out_path, "mode": mode, "append": append, "more": more}, [data])
                    if not more:
                        return None
                    append = True
        except NotOverRoamlet:
            return super().put_file(in_path, out_path)  # type: ignore[misc]

    def fetch_file(self, in_path: str, out_path: str) -> Any:
        """Copy a file from the target."""
        try:
            with self._failures():
                display.vvv(f"FETCH {in_path} TO {out_path}", host=self._host())
                data = self._ask({"do": "get", "path": in_path, "offset": 0})[1][0]
                with open(to_bytes(out_path, errors="surrogate_or_strict"), "wb") as file:
                    file.write(data)
                    offset = len(data)
                    while len(data) == PIECE:
                        data = self._ask({"do": "get", "path": in_path, "offset": offset})[1][0]
                        file.write(data)
                        offset += len(data)
                return None
        except NotOverRoamlet:
            return super().fetch_file(in_path, out_path)  # type: ignore[misc]

    def reset(self) -> None:
        """Close the context on the target, if there is one; the next task makes a new one."""
        self._reset_context()
        super().reset()  # type: ignore[misc]

    def close(self) -> None:
        """Close the connection to the broker; the broker keeps the one to the target."""
        try:
            if self._waiting:
                with self._failures():
                    self._ask({"do": "step"})
        finally:
            self._fine = False
            if self._client is not None:
                self._client.close()
        super().close()  # type: ignore[misc]

    def facts(self) -> dict[str, Any]:
        """What the target reports about its Python and account; opens the context. For `roamlet ansible doctor`.

        Raises NotOverRoamlet where core's own plugin is used.
        """
        with self._failures():
            return self._ask({"do": "open"})[0]["facts"]  # type: ignore[no-any-return]

    @property
    def module_implementation_preferences(self) -> Any:
        """As of core's plugin. Core asks for it when it begins to pack a module: meanwhile the context is opened."""
        if packed.others():
            packed.withdraw(constants.DEFAULT_LOCAL_TMP)
        if self._client is None and "{{" not in (self._interpreter or ""):
            with suppress(BrokerError, AnsibleError):  # the module's own request says it
                target = self.described()
                if target is not None:
                    self._broker().tell({"do": "ahead", "target": target, "python": self._python_of_context()})
        return super().module_implementation_preferences if self._suffixes is None else self._suffixes  # type: ignore[misc]

    @module_implementation_preferences.setter
    def module_implementation_preferences(self, suffixes: Any) -> None:
        self._suffixes = suffixes

    # How it is done

    def _python_of_context(self) -> str | None:
        """The interpreter of modules where the variables name its file: the one that `python3` finds may be a script."""
        python = self._interpreter or ""
        return python if python.startswith("/") and "{{" not in python else None

    def _reset_context(self) -> None:
        target = self.target()
        if target is not None:
            with self._failures():
                # Core does not always hand over what roamlet_via needs here: the broker knows what is open under this name.
                self._broker().ask_if_running({"do": "reset", "target": target, "all_ways": self.via() is not None})

    def _carry_out(self, cmd: str, in_data: bytes | None, sudoable: bool) -> Output:
        become = self.become if sudoable else None  # type: ignore[attr-defined]
        if getattr(become, "name", None) == "runas":
            # It becomes by other means than a command: core's ssh plugin would run the task without becoming anyone.
            raise AnsibleError("the become method 'runas' is for Windows: it cannot be used over roamlet.remote")
        self._connect()  # type: ignore[attr-defined]
        module = ansiballz.read(in_data) if in_data else None
        command = None if module is None else self._command(cmd, become)
        if module is not None and command is not None:
            display.vvv(f"MODULE {module.fqn} BY ROAMLET", host=self._host())
            output = self._run_module(module, command, become)
            if output is not None:
                self._note("module", module=module.fqn, interpreter=command.interpreter)
                return output
        self._note("command", why=_why(cmd, in_data, module, command))
        display.vvv(f"EXEC {cmd} BY ROAMLET", host=self._host())
        if in_data is None and not sudoable and self.folders_by_context:
            step = plain.step(cmd, self._shell)  # type: ignore[attr-defined]
            if step is not None:
                return self._do_step(step)
        return self._run_command(cmd, in_data, sudoable)

    def _command(self, cmd: str, become: Any) -> plain.Command | None:
        shell = self._shell  # type: ignore[attr-defined]
        command = plain.interpreter(cmd, shell) if become is None else None
        if command is None:
            from roamlet_ansible.cores import commands  # see the top

            command = commands.recognise(cmd, shell, become)
        return command

    def _run_module(self, module: ansiballz.ModuleRun, command: plain.Command, become: Any) -> Output | None:
        """What the module gave; None when the zygote has refused it, and nothing ran."""
        zygote = self.starts_in() + command.zygote + _sign(become)
        request = {
            "do": "module",
            "python": command.interpreter,
            "zygote": zygote,
            "environment": command.environment,
            "run": {
                "payload": module.payload,
                "fqn": module.fqn,
                "name": module.name,
                "profile": module.profile,
                "shape": module.shape,
                "rlimit_nofile": module.rlimit_nofile,
                "date_time": module.date_time,
            },
        }
        params = module.params.encode()
        while True:
            answer, blobs = self._ask(request, [params])
            if "starts" in answer:
                request.update(self._start_of_zygote(command, become))
            if answer.get("need") == "payload":
                self._ask(
                    {"do": "payload", "payload": module.payload, "fqn": module.fqn},
                    [module.zip_data.encode()],
                    steps=False,
                )
            elif answer.get("need") == "zygote":
                continue
            elif "refused" in answer:
                display.vv(f"THE WARM PYTHON DOES NOT TAKE IT: {answer['refused']}", host=self._host())
                return None
            elif "asks" in answer:
                failed = self._let_in(zygote, answer, blobs, become)
                if failed is not None:
                    return failed
            else:
                return answer["rc"], blobs[0], blobs[1]

    def _start_of_zygote(self, command: plain.Command, become: Any) -> dict[str, Any]:
        from roamlet_ansible.cores import commands  # see the top
        from roamlet_ansible.host import bootstrap

        nonce = secrets.token_hex(8)
        start = commands.zygote_command(command, bootstrap(nonce))
        return {
            "start": f"cd {shlex.quote(folder)} && {start}" if (folder := self.starts_in()) else start,
            "tty": command.escalation is not None and bool(become.require_tty),
            "nonce": nonce,
            "asks": bool(_sign(become)),  # its command will probably ask for the password
        }

    def _do_step(self, step: plain.Step) -> Output:
        """Work on a temporary folder: at once, with the next request, or after an answer that does not wait for it."""
        if step.kind == "home":
            known = _homes.get(self.described()).get(step.values[0])
            if known is not None:
                self._answered = self.described()  # the plugin of an earlier item was
                return known[0], known[1].encode("latin-1"), b""
            answer, blobs = self._ask({"do": "home", "name": step.values[0], "command": step.command}, steps=False)
            return answer["rc"], blobs[0], blobs[1]
        if step.kind == "mkdir":
            path = "/".join(step.values)
            if self._answered is not None and self._answered == self.described() and self._room(0):
                self._made |= {path}
                self._wait(step, None)
                return 0, f"{step.values[1]}={path}\n".encode(), b""
        elif step.kind == "chmod":
            new = {waiting.values[0] for waiting, data in self._waiting if data is not None}
            if new and new | self._made >= {path.rstrip("/") for path in step.values[1]} and self._room(0):
                self._wait(step, None)
                return 0, b"", b""
        elif step.kind == "remove" and not self._waiting and step.values[0].rstrip("/") in self._made:
            self._ask({"do": "remove", "path": step.values[0], "command": step.command})
            self._made -= {step.values[0].rstrip("/")}
            return 0, b"", b""
        request = {"do": "step", "kind": step.kind, "command": step.command, "values": step.values}
        answer, blobs = self._ask(request)
        if step.kind == "mkdir" and answer["rc"] == 0:
            self._made |= {"/".join(step.values)}
        return answer["rc"], blobs[0], blobs[1]

    def _room(self, size: int) -> bool:
        """Whether so many bytes more may wait for the next request."""
        return size + sum(len(data or b"") + SMALL // 64 for _, data in self._waiting) <= MOST

    def _wait(self, step: plain.Step, data: bytes | None) -> None:
        self._waiting = (*self._waiting, (step, data))

    def _let_in(self, zygote: str, answer: dict[str, Any], blobs: list[bytes], become: Any) -> Output | None:
        """Answer what the command that starts a zygote asks; return its result if it ends without one."""
        if become is None:  # it asks nothing: the interpreter has not started
            while "asks" in answer and answer["rc"] is None:
                answer, blobs = self._ask(
                    {"do": "resume", "zygote": zygote, "token": answer["asks"]}, [b""], steps=False
                )
            return (answer["rc"], blobs[0], blobs[1]) if "asks" in answer else None
        from .escalation import Watch  # see the top

        watch = Watch(become, self._patience())
        while "asks" in answer:
            given = watch.read(blobs[0], blobs[1])
            if answer["rc"] is not None:
                return (answer["rc"], *watch.rest())
            answer, blobs = self._ask({"do": "resume", "zygote": zygote, "token": answer["asks"]}, [given], steps=False)
        return None

    def _run_command(self, cmd: str, in_data: bytes | None, sudoable: bool) -> Output:
        """Run a command as it is, with a terminal where ssh would have one."""
        cmd = (
            str.__str__(cmd) if isinstance(cmd, str) else str(cmd)
        )  # older cores give None for `raw: ""`, and ssh "None"
        # ssh says what this process's own terminal is, if it has one.
        tty = not in_data and sudoable and self.wants_terminal() and (os.environ.get("TERM") or True)
        become = self.become if sudoable and self.become is not None and self.become.success else None  # type: ignore[attr-defined]
        if become is not None:
            token = self._ask({"do": "start", "command": cmd, "tty": tty})[0]["token"]
            from .escalation import escalated  # see the top

            return escalated(become, _Conversation(self, token), in_data or b"", self._patience())
        request = {"do": "exec", "command": cmd, "tty": tty, "input": in_data is not None}
        answer, blobs = self._ask(request, [] if in_data is None else [in_data])
        return answer["rc"], blobs[0], blobs[1]

    def _patience(self) -> float:
        """Seconds of silence of a become command, as core's ssh plugin has them."""
        return 2.0 + float(self._play_context.timeout)  # type: ignore[attr-defined]

    def wants_terminal(self) -> bool:
        """Whether a command that reads nothing gets a terminal, as core's plugin gives it one."""
        return False

    def _ask(
        self, request: dict[str, Any], blobs: list[bytes] | None = None, steps: bool = True
    ) -> tuple[dict[str, Any], list[bytes]]:
        """Ask the broker. What waits for this request (with `steps`) is carried out before it; its failure is raised here."""
        target = self.described()
        if target is None:
            self._note("core", why="it has options that roamlet's own ssh does not have, such as ssh_executable")
            raise NotOverRoamlet
        request = {**request, "target": target, "interpreter": self._python_of_context()}
        if display.verbosity >= 3:
            request["shows"] = True  # whether it has the context opened
        waiting = self._waiting if steps else ()
        if waiting:
            request["before"] = [(step.kind, step.command, step.values) for step, _ in waiting]
        try:
            answer, parts = self._broker().ask(
                request, (*(blobs or ()), *(data for _, data in waiting if data is not None))
            )
        except BaseException as error:
            self._waiting = ()
            if isinstance(error, BrokerError) and error.kind in ("unreachable", "authentication"):
                self._show(target)
            if waiting and isinstance(error, BrokerError) and error.kind == "no-python":
                raise AnsibleConnectionFailure(str(error)) from None  # core's own plugin would lack what has waited
            raise
        if answer.get("opened"):
            self._show(target)
        for path, code, text in answer.get("kept", ()):
            display.warning(f"Temporary files are left on {self._host()} in {path} (status {code}): {text}")
        if "failed" in answer or answer.get("carried"):
            self._waiting = ()
        if "failed" in answer:
            from .steps import failure  # see the top

            raise failure(waiting[answer["failed"]][0], answer["rc"], *parts)
        self._answered = target
        _homes.put(target, answer.get("homes", {}))
        return answer, parts

    def _show(self, target: Target) -> None:
        """Say with -vvv how the target is reached: in the task that has opened the way, or could not."""
        if display.verbosity >= 3 and (text := self.shown(target)):
            display.vvv(text, host=self._host())

    def serves_again(self) -> bool:
        """Whether this plugin may serve the next item of a loop: it is as a new one would be, but for its way to the broker."""
        if not self._fine or self._waiting or self._made or self._has_own_shell:
            return False
        return self._shell.tmpdir is None  # type: ignore[attr-defined]

    def _broker(self) -> Client:
        if self._client is None:
            controller = parent_process()
            number = os.getpid() if controller is None else controller.pid
            assert number is not None  # it has started this process
            if log := os.environ.get(LOG):
                # Inside: a run that keeps no log does without it.
                from .recording import RecordingClient

                self._client = RecordingClient(constants.DEFAULT_LOCAL_TMP, number, log, self._task, self._named)
            else:
                self._client = Client(constants.DEFAULT_LOCAL_TMP, number)
        return self._client

    def _note(self, way: str, *, why: str = "", module: str = "", interpreter: str = "") -> None:
        """Remember the way that a module or a command takes, and write it to the log of the run if there is one."""
        went = {"way": way, "why": why, "module": module, "interpreter": interpreter}
        if why or way != "command" or not self.went:  # not for the work around a module
            self.went = went
        if log := os.environ.get(LOG):
            # Inside: a run that keeps no log does without it.
            from .recording import write

            write(log, task=self._task, host=self._named(), **went)

    def _named(self) -> str:
        """The host by its name in the inventory, as the log of the run has it."""
        return str(self._inventory_name or self._host() or "")

    def _host(self) -> str | None:
        return self._play_context.remote_addr  # type: ignore[attr-defined, no-any-return]

    @contextmanager
    def _failures(self, doing: str = "") -> Iterator[None]:
        """The broker's errors as those that ansible knows: a host that cannot be reached is UNREACHABLE.

        `doing` comes before the text of a failure on a host that was reached: an error of its disk may name no file.
        """
        self._fine = False
        try:
            yield
            self._fine = True
        except BrokerError as error:
            if error.kind == "no-python":
                self._note("core", why=f"roamlet finds no Python: {error}")
                display.vv(f"ROAMLET FINDS NO PYTHON, SO CORE'S OWN PLUGIN IS USED: {error}", host=self._host())
                raise NotOverRoamlet from None
            from .failures import in_ansibles_words

            text = in_ansibles_words(str(error))
            if error.kind == "authentication":
                raise AnsibleAuthenticationFailure(text) from None
            if error.kind in ("unreachable", "lost"):
                raise AnsibleConnectionFailure(text) from None
            raise AnsibleError(doing + text) from None


class _Conversation:
    def __init__(self, plugin: RoamletConnection, token: str) -> None:
        self._plugin = plugin
        self._token = token

    def talk(self, data: bytes, eof: bool, wait: float) -> tuple[bytes, bytes, int | None]:
        answer, blobs = self._plugin._ask({"do": "talk", "token": self._token, "eof": eof, "wait": wait}, [data])
        return blobs[0], blobs[1], answer["rc"]


class _Homes:
    """What the latest answer that this process has got from a target has about home folders, by the name after ~.

    A loop has a new plugin for each of its items, which asks for one before anything else.
    """

    def __init__(self) -> None:
        self._of: tuple[int, Target | None, dict[str, tuple[int, str]]] = (0, None, {})

    def put(self, target: Target, homes: dict[str, tuple[int, str]]) -> None:
        self._of = os.getpid(), target, homes

    def get(self, target: Target | None) -> dict[str, tuple[int, str]]:
        process, of, homes = self._of
        return homes if process == os.getpid() and of is not None and of == target else {}


_homes = _Homes()


def _why(
    cmd: str | None, in_data: bytes | None, module: ansiballz.ModuleRun | None, command: plain.Command | None
) -> str:
    """Why what was given is no module for the warm Python; nothing for what is not a module."""
    if not in_data:
        text = str(cmd)  # older cores give None for `raw: ""`
        if "/async_wrapper.py " in text and "/ansible-tmp-" in text:
            return "async: the job outlives its task"
        if "/AnsiballZ_" in text:
            return "pipelining is off for this task, so Ansible copies the module to a file and starts that"
        return ""
    if module is None:
        return "the way in which this ansible-core has packed the module is not known"
    if command is None:
        return "the shell or the become plugin has made a command line that is not known"
    return "the warm Python on the target has refused it, and nothing ran there"


def _opened(path: str) -> Any:
    name = to_bytes(path, errors="surrogate_or_strict")
    if not os.path.exists(name):
        raise AnsibleFileNotFound(f"file or module does not exist: {path}")
    return open(name, "rb")


def _sign(become: Any) -> str:
    """Another text for another password: sudo and su would ask this task for it, whatever an earlier one has given."""
    try:
        password = become.get_option("become_pass") if become is not None else None
    except KeyError:  # a plugin that has no such option
        password = None
    if not password:
        return ""
    import hashlib  # only where there is a password

    return " " + hashlib.blake2b(str(password).encode("utf-8", "surrogateescape"), digest_size=16).hexdigest()
