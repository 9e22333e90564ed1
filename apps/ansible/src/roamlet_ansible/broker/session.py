"""The requests of one worker: each is carried out in the context of its host, as often as that is safe."""

import re
import secrets
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any, TypeVar

from roamlet.remote import Chain, Context, RemoteCall, RemoteError
from roamlet_ansible.cores import ansiballz
from roamlet_ansible.host import runner

from . import protocol
from .hosts import Ahead, Host, Hosts
from .zygotes import CodeOf, Payload, Zygote, request_of, source_of_zygote, text_of_zygote

T = TypeVar("T")
Answer = tuple[protocol.Header, Sequence[bytes]]

FEW = 64  # files of a module, which a Python compiles in a twentieth of a second; those of facts are 130
PIECE = 1024 * 1024  # bytes of a file in one call
READS = 4  # pieces of a file that are asked for before the worker does
# Seconds for the start of a zygote, or a question before it, until the worker is asked how long it will wait.
WAIT = 2.0
# In the parameters of a module, or a command: it may look at the processes of an account. Seldom, and a new start takes 0.1 s.
CHANGES_ACCOUNTS = re.compile(rb"userdel|usermod|deluser|loginctl|pkill|killall|\bpw ")
ATTEMPTS = 3  # times that a request which was certainly not carried out is tried
RENEWALS = 8  # contexts that one request may find outdated; then it is carried out in such a one


def _make_text() -> None:
    with suppress(OSError):  # a request that needs it says so
        text_of_zygote()


class Lost(Exception):
    """A request was sent, and no answer has come: it may or may not have been carried out."""


class StepFailed(Exception):
    """A step that was to be carried out before a request has failed; nothing after it was done. `answer` says how."""

    def __init__(self, answer: dict[str, Any]) -> None:
        super().__init__("a step before the request has failed")
        self.answer = answer


class Session:
    """The requests of one worker."""

    def __init__(self, hosts: Hosts) -> None:
        self._hosts = hosts
        self._host: Host | None = None
        self._token: str | None = None  # of what runs on the target for this worker
        self._ahead: Ahead | None = None
        self._steps: list[tuple[str, str, Sequence[Any]]] = []  # to be carried out before the request
        self._zygote: Zygote | None = None  # whose lock is held, while it asks for a password
        self._conversation: str | None = None  # the token of what the worker talks to, over several requests
        self._along = 0  # calls of the current request that were sent with another one: no turnarounds of their own
        self._pieces: Chain | None = None  # of a file that is being written
        self._reads: dict[int, RemoteCall[bytes]] = {}  # by their offsets, of a file that is being read
        self._opens = False  # whether the latest request, or what was said ahead of it, has the context opened
        self._held: tuple[Host, Context] | None = None  # what the request, the conversation or the file goes over

    def begin(self, header: protocol.Header) -> None:
        """Begin to open the context that the next request will need. Does not wait; what goes wrong is that request's to say."""
        self._begin(self._hosts.host(header["target"]), header["python"])

    def _begin(self, host: Host, python: str | None) -> None:
        if not host.is_open and self._ahead is None:
            self._opens = True
            self._ahead = Ahead()
            self._hosts.spawn(host.open_ahead, (python, self._ahead))
            self._hosts.spawn(_make_text)  # while that waits for the host

    def _opened(self, host: Host, python: str | None = None) -> Context:
        ahead, self._ahead = self._ahead, None
        return host.opened(python, ahead)

    def _hold(self, host: Host, context: Context) -> None:
        if self._held != (host, context):
            host.hold(context)
            self._let_go()
            self._held = host, context

    def _let_go(self) -> None:
        held, self._held = self._held, None
        if held is not None:
            held[0].release(held[1])

    def answer(self, header: protocol.Header, blobs: list[bytes]) -> Answer:
        """Carry out one request and return what the worker gets. Blocks this tasklet; raises what roamlet.remote does, and Lost."""
        host = self._host = self._hosts.host(header["target"])
        host.python = host.python or header.get("interpreter")
        method: Callable[..., Answer] = getattr(self, "_do_" + header["do"])
        self._token = secrets.token_hex(8)
        self._along = 0
        opens, self._opens = self._opens or not host.is_open, False
        context, cost = host.cost() if "count" in header else (None, (0, 0, 0))
        before = header.get("before", ())
        contents = iter(blobs[len(blobs) - sum(kind == "put" for kind, _, _ in before) :])
        self._steps = [
            (kind, command, (values[0], next(contents), values[1]) if kind == "put" else values)
            for kind, command, values in before
        ]
        try:
            answer, parts = method(host, header, blobs)
        except StepFailed as failure:
            answer = {"failed": failure.answer["failed"], "rc": failure.answer["rc"]}
            parts = failure.answer["out"], failure.answer["err"]
        finally:
            self._token = None
            if self._conversation is None and self._pieces is None and not self._reads:
                self._let_go()
        if before and not self._steps:
            answer = {**answer, "carried": True}
        if opens and header.get("shows"):
            answer = {**answer, "opened": True}
        if host.homes:  # core asks for one before most folders: it is spared the question
            homes = {name: (code, out.decode("latin-1")) for name, (code, out, err) in host.homes.items() if not err}
            answer = {**answer, "homes": homes}
        if host.kept:
            kept, host.kept = host.kept, []
            answer = {**answer, "kept": [(path, code, err.decode("utf-8", "replace")) for path, code, err in kept]}
        if "count" in header:
            now, after = host.cost()
            spent = [end - start for end, start in zip(after, cost, strict=True)]
            turnarounds, *moved = spent if now is context else after
            answer = {**answer, "cost": (turnarounds - self._along, *moved)}
        return answer, parts

    def cancel(self) -> None:
        """End on the target what the current request has begun there. Does not wait for it."""
        if self._held is not None and self._token is not None:
            self._held[1].spawn(runner.cancel, (self._token,))

    def close(self) -> None:
        """The worker has gone: what it was talking to ends."""
        self._release()
        self._give_up_transfers()
        self._token = self._conversation
        self.cancel()
        self._let_go()

    def _call(self, host: Host, function: Callable[..., T], args: Sequence[Any]) -> T:
        """Call on the target what may be done once only: again where it was certainly not sent, else Lost.

        What waits for the next request goes along: the steps before this one, and folders that may still be there. Goes on
        in the context of the conversation, if there is one.
        """
        return self._carried_out(host, function, args)["result"]  # type: ignore[no-any-return]

    def _carried_out(self, host: Host, function: Callable[..., Any], args: Sequence[Any]) -> dict[str, Any]:
        return self._sent_in_order(host, function, args)[0]

    def _sent_in_order(
        self,
        host: Host,
        function: Callable[..., Any],
        args: Sequence[Any],
        then: Callable[[], tuple[Callable[..., Any], Sequence[Any]]] | None = None,
    ) -> tuple[dict[str, Any], RemoteCall[dict[str, Any]] | None]:
        """_carried_out(), and the call that `then()` gives, sent without waiting for the first one; None when it was not sent.

        It runs after the first one has returned, and not at all if that has raised. Where that has done nothing, as the context
        was outdated, both are sent to the next context: `then` must do nothing without the first one.
        """
        attempts = renewals = 0
        while True:
            context = self._opened(host) if self._conversation is None or self._held is None else self._held[1]
            self._hold(host, context)
            removals = dict(host.removals)
            arguments = list(removals.items()), self._steps, function.__name__, tuple(args), renewals == RENEWALS
            following = None
            try:
                if then is None:
                    done = context.call(runner.carry_out, arguments)
                else:
                    chain = context.chain()
                    first = chain.spawn(runner.carry_out, arguments)
                    with suppress(RemoteError):  # then the first one says what is wrong
                        second, its = then()  # while the first one is under way
                        following = chain.spawn(runner.carry_out, ((), (), second.__name__, tuple(its)))
                        self._along += 1
                    done = first.join()
            except RemoteError as error:
                if error.type_name is not None:  # raised by the function
                    raise
                attempts += 1
                if error.sent is not False or attempts == ATTEMPTS:
                    raise Lost(str(error)) from None
                continue
            if "stale" in done:
                renewals += 1
                if following is not None:
                    self._answer_of(host, following)  # that it has not run, as there was nothing for it
                self._renew(host, context)
                continue
            self._steps = []
            host.removed(removals, done)
            if "failed" in done:
                raise StepFailed(done)
            host.notice(done["accounts"])
            return dict(done), following

    def _renew(self, host: Host, context: Context) -> None:
        """Have the next attempt open another context: this one is not what a new session would be. Nothing has run."""
        self._let_go()  # it is closed before that: an account with processes cannot be removed
        host.reset(context)

    def _do_open(self, host: Host, header: protocol.Header, blobs: list[bytes]) -> Answer:
        """Open the context and say what is there."""
        return {"facts": self._call(host, runner.facts, ())}, ()

    def _do_step(self, host: Host, header: protocol.Header, blobs: list[bytes]) -> Answer:
        """Work on a temporary folder, or nothing but what goes before."""
        if "kind" not in header:
            self._call(host, runner.nothing, ())
            return {}, ()
        code, out, err = self._call(host, runner.do_step, (header["kind"], header["command"], header["values"]))
        return {"rc": code}, (out, err)

    def _do_home(self, host: Host, header: protocol.Header, blobs: list[bytes]) -> Answer:
        """The home folder of an account; remembered as long as nothing says that accounts have changed."""
        self._opened(host)
        known = host.homes.get(header["name"])
        if known is None:
            done = self._carried_out(host, runner.home_for_now, (header["command"], header["name"]))
            *output, accounts = done["result"]
            known = output[0], output[1], output[2]
            if known[0] == 0 and accounts == done["accounts"]:
                host.homes[header["name"]] = known
        return {"rc": known[0]}, known[1:]

    def _do_remove(self, host: Host, header: protocol.Header, blobs: list[bytes]) -> Answer:
        """Remove a temporary folder with the next request, or soon. Every request from now on finds it removed."""
        host.removals[header["path"]] = header["command"]
        if host.context is not None and not host.context.closed:
            self._hosts.spawn(host.remove_soon, (host.context,))
        return {}, ()

    def _do_exec(self, host: Host, header: protocol.Header, blobs: list[bytes]) -> Answer:
        data = blobs[0] if header["input"] else None
        if CHANGES_ACCOUNTS.search(header["command"].encode("utf-8", "surrogateescape")):
            self._leave_accounts(host, "")
        code, out, err = self._call(host, runner.run, (header["command"], data, header["tty"], None, self._token))
        return {"rc": code}, (out, err)

    def _do_start(self, host: Host, header: protocol.Header, blobs: list[bytes]) -> Answer:
        """Start a command that may ask for a password; `talk` goes on with it."""
        self._conversation = self._call(host, runner.start, (header["command"], header["tty"], self._token))
        return {"token": self._conversation}, ()

    def _do_talk(self, host: Host, header: protocol.Header, blobs: list[bytes]) -> Answer:
        self._token = header["token"]
        out, err, code = self._call(host, runner.talk, (header["token"], blobs[0], header["eof"], header["wait"]))
        if code is not None:
            self._conversation = None
        return {"rc": code}, (out, err)

    def _do_put(self, host: Host, header: protocol.Header, blobs: list[bytes]) -> Answer:
        """Write a piece of a file. Answers when the first is written, when others are sent, and when all of them are written."""
        args = (header["path"], blobs[0], header["mode"], header["append"])
        if not header["append"]:
            self._give_up_transfers()
            self._call(host, runner.put, args)
            return {}, ()
        pieces, self._pieces = self._pieces, None
        if pieces is None:
            context = host.opened()
            self._hold(host, context)
            pieces = context.chain()
        if header["more"]:
            try:
                pieces.spawn(runner.put, args)
            except BaseException:
                with pieces:  # which raises the first error in the place of a ChainBroken
                    raise
            self._pieces = pieces
        else:
            with pieces:
                pieces.spawn(runner.put, args)
        return {}, ()

    def _do_get(self, host: Host, header: protocol.Header, blobs: list[bytes]) -> Answer:
        """Read a piece of a file. If more may follow, that is asked for before the worker does."""
        path, offset = header["path"], header["offset"]
        if not offset:
            self._give_up_transfers()
        known = self._reads.pop(offset, None)
        data = self._call(host, runner.get, (path, offset, PIECE)) if known is None else known.join()
        if len(data) == PIECE:
            context = host.opened()
            self._hold(host, context)
            for following in range(offset + PIECE, offset + PIECE * (READS + 1), PIECE):
                if following not in self._reads:
                    self._reads[following] = context.spawn(runner.get, (path, following, PIECE))
        else:
            self._give_up_transfers()
        return {}, (data,)

    def _give_up_transfers(self) -> None:
        """What was sent, or asked for, of a file that the worker does not finish. Waits for nothing."""
        pieces, self._pieces = self._pieces, None
        if pieces is not None:
            pieces.__exit__(ConnectionError, ConnectionError("the worker has gone"), None)
        reads, self._reads = self._reads, {}
        for read in reads.values():
            read.kill()

    def _do_reset(self, host: Host, header: protocol.Header, blobs: list[bytes]) -> Answer:
        host.reset()
        if header["all_ways"]:
            self._hosts.reset_all_ways(header["target"])
        return {}, ()

    def _do_payload(self, host: Host, header: protocol.Header, blobs: list[bytes]) -> Answer:
        """Take the files of a payload, for `module`, which says that it is needed."""
        name = header["payload"]
        if name not in self._hosts.payloads:
            files = ansiballz.packed_files(blobs[0])
            self._hosts.payloads[name] = Payload(files)
            sources = [(path, source) for path, (source, _) in files.items()]
            self._hosts.spawn(self._hosts.packed.used, (header["fqn"], blobs[0], sources))
        return {}, ()

    def _do_module(self, host: Host, header: protocol.Header, blobs: list[bytes]) -> Answer:
        """Run a module in the zygote `zygote`; start it first by the command `start` where it does not run."""
        payload = self._hosts.payloads.get(header["run"]["payload"])
        lacks_start = "start" not in header and not (host.is_open and host.zygote(header["zygote"]).ready)
        if payload is None or lacks_start:
            self._begin(host, header["python"])  # while the worker makes what is lacking
            return {
                "need": "zygote" if payload is not None else "payload",
                **({"starts": True} if lacks_start else {}),
            }, ()
        answer: Any = None
        for attempt in range(RENEWALS):
            context = self._opened(host, header["python"])
            known = host.zygote(header["zygote"])
            if not known.ready and "start" not in header:
                return {"need": "zygote", "starts": True}, ()
            changes_accounts = CHANGES_ACCOUNTS.search(blobs[0]) or header["run"]["fqn"].endswith(".user")
            # Only with a nonce that no zygote has had.
            may_follow = attempt == 0 and not changes_accounts and not header.get("asks")
            question, following = self._start_zygote(host, known, header, (payload, blobs[0]) if may_follow else None)
            if question is not None:
                return question
            answer = None if following is None else self._answer_of(host, following)
            if answer is None:
                if changes_accounts:
                    self._leave_accounts(host, header["zygote"])
                request = request_of(known, payload, header, blobs[0], context.facts, self._hosts.bytecode.of)
                arguments = (header["zygote"], *request, self._token)
                answer = self._call(host, runner.run_module, arguments)
            if not isinstance(answer, dict):
                known.files.update(payload.files)
                known.payloads.add(header["run"]["payload"])
                code, out, err = answer
                return {"rc": code}, (out, err)
            # Nothing has run: the zygote has ended, was not fresh any more, or lacks what it was thought to have.
            if "refused" in answer:
                return answer, ()
            known.forget()
            if answer.get("stale") == "account":
                self._renew(host, context)
        return {"refused": f"{RENEWALS} zygotes were outdated or had ended before they took the request: {answer}"}, ()

    def _leave_accounts(self, host: Host, key: str) -> None:
        """End the zygotes of other accounts: userdel and its like refuse, or kill, an account that has processes."""
        if len(host.zygotes) > 1:
            for other in self._call(host, runner.close_other_zygotes, (key,)):
                host.zygote(other).forget()

    def _start_zygote(
        self, host: Host, known: Zygote, header: protocol.Header, module: tuple[Payload, bytes] | None
    ) -> tuple[Answer | None, RemoteCall[dict[str, Any]] | None]:
        """Make sure that the zygote runs; return what the worker must answer if its command asks for something.

        The run of `module`, which is its payload and its parameters, is sent along with the start, and returned: it goes to this
        zygote only.
        """
        if known.ready:
            return None, None
        known.lock.acquire()
        self._zygote = known
        return self._started(host, known, header, module)

    def _started(
        self, host: Host, known: Zygote, header: protocol.Header, module: tuple[Payload, bytes] | None
    ) -> tuple[Answer | None, RemoteCall[dict[str, Any]] | None]:
        if known.ready:  # another worker has started it meanwhile
            self._release()
            return None, None
        try:
            key, nonce = header["zygote"], header["nonce"]
            facts = self._opened(host).facts
            code_of = self._code_of(module)
            source = source_of_zygote(facts, code_of)
            arguments = (key, header["start"], header["tty"], source, nonce, WAIT)

            def run() -> tuple[Callable[..., Any], Sequence[Any]]:
                assert module is not None
                request = request_of(known, module[0], header, module[1], facts, code_of)
                return runner.run_in_new_zygote, (key, nonce, *request, self._token)

            done, following = self._sent_in_order(host, runner.open_zygote, arguments, None if module is None else run)
            return self._state_of_zygote(done["result"]), following
        except BaseException:
            self._release()
            raise

    def _code_of(self, module: tuple[Payload, bytes] | None) -> CodeOf:
        """Where a zygote and its first module get their code from.

        The first zygote of a run does not wait until the files of a module are compiled here, unless they are many: it compiles
        them itself in the same time, and sources alone are a third of what is sent with code.
        """
        is_first, self._hosts.has_zygotes = not self._hosts.has_zygotes, True
        few = module is not None and len(module[0].files) <= FEW
        return self._hosts.bytecode.known if is_first and few else self._hosts.bytecode.of

    def _answer_of(self, host: Host, following: RemoteCall[dict[str, Any]]) -> Any:
        """What runner.run_in_new_zygote has returned; None when it was certainly not sent."""
        try:
            done = following.join()
        except RemoteError as error:
            if error.type_name is not None:  # raised by the function
                raise
            if error.sent is not False:
                raise Lost(str(error)) from None
            return None
        host.notice(done["accounts"])
        return done["result"]

    def _do_resume(self, host: Host, header: protocol.Header, blobs: list[bytes]) -> Answer:
        """Hand the worker's answer to a command that starts a zygote and asks for a password."""
        arguments = (header["zygote"], header["token"], blobs[0], WAIT)
        return self._state_of_zygote(self._call(host, runner.resume_zygote, arguments)) or ({}, ())

    def _state_of_zygote(self, state: dict[str, Any]) -> Answer | None:
        self._conversation = None if "ready" in state or state["rc"] is not None else state["token"]
        if "ready" in state:
            assert self._zygote is not None  # its lock is held by this session
            self._zygote.ready, self._zygote.magic = True, state["ready"]["magic"]
            self._release()
            return None
        if state["rc"] is not None:  # the command has ended, and there is no zygote
            self._release()
        return {"asks": state["token"], "rc": state["rc"]}, (state["out"], state["err"])

    def _release(self) -> None:
        if self._zygote is not None:
            self._zygote.lock.release()
            self._zygote = None
