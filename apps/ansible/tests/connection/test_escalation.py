"""The dialogue with become commands: what is typed, what is left out of the result, and which messages are errors."""

import pytest

pytest.importorskip("ansible", reason="ansible-core is not installed for this Python")

from ansible.errors import AnsibleConnectionFailure, AnsibleError

from roamlet_ansible.connection.escalation import Watch, escalated


class Become:
    """As core's plugins: sudo with a password."""

    name = "sudo"
    success = "BECOME-SUCCESS-abc"
    prompt = "[sudo via ansible, key=abc] password:"

    def __init__(self, password="secret"):
        self.password = password

    def get_option(self, name):
        assert name == "become_pass"
        return self.password

    def expect_prompt(self):
        return bool(self.password)

    def check_password_prompt(self, output):
        return output.strip().startswith(self.prompt.encode())

    def check_success(self, output):
        return self.success.encode() in output

    def check_incorrect_password(self, output):
        return b"Sorry, try again." in output

    def check_missing_password(self, output):
        return b"a password is required" in output


class Scripted:
    """A process that says the next thing each time, and notes what it is given."""

    def __init__(self, *said):
        self.said = list(said)
        self.given = []

    def talk(self, data, eof, wait):
        self.given.append((data, eof))
        return self.said.pop(0)


def test_password_then_data_then_result():
    process = Scripted(
        (b"", b"[sudo via ansible, key=abc] password:", None),
        (b"BECOME-SUCCESS-abc\n", b"\n", None),
        (b"out", b"", None),
        (b"put\n", b"err\n", 3),
    )
    assert escalated(Become(), process, b"data", 5.0) == (3, b"output\n", b"\nerr\n")
    assert process.given == [(b"", False), (b"secret\n", False), (b"data", True), (b"", False)]


def test_a_prompt_that_comes_in_pieces_is_answered_once():
    process = Scripted(
        (b"", b"[sudo via ansi", None),
        (b"", b"ble, key=abc] password:", None),
        (b"BECOME-SUCCESS-abc\nx\n", b"", None),
        (b"", b"", 0),
    )
    assert escalated(Become(), process, b"", 5.0) == (0, b"x\n", b"")
    assert [data for data, _ in process.given] == [b"", b"", b"secret\n", b""]


def test_no_password_is_asked_for():
    process = Scripted((b"BECOME-SUCCESS-abc\n", b"", None), (b"done", b"", 0))
    assert escalated(Become(None), process, b"", 5.0) == (0, b"done", b"")


@pytest.mark.parametrize(
    ("said", "message"),
    [
        ([(b"", b"[sudo via ansible, key=abc] password:", None), (b"", b"Sorry, try again.\n", None)], "Incorrect"),
        ([(b"", b"[sudo via ansible, key=abc] password:", None)] * 2, "Incorrect"),
        ([(b"", b"sudo: a password is required\n", 1)], "Missing"),
    ],
)
def test_a_wrong_or_missing_password_is_an_error(said, message):
    with pytest.raises(AnsibleError, match=message):
        escalated(Become(), Scripted(*said), b"", 5.0)


def test_a_command_that_ends_without_escalation_gives_what_it_said():
    process = Scripted((b"", b"sudo: unknown user nemo\n", 1))
    assert escalated(Become(), process, b"data", 5.0) == (1, b"", b"sudo: unknown user nemo\n")


def test_what_looks_like_a_prompt_after_success_is_output():
    watch = Watch(Become(), 5.0)
    watch.read(b"BECOME-SUCCESS-abc\n", b"")
    assert watch.read(b"[sudo via ansible, key=abc] password:\nSorry, try again.\n", b"") == b""
    assert watch.rest() == (b"[sudo via ansible, key=abc] password:\nSorry, try again.\n", b"")


def test_silence_is_a_failure_of_the_connection_before_success_only():
    silent = (b"", b"", None)
    with pytest.raises(AnsibleConnectionFailure, match=r"Timeout \(0s\) waiting for .*: odd words"):
        escalated(Become(), Scripted((b"odd words", b"", None), silent), b"", 0.0)
    process = Scripted((b"BECOME-SUCCESS-abc\n", b"", None), silent, silent, (b"done", b"", 0))
    assert escalated(Become(), process, b"", 0.0) == (0, b"done", b"")


@pytest.mark.parametrize("pieces", [[0, 1, 3], [0, 3], [0, 1, 2, 3], [0, 2, 3]])
def test_a_carriage_return_before_the_prompt_stays_where_it_was(pieces):
    """doas asks on a terminal by \\r and its prompt, and ends that line itself."""
    said = [b"\r", b"[sudo via ansible, key=abc] password:", b"", b"\r\nBECOME-SUCCESS-abc\r\nout\r\n"]
    chunks = [b"".join(said[a:b]) for a, b in zip(pieces, [*pieces[1:], len(said)], strict=True)]
    process = Scripted(*((chunk, b"", None) for chunk in chunks), (b"", b"", 0))
    assert escalated(Become(), process, b"", 5.0) == (0, b"\r\r\nout\r\n", b"")
    assert b"".join(data for data, _ in process.given) == b"secret\n"
