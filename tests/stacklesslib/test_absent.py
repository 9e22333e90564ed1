"""What the old library had beside what is here: how its absence is reported, and what is used instead."""

import importlib

import pytest


@pytest.mark.parametrize(
    ("name", "instead"),
    [
        ("magic", "python -m roamlet.threads SCRIPT"),
        ("monkeypatch", "roamlet.io"),
        ("replacements", "roamlet.io"),
        ("async", "roamlet.call_async"),
        ("fittings", "roamlet.io.pipe"),
        ("socketserver", "roamlet.io.serve"),
        ("weakmethod", "weakref.WeakMethod"),
    ],
)
def test_a_module_that_is_not_here_is_refused_with_what_to_use(name, instead):
    with pytest.raises(
        ModuleNotFoundError, match=f"^roamlet's stacklesslib has no module '{name}'; instead: .*{instead}"
    ):
        importlib.import_module(f"roamlet.stackless._path.stacklesslib.{name}")


def test_other_names_are_not_found_as_ever():
    with pytest.raises(ModuleNotFoundError, match="^No module named .roamlet.stackless._path.stacklesslib.nothing'$"):
        importlib.import_module("roamlet.stackless._path.stacklesslib.nothing")


def test_set_channel_pref_lets_the_sender_go_on():
    from roamlet import stackless
    from roamlet.stackless._path.stacklesslib.locks import set_channel_pref

    channel, log = stackless.channel(), []
    set_channel_pref(channel)
    stackless.tasklet(lambda: log.append(channel.receive()))()
    stackless.run()
    channel.send("received")
    log.append("sent")
    stackless.run()
    assert log == ["sent", "received"]
