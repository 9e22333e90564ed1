"""From a transport to a context: start the process, push the payload, hear its HELLO, or say why none came."""

import contextlib
import errno
import itertools
import logging
import os
import time
from typing import NamedTuple

from roamlet.remote import modules
from roamlet.remote.base.deadlines import EVER
from roamlet.remote.base.facts import Facts, facts_of
from roamlet.remote.base.threads import Threads, acquire, release
from roamlet.remote.calls.engine import Calls
from roamlet.remote.channels.served import Channels
from roamlet.remote.errors import (
    ConnectError,
    ConnectTimeout,
    ContextClosed,
    ContextDied,
    ProtocolError,
    PythonTooOld,
    RemoteError,
)
from roamlet.remote.link.link import Link
from roamlet.remote.link.output import Output, OutputFunction
from roamlet.remote.link.process import Process
from roamlet.remote.link.routes import Tunnel
from roamlet.remote.opening.agreement import agree_on_versions, start_tasklets
from roamlet.remote.shipping.shipping import Shipping
from roamlet.remote.terminal.relayed import RelayedTerminal, Via
from roamlet.remote.terminal.terminal import Terminal
from roamlet.remote.transports import Transport, quoted
from roamlet.remote.transports.command import Account
from roamlet.remote.transports.fork import Fork
from roamlet.remote.transports.local import Local
from roamlet.remote.transports.ssh import windows
from roamlet.wire import build, protocol

MOMENT = 0.1  # seconds beyond a time limit for a process to end that does so when it is told to
SCARCE = (errno.EMFILE, errno.ENFILE, errno.EAGAIN, errno.ENOMEM)

_numbers = itertools.count(1)


def connect(
    transport: Transport,
    *,
    name: str | None,
    timeout: float,
    output: OutputFunction | None,
    policy: modules.Modules | None = None,
    tasklets: bool = False,
    via: Calls | None = None,
) -> Calls:
    """Open a context through `transport`, whose command runs here, or in the context `via`.

    Blocks this tasklet only; see remote.ssh for the rest of the contract. `policy` says which modules travel, and whose copy
    counts; None is modules.Modules(). `tasklets`: calls are tasklets.
    """
    if not isinstance(policy, modules.Modules | None):
        raise TypeError(f"modules= takes a remote.Modules(...), not {policy!r}")
    if isinstance(timeout, bool) or not isinstance(timeout, (int, float)) or not timeout > 0:
        raise ValueError(f"timeout must be a number of seconds above 0, not {timeout!r}")
    if name is not None and (not isinstance(name, str) or not name):
        raise ValueError(f"name must be a text that is not empty, not {name!r}")
    if tasklets not in (True, False):
        raise TypeError(f"tasklets must be True or False, not {tasklets!r}")
    if via is not None and isinstance(transport, Fork):
        raise TypeError(
            f"remote.fork() makes a copy of this process, and cannot run in {via.name!r}: use remote.local(via=...)"
        )
    if name is None:
        name = transport.name if via is None else f"{via.name}/{transport.name}"
    threads = acquire()
    try:
        deadline = time.monotonic() + timeout
        given = _Given(transport, name, timeout, deadline, threads, policy or modules.Modules(), tasklets, via)
        return _connect(given, Output(name, output, threads.callbacks))
    except BaseException:
        release(threads)
        raise


class _Given(NamedTuple):
    """What one context is opened with. `deadline` is when `timeout`, which errors name, is over."""

    transport: Transport
    name: str
    timeout: float
    deadline: float
    threads: Threads
    policy: modules.Modules
    tasklets: bool
    via: Calls | None


def _connect(given: _Given, output: Output) -> Calls:
    transport, via = given.transport, given.via
    link, facts = _greeted_link(given, output)
    link.is_near = isinstance(transport, Local | Fork) and (via is None or via.link.is_near)
    link.packers = modules.packers_of(facts.packages)
    policy = given.policy.settled(facts.magic, facts.implementation, facts.packages, is_near=link.is_near)
    shipping = Shipping(link, facts.packages, given.threads.modules, policy, facts.for_extensions)
    link.on_want = shipping.answer
    link.on_piece = shipping.answer_piece
    calls = Calls(link, shipping, facts, via)
    try:
        agree_on_versions(calls, policy, given.deadline)
        if given.tasklets:
            start_tasklets(calls, given.timeout, given.deadline, has_core=isinstance(transport, Fork))
    except BaseException:
        _give_up(link, given.deadline)
        raise
    calls.begin(given.threads)
    return calls


def _greeted_link(given: _Given, output: Output) -> tuple[Link, Facts]:
    """Start the process and wait for its HELLO, which has the facts."""
    transport, via, threads, deadline = given.transport, given.via, given.threads, given.deadline
    number = next(_numbers) & 0xFFFFFFFF
    token = build.new_token()
    config = {"id": number, "name": given.name, "log_level": _log_level(), "prefer": given.policy.config()}
    process = _started(transport, token, threads) if via is None else _tunnel(transport, via, number, deadline)
    link = Link(
        process, transport, threads, output, name=given.name, identifier=number, token=token, serve_channels=Channels
    )
    try:
        if isinstance(process, Tunnel):
            words = _with_terminal(given, token, link, process)
            with contextlib.suppress(ContextDied, ContextClosed):  # `via` has ended: the cause is looked for below
                process.start(words, token, config, translated=transport.translated)
        else:
            # The command line, the payload and CONFIG are one message: neither side waits for the other before HELLO.
            data = build.configuration(config) if isinstance(transport, Fork) else build.preamble(config)
            with contextlib.suppress(ContextDied):  # it has ended already: likewise
                link.send(data)
        if not _greeted(link, deadline, threads):
            raise _too_late(transport, link, given.timeout)
        facts = _facts(transport, link)
    except BaseException as error:
        if isinstance(error, ConnectError) and isinstance(process, Tunnel):
            _say_where(error, process)
        _give_up(link, deadline)
        raise
    if isinstance(process, Process):
        process.is_ready = True
    return link, facts


def _give_up(link: Link, deadline: float) -> None:
    """End what was not to become a context. Blocks this tasklet until it is gone, but not beyond `deadline` and a moment.

    A process that ignores SIGTERM, or has left its pipes to another one, takes seconds to end: the caller has a time limit, and the
    thread for links ends it without him.
    """
    acquire()  # abandon() lets go of them once more
    link.abandon(patience=0)
    link.ended.wait(max(MOMENT, deadline - time.monotonic()))


def _with_terminal(given: _Given, token: str, link: Link, process: Tunnel) -> list[str]:
    """The words that start the command in `via`, on a terminal of its own there when it asks for passwords."""
    transport, via, deadline = given.transport, given.via, given.deadline
    argv = transport.argv(token)
    if transport.answers is None or via is None:
        return argv
    try:
        via.shipping.need("link.prompts", deadline)
        host = Via(via.name, via.call, via.link.break_off, via.shipping.has_sent("calls.tasklets"))
        terminal = RelayedTerminal(host, transport.answers, transport.asks_on_stdin, process.said.append, deadline)
    except ProtocolError:
        raise
    except (RemoteError, OSError) as error:  # a time that is over included
        problem = f"the {transport.to} was not started: it got no terminal in {via.name!r}: {error}"
    else:
        process.terminal = terminal
        terminal.close_after(link.ended, given.threads)
        return terminal.wrap(argv)
    raise ConnectError(problem)


def _tunnel(transport: Transport, via: Calls, number: int, deadline: float) -> Tunnel:
    try:
        via.link.refuse_if_ended(None)
        via.shipping.need("link.router", deadline)
    except TimeoutError:
        raise ConnectTimeout(
            f"the {transport.to} was not started: {via.name!r}, which is to start it, takes no more at present"
        ) from None
    except RemoteError as error:
        problem = str(error)
    else:
        return Tunnel(via.link, number)
    raise ConnectError(f"the {transport.to} was not started: {problem}")


def _greeted(link: Link, deadline: float, threads: Threads) -> bool:
    """Whether HELLO has come, or the end, before the deadline; meanwhile its command's prompts are answered here."""
    terminal = link.process.terminal
    if terminal is not None:
        return terminal.answer_prompts(link.greeted, deadline, threads)
    return link.greeted.wait(max(0.0, deadline - time.monotonic()))


def _started(transport: Transport, token: str, threads: Threads) -> Process:
    try:
        answers = transport.answers
        terminal = None if answers is None else Terminal(answers, transport.asks_on_stdin)
        if isinstance(transport, Fork):
            return Process(
                [], threads, start=lambda descriptors: transport.start(descriptors, token, threads), at_once=True
            )
        return Process(
            transport.argv(token),
            threads,
            terminal,
            translated=transport.translated,
            at_once=isinstance(transport, Local),
            is_account=isinstance(transport, Account),
        )
    except ConnectError:
        raise
    except OSError as error:
        problem = error.errno or 0
    raise _not_started(transport, problem)


def _not_started(transport: Transport, problem: int) -> ConnectError:
    if problem in SCARCE:
        return ConnectError(
            f"the {transport.to} was not started: {os.strerror(problem)}.\n"
            "    Each context takes a process and three descriptors here. Close contexts that are done with, or allow this process "
            "more: see `ulimit -n` and `ulimit -u`."
        )
    return transport.cannot_start(problem)


def _log_level() -> int:
    """The lowest level that any logger here asks for: what no logger here would take need not travel."""
    levels = [logging.getLogger().getEffectiveLevel()]
    loggers = list(logging.root.manager.loggerDict.values())
    levels += [logger.level for logger in loggers if isinstance(logger, logging.Logger) and logger.level]
    return min(levels)


def _facts(transport: Transport, link: Link) -> Facts:
    if link.hello is not None:
        try:
            said, link.hello = link.hello, b""  # 4 kB, which a context would keep
            return facts_of(said)
        except ValueError as error:
            problem = str(error)
        raise ConnectError(
            f"the {transport.to} answered, but not as a context does: {problem}.\n"
            "    Is another version of roamlet in between, or a program that speaks for the interpreter?"
        )
    link.ended.wait(EVER)
    status, text = link.scanner.status, link.scanner.text
    if status == protocol.TOO_OLD:
        raise PythonTooOld(
            f"the Python that answered for the {transport.to} is {text}, which is too old: a target needs CPython 2.7, or 3.6 "
            "and later.\n    Give another one as python="
        )
    if status == protocol.NO_PYTHON:
        raise transport.missing()
    if status == protocol.START_FAILED and "fcntl" in text:  # the first module that a Python on Windows lacks
        raise windows(f"the {transport.to}", [text.strip()])
    if status == protocol.START_FAILED:
        raise ConnectError(f"the Python that answered for the {transport.to} could not start a context: {text}")
    if isinstance(link.process, Tunnel) and link.process.errno is not None:
        raise _not_started(transport, link.process.errno)
    if link.process.lost is not None:
        raise ConnectError(f"the {transport.to} was given up: the way to it is lost: {link.process.lost}")
    if link.wrong is not None:
        raise ConnectError(f"the {transport.to} was given up: {link.wrong}")
    noise = link.scanner.noise.decode("utf-8", "replace").splitlines()
    raise transport.explain(link.process.exit_code, [*noise, *link.process.said])


def _too_late(transport: Transport, link: Link, timeout: float) -> ConnectTimeout:
    noise = link.scanner.noise.decode("utf-8", "replace").splitlines()
    terminal = link.process.terminal
    said = [*noise, *link.process.said, *([] if terminal is None else [terminal.unfinished])]
    said = [line for line in said if line]
    heard = f", and said so far:\n{quoted(said)}" if said else " and said nothing"
    return ConnectTimeout(
        f"the {transport.to} was not ready within {timeout} seconds{heard}\n"
        "    Does the host answer, and does its login shell run commands? If it is only slow, give a longer timeout="
    )


def _say_where(error: ConnectError, tunnel: Tunnel) -> None:
    """Of a command that was started in another context: what it says, and what helps, is about that place and not about this."""
    if tunnel.is_ordered and tunnel.lost is None:
        error.args = (
            f"{error}\n    The command ran in {tunnel.hop.name!r} (via=): its user, keys, known hosts and network are what counts, "
            "and there the next step is to be taken.",
        )
