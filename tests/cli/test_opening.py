"""From hosts to contexts: which transports are asked for, in which order, and that hosts on the way are opened once and closed."""

import io
from contextlib import contextmanager

import pytest

from roamlet import remote
from roamlet.cli.output.progress import Progress
from roamlet.cli.reaching.inventory import Host, hosts_from
from roamlet.cli.reaching.opening import Hops, hand_on


@pytest.fixture
def asked(monkeypatch):
    """What roamlet.remote was asked for, and what was closed, in order."""
    log = []

    def stand_in(kind):
        @contextmanager
        def opened(*words, **options):
            options.pop("output", None)
            name = options.pop("name")
            kept = {key: value for key, value in options.items() if value not in (None, ())}
            log.append((kind, *words, kept))
            yield f"{kind} {name}"
            log.append(("closed", f"{kind} {name}"))

        return opened

    for kind in ("local", "ssh", "sudo"):
        monkeypatch.setattr(remote, kind, stand_in(kind))
    return log


def hops(**options):
    return Hops(lambda name: hosts_from([name])[0], **{"sudo": False, **options})


def test_a_host_is_reached_as_the_inventory_says(asked):
    host = Host("w", "10.0.0.1", "me", 2222, "python3.6", None, ("-v",))
    with hops() as way, way.opened(host, hand_on) as context:
        assert context == "ssh w"
    assert asked[0] == ("ssh", "10.0.0.1", {"python": "python3.6", "user": "me", "port": 2222, "ssh_args": ("-v",)})


def test_the_host_on_the_way_is_opened_once_and_closed_last(asked):
    with hops() as way:
        for name in ("a", "b"):
            with way.opened(Host(name, name, via="me@gate:22"), hand_on):
                pass
    assert asked == [
        ("ssh", "gate", {"user": "me", "port": 22}),
        ("ssh", "a", {"via": "ssh me@gate:22"}),
        ("closed", "ssh a"),
        ("ssh", "b", {"via": "ssh me@gate:22"}),
        ("closed", "ssh b"),
        ("closed", "ssh me@gate:22"),
    ]


def test_sudo_goes_on_from_the_host_with_the_interpreter_that_was_named(asked):
    with hops(sudo=True, password="secret") as way:
        with way.opened(Host("a", "a", python="python3.8"), hand_on) as context:
            assert context == "sudo a"
        with way.opened(Host("here", None), hand_on):
            pass
    assert asked == [
        ("ssh", "a", {}),
        ("sudo", {"python": "python3.8", "password": "secret", "via": "ssh a"}),
        ("closed", "sudo a"),
        ("closed", "ssh a"),
        ("sudo", {"password": "secret"}),
        ("closed", "sudo here"),
    ]


class Screen(io.StringIO):
    def isatty(self):
        return True


def test_progress_is_one_line_on_a_terminal_and_nothing_elsewhere():
    screen, pipe = Screen(), io.StringIO()
    for out in (screen, pipe):
        progress = Progress(3, out)
        progress.move("a", "connecting")
        progress.move("b", "connecting")
        progress.move("a", "done")
        progress.wipe()
    lines = screen.getvalue().split("\r\x1b[K")
    assert lines == ["", "2 waiting, 1 connecting", "1 waiting, 2 connecting", "1 waiting, 1 connecting, 1 done", ""]
    assert pipe.getvalue() == ""
