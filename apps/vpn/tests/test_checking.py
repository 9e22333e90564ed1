"""The commands that look: what they print and with what they exit, with servers that a test answers for."""

import argparse
import json
from contextlib import contextmanager

import pytest

from apps.vpn.tests.measuring import all_facts, changed, lan, measurements, peer, silent, well, with_peers
from roamlet.cli import UsageError
from roamlet.remote import Result
from roamlet_vpn.check.throughput import Throughput
from roamlet_vpn.commands import checking
from roamlet_vpn.errors import VpnError
from roamlet_vpn.model.measured import Datagrams


class Servers:
    """Answers with facts, or with what went wrong."""

    def __init__(self, facts, errors=None):
        self.given = facts
        self.errors = errors or {}
        self.contexts = dict.fromkeys(facts)

    def connect(self):
        return self.errors

    def facts(self):
        return {
            **{name: Result(name, value=one) for name, one in self.given.items()},
            **{name: Result(name, error=VpnError(error)) for name, error in self.errors.items()},
        }

    def each(self, function, arguments, timeout=60.0):
        return {name: Result(name, error=VpnError("not now")) for name in arguments}


@pytest.fixture
def network():
    return well(2)


@pytest.fixture
def run(monkeypatch, network, capsys):
    """Run a command on servers with these facts and measurements; returns the exit code and what was printed."""

    def run(command, facts, found=None, errors=None, **options):
        @contextmanager
        def opened(options):
            yield network, Servers(facts, errors)

        monkeypatch.setattr(checking, "opened", opened)
        monkeypatch.setattr(checking, "measure", lambda *args: found)
        words = {
            "json": False,
            "watch": None,
            "client": [],
            "throughput": False,
            "seconds": 1.0,
            "svg": None,
            "file": "net.toml",
        }
        code = command(argparse.Namespace(**{**words, **options}))
        return code, capsys.readouterr().out

    return run


def test_status_prints_a_row_for_each_end(run, network):
    code, out = run(checking.status, all_facts(network))
    assert code == 0 and "alpha  beta   up  10 s ago     1.0 kB  1.0 kB  198.51.100.2:51820" in out


def test_status_says_why_a_server_is_not_there(run, network):
    facts = all_facts(network)
    del facts["beta"]
    code, out = run(checking.status, facts, errors={"beta": "ssh to 'beta' timed out\n    Is it up?"})
    assert code == 3 and "beta: ssh to 'beta' timed out\n    Is it up?" in out


def test_check_of_a_network_that_is_well(run, network):
    code, out = run(checking.check, all_facts(network), measurements(network))
    assert code == 0 and "nothing is wrong" in out and "80.0 ms" in out


def test_check_prints_what_is_wrong_and_what_to_do(run, network):
    facts = all_facts(network)
    facts["beta"] = with_peers(facts["beta"], peer(network, "beta", "alpha", allowed_ips=(lan("10.8.1.1/32"),)))
    code, out = run(
        checking.check, facts, changed(measurements(network), silent(network, "alpha", "beta", "lan", "client"))
    )
    assert code == 1
    assert "error: wrong-allowed-ips  beta does not send 192.168.10.0/24 to alpha" in out
    assert "- `roamlet vpn apply` sets them" in out


def test_a_warning_is_no_failure(run, network):
    found = changed(measurements(network), datagrams=[Datagrams("alpha", "beta", (1400,), ())])
    code, out = run(checking.check, all_facts(network), found)
    assert code == 0 and "warning: port-forward-missing" in out


def test_check_as_json_with_throughput(run, network, monkeypatch):
    monkeypatch.setattr(checking, "throughput", lambda *args: iter([Throughput("alpha", "beta", 1e7)]))
    code, out = run(checking.check, all_facts(network), measurements(network), json=True, throughput=True)
    told = json.loads(out)
    assert code == 0 and told["well"] is True and told["diagnoses"] == []
    assert told["latency"]["lans"]["alpha"] == {"beta": 0.08}
    assert told["throughput"] == [{"site": "alpha", "peer": "beta", "rate": 1e7, "error": None}]
    assert told["sites"]["beta"]["peers"][0]["peer"] == "alpha"


def test_a_server_out_of_reach_alone_is_code_3(run, network):
    facts = all_facts(network)
    del facts["beta"]
    found = measurements(network)
    only = {"alpha": found.sites["alpha"]}
    found = type(found)(sites=only, unreachable={"beta": "no route"})
    code, out = run(checking.check, facts, found, errors={"beta": "no route"})
    assert code == 3 and "error: server-unreachable" in out


def test_the_picture_is_written_with_what_was_found(run, network, tmp_path):
    path = tmp_path / "net.svg"
    code, out = run(checking.draw, all_facts(network), measurements(network), output=path, offline=False)
    assert code == 0 and "80.0 ms" in path.read_text("utf-8") and out == f"drawn to {path}: nothing is wrong\n"
    code, out = run(checking.draw, {}, output=path, offline=True)
    assert code == 0 and "80.0 ms" not in path.read_text("utf-8") and out == f"drawn to {path}\n"


def test_a_picture_says_of_what_its_exit_code_speaks(run, network, tmp_path):
    facts = all_facts(network)
    del facts["beta"]
    found = measurements(network)
    found = type(found)(sites={"alpha": found.sites["alpha"]}, unreachable={"beta": "no route"})
    path = tmp_path / "net.svg"
    code, out = run(checking.draw, facts, found, errors={"beta": "no route"}, output=path, offline=False)
    assert code == 3 and out == f"drawn to {path}: error: server-unreachable; `roamlet vpn check` says what to do\n"


def test_elsewhere_than_on_a_terminal_no_line_is_wrapped_or_padded(run, network, monkeypatch):
    monkeypatch.setenv("COLUMNS", "40")
    found = changed(measurements(network), datagrams=[Datagrams("alpha", "beta", (1400,), ())])
    _, out = run(checking.check, all_facts(network), found)
    warning, seen, *_ = out[out.index("warning:") :].splitlines()
    assert len(warning) > 60 and seen.startswith("    seen: ")
    assert all(line == line.rstrip() for line in out.splitlines())


def test_a_picture_that_cannot_be_written_says_so(run, network, tmp_path):
    with pytest.raises(VpnError, match="could not be written to .*: No such file or directory"):
        run(checking.draw, {}, output=tmp_path / "none" / "net.svg", offline=True)


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["alpha"], "write SITE=ADDRESS"),
        (["alpha=beta"], "write SITE=ADDRESS"),
        (["delta=10.0.0.1"], "no such site in net.toml"),
    ],
)
def test_wrong_clients_are_refused(run, network, words, message):
    with pytest.raises((UsageError, VpnError), match=message):
        run(checking.check, all_facts(network), measurements(network), client=words)
