"""What a context prints and logs appears in this process."""

import logging
import sys
import threading

import pytest
import roamlet_sent

import roamlet
from roamlet import remote
from roamlet.testing.links import flush_output, holds
from tests.remote.inside import link_of


def test_lines_appear_on_the_streams_of_this_process(shared, capsys):
    shared.call(roamlet_sent.print_lines, (["one", "two"], ["three"]))
    flush_output(shared, 10)
    printed = capsys.readouterr()
    assert printed.out == "one\ntwo\n"
    assert printed.err == "three\n"


def test_what_programs_started_on_the_target_print_comes_along(shared, capsys):
    shared.call(roamlet_sent.print_from_a_program, ("from-a-shell",))
    flush_output(shared, 10)
    assert capsys.readouterr().out == "from-a-shell\n"


def test_an_output_function_gets_context_stream_and_line(target):
    lines = []
    context = target.open(output=lambda *line: lines.append(line))
    context.call(roamlet_sent.print_lines, (["one", "tëxt"], ["two"]))
    context.close()
    name = target.name
    assert sorted(lines) == sorted([(name, "stdout", "one"), (name, "stdout", "tëxt"), (name, "stderr", "two")])


def test_a_line_without_its_break_is_handed_on_at_the_end(own_target):
    lines = []
    context = own_target.open(output=lambda *line: lines.append(line))
    context.call(roamlet_sent.print_without_line_break, ("no line break",))
    assert lines == []
    context.close()
    assert lines == [(own_target.name, "stdout", "no line break")]


def test_a_great_deal_of_output_arrives_whole_and_in_order(own_target):
    lines = []
    context = own_target.open(output=lambda context, stream, line: lines.append(line))
    assert context.call(roamlet_sent.print_many, (30_000,)) == 30_000
    context.close()
    assert len(lines) == 30_000
    assert [int(line[:7]) for line in lines] == list(range(30_000))


def test_an_output_function_that_raises_loses_its_line_and_nothing_else(own_target, caplog):
    lines = []

    def output(context, stream, line):
        if line == "bad":
            raise RuntimeError("cannot take this")
        lines.append(line)

    context = own_target.open(output=output)
    context.call(roamlet_sent.print_lines, (["good", "bad", "good again"], []))
    context.close()
    assert lines == ["good", "good again"]
    assert [record.getMessage() for record in caplog.records] == [
        f"the output function of context {own_target.name!r} failed"
    ]
    caplog.clear()


def test_an_output_function_that_exits_loses_its_line_and_nothing_else(own_target, caplog):
    lines = []

    def output(context, stream, line):
        if line == "bad":
            sys.exit(3)
        lines.append(line)

    context = own_target.open(output=output)
    context.call(roamlet_sent.print_lines, (["good", "bad", "good again"], []))
    context.close()
    assert lines == ["good", "good again"]
    assert "the output function of context" in caplog.text
    caplog.clear()


def test_lines_without_a_character_count_as_well_when_they_are_not_taken(own_target):
    free = threading.Event()
    context = own_target.open(output=lambda *line: free.wait(60))
    with pytest.raises(remote.CallTimeout):
        context.call(roamlet_sent.print_without_line_break, ("\n" * 1_000_000,), timeout=1)
    assert len(link_of(context).output._items) < 200_000
    free.set()


def test_a_blocked_output_function_stalls_no_call_and_slows_its_own_context_only(own_target):
    free = threading.Event()
    context = own_target.open(output=lambda *line: free.wait(60))
    other = own_target.open(name="other")
    context.call(roamlet_sent.print_lines, (["blocks"], []))
    assert context.call(roamlet_sent.add, (1, 2)) == 3
    with pytest.raises(remote.CallTimeout):
        context.call(roamlet_sent.print_many, (100_000,), timeout=0.5)  # more than is kept: it waits for its reader
    assert other.call(roamlet_sent.add, (1, 2)) == 3
    free.set()
    assert context.call(roamlet_sent.add, (3, 4), timeout=60) == 7


def test_a_log_handler_that_blocks_stalls_no_link():
    entered, free = threading.Event(), threading.Event()

    class Blocking(logging.Handler):
        def emit(self, record):
            entered.set()
            free.wait(60)

    handler, logger = Blocking(), logging.getLogger("roamlet.remote")
    logger.addHandler(handler)
    try:
        channel = roamlet.channel()
        with remote.local() as context, remote.local() as other:
            call = context.spawn(roamlet_sent.receive_error, (channel,))
            channel.send(object())
            assert "cannot travel" in call.join(10)
            assert entered.wait(10)
            assert other.call(roamlet_sent.add, (1, 2), timeout=10) == 3
            free.set()
    finally:
        logger.removeHandler(handler)


def test_a_flood_from_one_context_starves_no_other(own_target):
    count = {"flood": 0, "other": 0}

    def output(context, stream, line):
        count[context] += 1

    flood, other = own_target.open(name="flood", output=output), own_target.open(name="other", output=output)
    with pytest.raises(remote.CallTimeout):
        flood.call(roamlet_sent.print_many, (10_000_000,), timeout=0.3)
    for number in range(100):
        other.call(roamlet_sent.print_lines, ([str(number)], []), timeout=5)
    flush_output(other, 5)
    assert count["other"] == 100
    assert count["flood"] > 100


def test_an_output_function_may_call_into_its_own_context(own_target):
    answers = []
    contexts = []

    def output(context, stream, line):
        answers.append(contexts[0].call(roamlet_sent.echo, (line + "!",)))

    contexts.append(own_target.open(output=output))
    contexts[0].call(roamlet_sent.print_lines, (["one"], []))
    flush_output(contexts[0], 10)
    assert answers == ["one!"]
    contexts.clear()


@pytest.mark.parametrize("is_behind", [False, True], ids=["itself", "behind"])
@pytest.mark.parametrize("late", [False, True], ids=["early", "late"])
def test_a_call_by_an_output_function_that_could_never_be_answered_is_refused(is_behind, late):
    contexts, refused = [], []

    def output(context, stream, line):
        talker, called = contexts
        if not refused:
            while late and not link_of(talker).output.is_full:
                roamlet.sleep(0.001)
            try:
                called.call(
                    roamlet_sent.wait_until_printed, (60,)
                )  # in `called`, where it never is while the talker is in front
            except remote.OutputHeld as error:
                refused.append(error.with_traceback(None))

    with remote.local(name="talker", output=output) as talker:
        contexts += [talker, remote.local(via=talker, name="behind") if is_behind else talker]
        with contexts[1]:
            if not late:
                talker.call(roamlet_sent.print_lines, (["first"], []))
                while not holds(contexts[1]).calls:  # the output function waits for its answer
                    roamlet.sleep(0.001)
            assert talker.call(roamlet_sent.print_many_and_say_so, (50_000,), timeout=60) == 50_000
            assert contexts[1].call(roamlet_sent.add, (1, 2), timeout=60) == 3
        contexts.clear()
    assert len(refused) == 1
    assert refused[0].sent is not late
    assert "it was called by the output function of 'talker', and 1 MB of output waits for that function" in str(
        refused[0]
    )


def test_an_output_function_may_call_other_contexts_however_much_waits():
    answers, contexts = [], []

    def output(context, stream, line):
        while not answers and not link_of(contexts[0]).output.is_full:
            roamlet.sleep(0.001)
        if not answers:
            answers.append(contexts[1].call(roamlet_sent.echo, (line,), timeout=60))

    with remote.local(output=output) as talker, remote.local() as other:
        contexts += [talker, other]
        assert talker.call(roamlet_sent.print_many, (50_000,), timeout=60) == 50_000
        contexts.clear()
    assert answers[0].startswith("0000000 ")


def test_log_records_arrive_at_the_logger_of_the_same_name(target, caplog):
    logging.getLogger("roamlet_test.there").setLevel(logging.INFO)
    try:
        context = target.open()
        context.call(roamlet_sent.log, ("roamlet_test.there", logging.INFO, "looked around"))
        context.call(roamlet_sent.log, ("roamlet_test.there", logging.DEBUG, "not wanted"))
        context.close()
    finally:
        logging.getLogger("roamlet_test.there").setLevel(logging.NOTSET)
    (record,) = caplog.records
    assert record.name == "roamlet_test.there"
    assert record.levelname == "INFO"
    assert record.getMessage() == "looked around"
    assert record.roamlet_context == target.name
    assert record.filename == "roamlet_sent.py"
    assert record.funcName is None


def test_a_log_message_of_many_megabytes_arrives_without_its_middle(target, caplog):
    context = target.open()
    context.call(roamlet_sent.log, ("roamlet_test.long", logging.ERROR, "x" * (5 << 20)))
    context.close()
    (record,) = caplog.records
    assert 200_000 < len(record.getMessage()) < 300_000
    assert "characters left out" in record.getMessage()
    caplog.clear()


def test_a_logger_that_the_parent_lacks_is_not_made(own_target, caplog):
    context = own_target.open()
    context.call(roamlet_sent.log, ("roamlet_test.not_here\n.at all", logging.ERROR, "arrived"))
    context.close()
    (record,) = caplog.records
    assert record.name == r"roamlet_test.not_here\n.at all"
    assert record.getMessage() == "arrived"
    assert not [name for name in logging.root.manager.loggerDict if "not_here" in name]
    caplog.clear()
