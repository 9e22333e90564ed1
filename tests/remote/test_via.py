"""Contexts behind contexts: calls, output and modules through any number of them, and what is told when one of them ends."""

import base64
import importlib
import os
import platform
import random
import secrets
import signal
import sys
import time
import warnings
from types import SimpleNamespace

import pytest
import roamlet_sent

import roamlet
from roamlet import remote
from roamlet.remote.link import routes
from roamlet.remote.link.routes import KEPT, WINDOW
from roamlet.wire import protocol
from roamlet.wire.link import prompts
from tests.remote.fakes import hostile, script
from tests.remote.inside import calls_of, link_of
from tests.remote.raising import raises
from tests.remote.stopping import gone, stop
from tests.wire.interpreters import found

BARE = getattr(sys, "_base_executable", sys.executable)


@pytest.fixture
def chain():
    """`chain("2.7", "3.6")` opens a context on this machine, the next one via that and so on; returns them all."""
    opened = []

    def open_chain(*versions, via=None):
        contexts = []
        for version in versions:
            via = remote.local(found().get(version, sys.executable), via=via, name=f"c{len(opened)}", timeout=20)
            opened.append(via)
            contexts.append(via)
        return contexts

    yield open_chain
    for context in opened:
        context.close()


def test_a_chain_of_four_with_old_and_new_pythons_in_it(chain):
    contexts = chain("3.13", "2.7", "3.6", "own")
    assert [context.via for context in contexts] == [None, *contexts[:-1]]
    pids = [context.facts.pid for context in contexts]
    assert [context.call(roamlet_sent.parent_pid) for context in contexts] == [os.getpid(), *pids[:-1]]
    assert contexts[-1].call(roamlet_sent.size_of, (bytes(3_000_000),)) == 3_000_000
    assert contexts[-1].call(roamlet_sent.zeros, (3_000_000,)) == bytes(3_000_000)
    with raises(ValueError, match="not good"):
        contexts[-1].call(roamlet_sent.raise_value_error)
    contexts[0].close()
    assert [context.closed for context in contexts] == [True] * 4
    assert all(gone(pid) for pid in pids)


def test_ssh_through_ssh_uses_the_client_of_the_target(sshd):
    with remote.ssh(sshd.host, ssh_args=sshd.ssh_args) as alpha:
        with remote.ssh(sshd.host, ssh_args=sshd.ssh_args, via=alpha) as beta:
            assert beta.name == f"{sshd.host}/{sshd.host}"
            with remote.local(via=beta) as gamma:
                assert gamma.name == f"{sshd.host}/{sshd.host}/local"
                assert gamma.call(roamlet_sent.parent_pid) == beta.facts.pid
                assert gamma.call(platform.node) == platform.node()
        with raises(remote.HostUnknown, match="cannot be resolved"):
            remote.ssh("no-such-host.invalid", ssh_args=sshd.ssh_args, via=alpha)
        assert alpha.call(roamlet_sent.add, (1, 2)) == 3


@pytest.mark.parametrize(
    ("host", "options", "error", "says"),
    [
        ("roamlet-unknown-key", {}, remote.HostKeyUnknown, "no host key is known"),
        ("roamlet-changed-key", {}, remote.HostKeyRefused, "is not the one in known_hosts"),
        ("roamlet-wrong-user-key", {}, remote.AuthenticationFailed, "does not let this user in"),
        ("roamlet-loopback", {"python": "/no/such"}, remote.NoPython, "there is no /no/such"),
        (
            "roamlet-loopback",
            {"port": 1, "ssh_args": ["-oPort=1"]},
            remote.HostUnreachable,
            "no ssh server answers there",
        ),
    ],
)
def test_a_refusal_behind_a_context_says_in_which_one_ssh_ran(sshd, host, options, error, says):
    arguments = (*options.pop("ssh_args", ()), *sshd.ssh_args)
    with remote.local(name="alpha") as alpha:
        with raises(error, match=rf"(?s)ssh to '{host}' .*{says}|on '{host}': {says}") as caught:
            remote.ssh(host, ssh_args=arguments, via=alpha, **options)
    assert "\n    The command ran in 'alpha' (via=): its user, keys, known hosts" in str(caught.value)
    with raises(error) as caught:
        remote.ssh(host, ssh_args=arguments, **options)
    assert "The command ran" not in str(caught.value)


@pytest.mark.parametrize(
    ("function", "answer"),
    [
        ("open_terminal", None),
        ("open_terminal", (1, b"/dev/pts/0")),
        ("open_terminal", ("1", "/dev/pts/0")),
        ("open_terminal", ValueError("none")),
        ("next_prompt", 7),
        ("next_prompt", (None, False, 7)),
        ("next_prompt", (None, False, [b"line"])),
        ("next_prompt", (["a"], False, [])),
        ("next_prompt", ("password:", "yes", [])),
        ("next_prompt", ("x" * 5000, True, [])),
        ("next_prompt", StopIteration("enough")),
        ("output_of", [1]),
        ("type_answer", KeyError("no")),
    ],
)
def test_an_intermediary_that_says_of_a_terminal_what_none_is_is_closed(sshd, function, answer):
    with remote.local(name="alpha") as alpha:
        calls_of(alpha).shipping.need("link.prompts")
        alpha.call(prompts.close, (0,))
        alpha.call(roamlet_sent.lie, ("roamlet.wire.link.prompts", "next_prompt", ("me@nowhere's password:", True, [])))
        alpha.call(roamlet_sent.lie, ("roamlet.wire.link.prompts", function, answer))
        with raises(remote.ProtocolError, match="'alpha' said what no context says, so it was closed.*of the terminal"):
            remote.ssh(sshd.host, ssh_args=sshd.ssh_args, password=lie_for(function), via=alpha)
        with raises(remote.ContextDied):
            alpha.call(len, ("",))


def lie_for(function):
    """A function answers every prompt; a password asks ssh first what it is for."""
    return "secret" if function == "output_of" else lambda prompt, who: "secret"


def test_output_and_logs_come_from_behind_by_the_name_of_their_context(chain, caplog):
    (alpha,) = chain("own")
    lines = []
    with remote.local(via=alpha, name="beta", output=lambda *line: lines.append(line)) as beta:
        beta.call(roamlet_sent.print_lines, (["out"], ["err"]))
        beta.call(roamlet_sent.log, ("their.logger", 40, "logged behind"))
        beta.call(roamlet_sent.print_many, (20_000,))
    assert lines[:2] in ([("beta", "stdout", "out"), ("beta", "stderr", "err")], [lines[1], lines[0]])
    assert len(lines) == 20_002
    assert [(record.name, record.roamlet_context) for record in caplog.records] == [("their.logger", "beta")]


def test_a_module_goes_over_the_first_link_once_however_many_need_it(chain):
    alpha, beta, gamma = chain("own", "own", "own")
    (other,) = chain("own", via=beta)
    (old,) = chain("2.7", via=alpha)

    def cost(context, *targets):
        before = alpha.stats.bytes_down
        for target in targets:
            assert target.call(roamlet_sent.add, (1, 2)) == 3
        assert context.stats.modules
        return alpha.stats.bytes_down - before

    first = cost(gamma, gamma)
    assert first > 1000
    for context in (other, beta, alpha):
        assert cost(context, context) < 700  # credit may be given meanwhile; the module alone takes more
    # Another version of Python gets another bundle: the modules in it come from the first one.
    assert cost(old, old) < first / 2
    assert old.stats.modules == 1


def test_imports_of_many_children_and_threads_that_overlap_are_sent_once(chain, in_tasklets, tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(tmp_path)
    text = secrets.token_hex(50_000)
    (tmp_path / "roamlet_shared.py").write_text(f"text = {text!r}\n")
    for name in ("left", "right", "middle"):
        (tmp_path / f"roamlet_{name}.py").write_text(
            "import roamlet_shared\ndef size():\n    return len(roamlet_shared.text)\n"
        )
    functions = [importlib.import_module(f"roamlet_{name}").size for name in ("left", "right", "middle")]
    (alpha,) = chain("own")
    children = [chain("own", via=alpha)[0], *chain("own", "own", via=alpha)]
    before = alpha.stats.bytes_down
    jobs = [(context, function) for context in (*children, alpha) for function in functions * 2]
    assert in_tasklets(lambda job: job[0].call(job[1]), jobs) == [100_000] * len(jobs)
    assert 50_000 < alpha.stats.bytes_down - before < 75_000
    assert [context.stats.round_trips for context in children] == [0, 0, 0]
    for name in ("left", "right", "middle", "shared"):
        monkeypatch.delitem(sys.modules, f"roamlet_{name}")


def test_a_context_behind_another_is_told_which_shared_objects_come_before_it_could_ask():
    with remote.local(python=BARE) as near:
        for _ in range(4):
            with remote.local(python=BARE, tasklets=True, via=near) as far:
                assert far.stats.round_trips == 0


class Gate:
    """A pipe that takes so many bytes and then nothing more, until it is opened."""

    def __init__(self, pipe, monkeypatch, room):
        self.room = room
        self.opened = roamlet.sync.Event()
        self._write, self._wait = pipe.write, pipe.wait_writable
        monkeypatch.setattr(pipe, "write", self.write)
        monkeypatch.setattr(pipe, "wait_writable", self.wait_writable)

    def write(self, data):
        if self.opened.is_set():
            return self._write(data)
        written = self._write(data[: self.room]) if self.room else 0
        self.room -= written
        return written

    def wait_writable(self):
        if not self.room:
            self.opened.wait()
        self._wait()


COUNTING = """
hello()
while True:
    number, kind, body = receive()
    if kind & ~protocol.KIND_CUT == protocol.MODULES:
        send(protocol.STREAM, b"%d of %d\\n" % (len(body), kind), 1)
    elif kind == protocol.CALL:
        send(protocol.RESULT, codec.dumps("answered"), number)
    elif kind == protocol.GOODBYE:
        sys.exit(0)
"""


@pytest.mark.parametrize("hops", [1, 2])
def test_a_bundle_reaches_the_last_context_while_most_of_it_has_not_left(chain, tmp_path, monkeypatch, hops):
    monkeypatch.syspath_prepend(tmp_path)
    (tmp_path / "roamlet_large.py").write_text(
        f"text = {secrets.token_hex(100_000)!r}\ndef size():\n    return len(text)\n"
    )
    size = importlib.import_module("roamlet_large").size
    (*_, via) = contexts = chain(*["own"] * hops)
    lines, answers = [], []
    said = roamlet.sync.Event()

    def hear(*line):
        size, kind = line[2].split(" of ")
        if int(size) > 100:  # what only announces a bundle is whole
            lines.append((size, kind))
            said.set()

    with remote.local(hostile(tmp_path, COUNTING), via=via, name="last", output=hear) as last:
        gate = Gate(link_of(contexts[0]).process, monkeypatch, 50_000)
        calling = roamlet.spawn(lambda: answers.append(last.call(size)))
        said.wait()
        assert not answers
        assert {int(kind) for _, kind in lines} == {protocol.MODULES | protocol.KIND_CUT}
        gate.opened.set()
        calling.join()
        assert answers == ["answered"]
    assert int(lines[-1][1]) == protocol.MODULES
    assert 100_000 < sum(int(size) for size, _ in lines) < 150_000
    monkeypatch.delitem(sys.modules, "roamlet_large")


def test_small_bundles_come_between_large_ones_and_not_between_their_pieces(chain, tmp_path, monkeypatch, in_tasklets):
    monkeypatch.syspath_prepend(tmp_path)
    functions = []
    for number in range(8):
        text = secrets.token_hex(40_000 if number % 2 else 4)
        (tmp_path / f"roamlet_mixed_{number}.py").write_text(
            f"text = {text!r}\ndef size(data):\n    return len(text)\n"
        )
        functions.append(importlib.import_module(f"roamlet_mixed_{number}").size)
    (*_, last) = chain("own", "own")
    ahead, send_ahead = [], link_of(last).process.send_ahead
    monkeypatch.setattr(link_of(last).process, "send_ahead", lambda frame: (ahead.append(frame[16]), send_ahead(frame)))
    # The arguments are more than the window: calls wait for credit in the middle of a body.
    sizes = in_tasklets(lambda function: last.call(function, (bytes(300_000),)), functions * 2)
    assert sizes == [8, 80_000] * 8
    assert set(ahead) == {protocol.MODULES}
    for number in range(8):
        monkeypatch.delitem(sys.modules, f"roamlet_mixed_{number}")


@pytest.mark.parametrize("hops", [1, 2])
def test_a_call_that_was_not_sent_leaves_nothing_that_an_import_waits_for(chain, tmp_path, monkeypatch, hops):
    noise = base64.b64encode(
        random.Random(1).randbytes(2000)
    ).decode()  # or the bundle were too small to be kept on the way
    (tmp_path / "via_lazy.py").write_text("def inside():\n    return 1\n")
    (tmp_path / "via_unsent.py").write_text(
        f"import importlib\nNOISE = '{noise}'\ndef inside():\n    import via_lazy\n    return via_lazy.inside()\n"
        "def asks(name):\n    try:\n        return importlib.import_module(name)\n"
        "    except ImportError as error:\n        return error.name\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    via_lazy, via_unsent = map(importlib.import_module, ("via_lazy", "via_unsent"))
    last = chain(*["own"] * (hops + 1))[-1]
    with link_of(last).trunk.cache_lock, pytest.raises(TimeoutError):  # something else is being sent on the way
        last.call(via_unsent.inside, timeout=0.1)
    # The limit of an import is longer than this.
    assert last.call(via_unsent.asks, ("via_nowhere",), timeout=30) == "via_nowhere"
    assert last.call(via_unsent.inside) == via_lazy.inside()


def test_the_death_of_each_hop_is_told_to_all_behind_it_and_to_no_other(chain, in_tasklets):
    contexts = chain("own", "own", "own")
    (sibling,) = chain("own", via=contexts[0])
    pids = [context.facts.pid for context in contexts]

    def wait(context):
        return context.call(roamlet_sent.wait_for_release)

    def kill(_):
        roamlet.sleep(0.05)
        os.kill(pids[1], signal.SIGKILL)

    errors = in_tasklets(lambda context: (wait if context else kill)(context), [*contexts[1:], None])
    assert [type(error) for error in errors[:2]] == [remote.ContextDied] * 2
    assert "'c1' died while it ran roamlet_sent.wait_for_release: its process was ended by signal 9" in str(errors[0])
    assert errors[0].signal == signal.SIGKILL
    assert (
        "'c2' died while it ran roamlet_sent.wait_for_release: the way to it is lost: 'c1' died: its process was"
        in str(errors[1])
    )
    assert gone(pids[2])
    assert sibling.call(roamlet_sent.add, (1, 2)) == contexts[0].call(roamlet_sent.add, (1, 2)) == 3
    with raises(remote.ConnectError, match="was not started: 'c1' has died: its process"):
        remote.local(via=contexts[1])
    os.kill(pids[0], signal.SIGKILL)
    with raises(remote.ContextDied, match="the way to it is lost: 'c0' died: its process was ended by signal 9"):
        sibling.call(roamlet_sent.wait_for_release)


def test_closing_an_intermediary_closes_those_behind_it_first_and_in_order(chain):
    closed = []
    with remote.local(name="first", output=lambda *line: closed.append(line[0])) as first:
        second = remote.local(via=first, name="second", output=lambda *line: closed.append(line[0]))
        third = remote.local(via=second, name="third", output=lambda *line: closed.append(line[0]))
        for context in (first, second, third):
            context.call(roamlet_sent.say_goodbye_at_the_end)
    assert closed == ["third", "second", "first"]
    with raises(remote.ContextClosed, match="'third' is closed"):
        third.call(roamlet_sent.nothing)


def test_what_does_not_start_behind_is_named_and_leaves_nothing(chain, tmp_path):
    (alpha,) = chain("own")
    with raises(remote.NoPython, match="no interpreter '/no/such/python' on 'c0'"):
        remote.local("/no/such/python", via=alpha)
    with raises(remote.ConnectError, match="exit code 3 before it was ready, and said.*the motd.*no good"):
        remote.local(script(tmp_path, "#!/bin/sh\necho the motd; echo no good >&2; exit 3\n"), via=alpha)
    silent = script(tmp_path, "#!/bin/sh\necho hm; exec sleep 60\n", "silent")
    with raises(remote.ConnectTimeout, match="not ready within 0.3 seconds, and said so far:.*hm"):
        remote.local(silent, via=alpha, timeout=0.3)
    with raises(TypeError, match="via= takes the context that is to start the new one"):
        remote.local(via="alpha")
    deadline = time.monotonic() + 20
    while alpha.call(
        roamlet_sent.children
    ):  # it was told to end; the caller does not wait for that beyond its time limit
        assert time.monotonic() < deadline
        roamlet.sleep(0.02)


FORGED = {
    "its intermediary": "send(protocol.RESULT, codec.dumps('forged'), number, source=me - 1)",
    "its sibling": "send(protocol.RESULT, codec.dumps('forged'), number, source=me + 1)",
    "the end of its sibling": "send(protocol.GONE, codec.dumps({'code': 0, 'errno': None, 'wrong': None}), me + 1)",
    "the end of itself": "send(protocol.GONE, codec.dumps({'code': 0, 'errno': None, 'wrong': None}), me)",
    "no frame": "write(b'plain text that is no frame at all')",
}


@pytest.mark.parametrize("what", FORGED)
def test_a_context_that_speaks_for_others_loses_its_own_context_and_no_other(chain, tmp_path, what):
    (alpha,) = chain("own")
    bad = remote.local(hostile(tmp_path, f"hello()\nnumber = receive_call()\n{FORGED[what]}"), via=alpha, name="bad")
    (good,) = chain("own", via=alpha)
    with bad:
        with raises(remote.ProtocolError, match="it sent what no context sends") as caught:
            bad.call(roamlet_sent.nothing, timeout=20)
        assert caught.value.context == "bad"
    assert good.call(roamlet_sent.add, (1, 2)) == alpha.call(roamlet_sent.add, (1, 2)) == 3


def test_an_intermediary_that_speaks_for_a_context_not_behind_it_ends_with_all_behind_it(tmp_path):
    bad = hostile(tmp_path, "hello()\nnumber = receive_call()\nsend(protocol.RESULT, b'N', number, source=me + 1)")
    with remote.local(bad, name="bad") as alpha, remote.local() as other:
        with raises(remote.ProtocolError, match="a frame from"):
            alpha.call(roamlet_sent.nothing, timeout=20)
        assert other.call(roamlet_sent.add, (1, 2)) == 3


def test_a_child_that_does_not_read_holds_up_neither_its_sibling_nor_the_memory_of_the_intermediary(chain, tmp_path):
    (alpha, beta) = chain("own", "own")
    with remote.local(via=alpha, name="stuck") as stuck:
        stuck.call(roamlet_sent.size_of, (b"",))
        stop(stuck.facts.pid)
        with raises(remote.CallTimeout):
            stuck.call(roamlet_sent.size_of, (bytes(10_000_000),), timeout=0.2)
        assert beta.call(roamlet_sent.size_of, (bytes(1_000_000),)) == 1_000_000
        assert link_of(stuck).process._sent < 10 * WINDOW
        os.kill(stuck.facts.pid, signal.SIGKILL)


def test_a_child_whose_output_is_not_taken_is_held_and_its_sibling_is_not(chain):
    (alpha, beta) = chain("own", "own")
    taken, go_on = [], roamlet.sync.Event()

    def slow(context, stream, line):
        go_on.wait()
        taken.append(line)

    with remote.local(via=alpha, output=slow) as loud:
        done = roamlet.spawn(loud.call, (roamlet_sent.print_many, (150_000,)))
        while not link_of(loud).process._held:
            assert beta.call(roamlet_sent.add, (1, 2)) == 3
        assert link_of(loud).process._kept < 4 * KEPT
        go_on.set()
        assert done.join() == 150_000
    assert len(taken) == 150_000


def test_the_window_grows_while_a_child_takes_all(chain):
    (_, beta) = chain("own", "own")
    assert beta.call(roamlet_sent.size_of, (bytes(30_000_000),)) == 30_000_000
    assert WINDOW <= link_of(beta).process._window <= 1 << 24


def test_a_stopped_intermediary_does_not_keep_those_behind_it_from_closing(chain, monkeypatch):
    monkeypatch.setattr("roamlet.remote.link.routes.STEP", 0.2)
    monkeypatch.setattr("roamlet.remote.calls.engine.PATIENCE", 0.3)
    alpha, beta = chain("own", "own")
    stop(alpha.facts.pid)
    alpha.close()
    assert alpha.closed
    assert beta.closed
    assert gone(beta.facts.pid)


def test_a_tree_of_contexts_dropped_by_its_user_is_closed(chain):
    alpha = remote.local(name="alpha")
    beta = remote.local(via=alpha, name="beta")
    pids = [alpha.facts.pid, beta.facts.pid]
    del alpha
    assert beta.call(roamlet_sent.add, (1, 2)) == 3  # it holds what it goes through
    with warnings.catch_warnings(record=True) as recorded:
        warnings.simplefilter("always")
        contexts = [beta]
        del beta
        contexts.clear()
        texts = [str(recorded.pop().message)]  # a warning holds what it is about, and beta what it goes through
    texts += [str(warning.message) for warning in recorded]
    assert ["'alpha'" in text for text in sorted(texts)] == [True, False]
    assert all(gone(pid, seconds=10) for pid in pids)


def test_a_forked_context_starts_others_and_cannot_be_started_elsewhere(chain):
    with remote.fork(beside_threads=True) as forked:
        (beta,) = chain("own", via=forked)
        assert beta.call(roamlet_sent.parent_pid) == forked.facts.pid
        with raises(TypeError, match="a copy of this process, and cannot run in"):
            remote.fork(via=forked)


def test_of_one_that_sends_more_than_was_asked_for_nothing_more_is_kept():
    hop = SimpleNamespace(identifier=1, name="hop", trunk=None, tunnels={}, send_at_once=lambda frame: None)
    tunnel = routes.Tunnel(hop, 2)
    data = bytes(1 << 20)
    for _ in range(2 * routes.MOST_KEPT // len(data)):
        tunnel.deliver(data)  # and it is not taken
    assert tunnel._kept <= routes.MOST_KEPT + len(data)
    with raises(ValueError, match="bytes that were not asked for"):
        tunnel.try_read(1)
    for tunnels in (hop.tunnels, hop.trunk.tunnels):  # they refer to each other
        tunnels.clear()
    hop.trunk = None


def test_a_context_behind_one_with_the_same_interpreter_has_modules_from_its_own_link_alone():
    ours = remote.Modules(prefer="parent")
    with remote.local(modules=ours) as hub:
        hub.call(roamlet_sent.add, (1,))  # so that it has something to hand down to what it executes
        with remote.local(via=hub, modules=ours) as behind:
            assert behind.call(roamlet_sent.add, (20, 22)) == 42
            assert behind.call(importlib.util.find_spec, ("roamlet_no_such_module",)) is None
            finders = behind.call(eval, ("[type(one).__name__ for one in __import__('sys').meta_path]",))
            assert finders.count("Importer") == 1
