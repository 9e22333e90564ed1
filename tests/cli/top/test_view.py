"""What `roamlet top` draws, and what keys do: without a terminal, on looks that were made for it."""

import pytest

from roamlet.cli.top import drawing
from roamlet.cli.top.board import Board
from roamlet.cli.top.columns import Column, in_columns
from roamlet.cli.top.terminal import keys
from roamlet.cli.top.view import KEYS, View
from roamlet.diagnose.model import (
    BLOCKED,
    RECEIVE,
    RUNNING,
    Call,
    Context,
    Cycle,
    Frame,
    Process,
    Scheduler,
    Step,
    Tasklet,
    Thread,
    Wait,
)

SERVE = (Frame("serve", "/srv/a/long/path/to/server.py", 12), Frame("start", "/srv/main.py", 3))
COUNT = (Frame("count", "/srv/server.py", 40),)


def made(pid, moment, *, tasklets=None, command="python server.py", switches=100, **more):
    scheduler = Scheduler(tasklets or [], 1, runnable=1, timers=3, switches=switches, messages=7, descriptors=0)
    thread = Thread(7, "MainThread", pid, main=True, state="running", processor=moment / 2, scheduler=scheduler)
    return Process(pid, command, "3.12.1", "0.1", "native", moment=moment, threads=[thread], memory=34_200_000, **more)


def serving(count=1000):
    wait = Wait(RECEIVE, "channel", 0x7F00, since=75.0)
    tasklets = [Tasklet(1, "count", RUNNING, frames=COUNT)]
    tasklets += [Tasklet(n + 16, "serve", BLOCKED, wait=wait, frames=SERVE) for n in range(count)]
    return tasklets


@pytest.fixture
def board():
    board = Board()
    board.take(None, 70, made(70, 1.0), made(70, 1.0, tasklets=serving()), 0.0)
    board.take(None, 70, made(70, 2.0, switches=1100), None, 0.0)
    return board


def text(view, board, width=80, height=24):
    lines = view.lines(board, width, height, "21:25:08")
    assert len(lines) == height
    assert all(len(line) <= width and line.isprintable() for line, _ in lines)
    return "\n".join(line.rstrip() for line, _ in lines)


def test_a_process_in_80_columns(board):
    shown = text(View(only=(None, 70)), board)
    assert "process 70 on Python 3.12.1, native: python server.py" in shown
    assert "34.2 MB, 1 thread, 1,001 tasklets, 1 runnable" in shown
    assert "1,000 switches/s, 0 messages/s, 3 timers" in shown
    assert "MainThread  running   50.0    1     1,001     1,000      0       3    0" in shown
    assert "count (0x1) has kept MainThread" not in shown
    assert "1,000  blocked  75.0 s  receive on channel  serve() at server.py:12" in shown
    assert shown.splitlines()[-1].startswith("q quit  ? help  p pause  / filter  s sort: count  enter place")


@pytest.mark.parametrize("width", [1, 9, 20, 40, 79, 200])
@pytest.mark.parametrize("height", [1, 2, 5, 11, 24, 60])
def test_any_size_is_filled_and_not_passed(board, width, height):
    for press in ((), ("?",), ("enter",), ("enter", "enter"), ("/", "x")):
        view = View(only=(None, 70))
        for key in press:
            view.press(key, board)
        text(view, board, width, height)


def test_drilling_down_to_a_stack_and_back(board):
    view = View()
    assert "1 process, 1,001 tasklets" in text(view, board)
    view.press("enter", board)
    view.press("enter", board)
    shown = text(view, board)
    assert "process 70, blocked, receive on channel\nserve() at /srv/a/long/path/to/server.py:12" in shown
    for _ in range(3):
        view.press("down", board)
    view.press("enter", board)
    shown = text(view, board)
    assert "process 70, tasklet 0x13" in shown
    assert "serve (0x13): blocked for 75.0 s, receive on channel 0x7f00" in shown
    assert "    serve  /srv/a/long/path/to/server.py:12\n    start  /srv/main.py:3" in shown
    for _ in range(5):
        view.press("esc", board)
    assert "1 process, 1,001 tasklets" in text(view, board)


def test_a_tasklet_that_has_ended_meanwhile(board):
    view = View(only=(None, 70))
    view.press("enter", board)
    view.press("enter", board)
    board.take(None, 70, made(70, 3.0), made(70, 3.0, tasklets=serving(0)), 0.0)
    assert "tasklet 0x10 has ended, or is in no list of its thread any more" in text(view, board)
    view.press("esc", board)
    assert "nothing to show" in text(view, board)


def test_what_is_chosen_stays_chosen_as_the_order_changes(board):
    view = View(only=(None, 70))
    view.press("down", board)
    assert view.lists[view.level].key == ("count() at /srv/server.py:40", "running", "")
    board.take(None, 70, made(70, 3.0), made(70, 3.0, tasklets=serving(0)), 0.0)
    view.press("enter", board)
    assert "process 70, running" in text(view, board)


def test_going_through_a_long_list(board):
    view = View(only=(None, 70))
    view.press("enter", board)
    text(view, board)
    view.press("page down", board)
    assert "0x21 " in text(view, board)
    view.press("end", board)
    assert f"{0x10 + 999:#x} " in text(view, board)
    view.press("up", board)
    view.press("home", board)
    assert "0x10 " in text(view, board)


def test_sorting_turns_round_and_goes_through_the_columns(board):
    view = View(only=(None, 70))

    def first():
        return view.rows(board)[0].key[0]

    assert first().startswith("serve")
    view.press("r", board)
    assert first().startswith("count")
    for _ in range(3):
        view.press("s", board)
    assert "s sort: at" in text(view, board) and first().startswith("count")
    view.press("r", board)
    assert first().startswith("serve") and "s sort: at reversed" in text(view, board)
    view.press("s", board)
    assert "s sort: count " in text(view, board)


def test_a_filter_is_typed_kept_and_dropped(board):
    view = View(only=(None, 70))
    for key in ["/", *"COUNTq", "backspace"]:
        view.press(key, board)
    assert "show only rows with: COUNT_" in text(view, board)
    assert [row.cells[0] for row in view.rows(board)] == ["1"]
    view.press("enter", board)
    assert "/ filter /COUNT" in text(view, board) and not view.leave
    view.press("esc", board)
    assert len(view.rows(board)) == 2
    for key in ["/", "x", "x"]:
        view.press(key, board)
    assert "no row has that text" in text(view, board)
    view.press("esc", board)
    assert len(view.rows(board)) == 2


def test_pause_help_and_quit(board):
    view = View(only=(None, 70))
    view.press("p", board)
    assert view.paused and " PAUSED" in text(view, board).splitlines()[0]
    view.press(" ", board)
    assert not view.paused
    view.press("?", board)
    assert "RUN is the length of a thread's run queue" in text(view, board)
    view.press("q", board)  # only leaves the help
    assert not view.help and not view.leave
    view.press("no key at all", board)
    view.press("q", board)
    assert view.leave


def test_every_key_of_the_help_is_one(board):
    shown = text(_help(), board)
    for key in ("up", "down", "k", "j", "enter", "esc", "backspace", "s", "r", "/", "p", "?", "q"):
        assert key in shown and key in KEYS


def _help():
    view = View()
    view.help = True
    return view


def test_several_processes_of_several_hosts():
    board = Board()
    for host, pid, moment in (("web01", 7, 2.0), ("web02", 8, 8.0), ("web02", 9, 4.0)):
        board.take(host, pid, made(pid, 1.0), made(pid, 1.0, tasklets=serving(pid)), 0.0)
        board.take(host, pid, made(pid, moment), None, 0.0)
    board.refuse("web03", 5, "process 5 may not be read", keep=False)
    board.hosts["web04"] = "out of reach"
    board.connecting.add("web05")
    view = View()
    shown = text(view, board)
    assert "host web04: out of reach" in shown
    assert "connecting to web05" in shown
    assert "web03: process 5 may not be read" in shown
    assert [row.key for row in view.rows(board)] == [("web01", 7), ("web02", 8), ("web02", 9)]
    for _ in range(2):
        view.press("s", board)
    assert [row.key[1] for row in view.rows(board)] == [9, 8, 7]
    view.press("r", board)
    view.press("enter", board)
    assert "web01: process 7 on" in text(view, board)


def test_processes_that_end():
    board = Board()
    for pid in (7, 8):
        board.take(None, pid, made(pid, 1.0), made(pid, 1.0, tasklets=serving(1)), 0.0)
    board.keep_only(None, {8})
    assert list(board.seen) == [(None, 8)]
    board.refuse(None, 8, "there is no process 8", keep=True)
    assert not board.goes_on(None, 8)
    assert "no more to see: there is no process 8" in text(View(only=(None, 8)), board)
    board.refuse(None, 8, "there is no process 8", keep=False)
    assert board.seen == {}
    assert "has ended, or is not found any more" in text(View(only=(None, 8)), board)
    with pytest.raises(ValueError, match="a look at process 7 was asked for, and 8 was found"):
        board.take(None, 7, made(8, 1.0), None, 0.0)


def test_what_an_operator_sees_first(board):
    cycle = Cycle([Step(16, "serve", "lock 0x1", 17), Step(17, "serve", "lock 0x2", 16)])
    context = Context("ssh:web", process=5, state="open", made=1, bytes_down=1_500_000, bytes_up=900)
    context.calls = [Call("f", 12.5)]
    full = made(70, 3.0, tasklets=serving(), cycles=[cycle], contexts=[context], stopped=0.0143)
    board.take(None, 70, made(70, 3.0), full, 1.8)
    full = made(70, 5.0, tasklets=serving(), cycles=[cycle], contexts=[context], stopped=0.0143)
    board.take(None, 70, made(70, 5.0), full, 1.8)
    board.take(None, 70, made(70, 6.0), None, 1.8)
    lines = dict(drawing.head(board.seen[None, 70]))
    assert lines["DEADLOCK: 2 tasklets wait for each other and never go on:"] == drawing.ALARM
    assert (
        lines["count (0x1) has kept MainThread for 3.0 s or longer in count() at /srv/server.py:40"] == drawing.WARNING
    )
    assert "tasklets: 1.0 s old, looked at every 1.8 s, as a look stops it for 14.3 ms" in lines
    shown = text(View(only=(None, 70)), board)
    assert "count (0x1) has kept MainThread for 3.0 s or longer in count() at server.py:40" in text(
        View(only=(None, 70)), board, 80
    )
    assert "ssh:web  open       1  12.5 s       0" in shown
    whole = "\n".join(line for line, _ in drawing.whole(board.seen[None, 70], None))
    assert "serve() at /srv/a/long/path/to/server.py:12" in whole and "CONTEXT" in whole


def test_what_comes_from_a_process_is_not_obeyed(board):
    board.take(None, 71, made(71, 1.0, command="\x1b[2Jevil\nname"), made(71, 1.0, tasklets=serving(1)), 0.0)
    assert "\\x1b[2Jevil\\nname" in text(View(), board)
    assert "\\x1b[2Jevil\\nname" in text(View(only=(None, 71)), board)


def test_columns_are_cut_and_then_left_out():
    columns = (Column("A", elastic=True), Column("B", right=True, rank=2), Column("C", rank=1))
    rows = [["a" * 30, "1", "ccc"], ["b", "22", ""]]
    titles, (first, second) = in_columns(columns, rows, None)
    assert (titles, first) == (f"A{' ' * 32}B  C", f"{'a' * 30}   1  ccc")
    assert second == f"b{' ' * 31}22"
    assert in_columns(columns, rows, 22)[1][0] == f"{'a' * 6}…{'a' * 6}   1  ccc"
    assert in_columns(columns, rows, 17)[1][0] == f"{'a' * 6}…{'a' * 5}  ccc"
    assert in_columns(columns, rows, 12)[1][0] == f"{'a' * 6}…{'a' * 5}"
    assert in_columns(columns, rows, 3)[0] == "A"
    assert in_columns(columns, [["", "1", ""]], None)[0] == "B"


def test_a_place_loses_its_folders_first():
    place = "serve() at /srv/a/long/path/to/server.py:12"
    assert drawing.without_folders(place, 30) == "serve() at server.py:12"
    assert drawing.without_folders(place, 12) == "serve(…py:12"


@pytest.mark.parametrize(
    ("number", "shown"),
    [(None, ""), (0.0, "0"), (12.6, "13"), (99_999.0, "99,999"), (123_456.0, "123k"), (45_678_000.0, "46M")],
)
def test_rates(number, shown):
    assert drawing.rate(number) == shown


@pytest.mark.parametrize(
    ("number", "shown"),
    [(None, ""), (0, "0 B"), (999, "999 B"), (34_200_000, "34.2 MB"), (340_000_000, "340 MB"), (5.5e12, "5.5 TB")],
)
def test_sizes(number, shown):
    assert drawing.size(number) == shown


def test_what_terminals_send_for_keys():
    sent = "q\x1b[A\x1bOB\x1b[5~\x1b[6~\x1b[H\x1b[4~\r\x7fé\x1b\x1b[1;5C\x1b[24~\x01"
    assert list(keys(sent)) == [
        *("q", "up", "down", "page up", "page down", "home", "end", "enter", "backspace", "é", "esc"),
    ]
