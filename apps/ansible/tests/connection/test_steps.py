"""Work on temporary folders that fails after core was told that it is done: the errors are those of core's own functions."""

import pytest

from roamlet_ansible.cores.plain import Step

pytest.importorskip("ansible", reason="ansible-core is not installed for this Python")

from ansible.errors import AnsibleConnectionFailure, AnsibleError

from roamlet_ansible.connection.steps import failure


def test_a_folder_that_cannot_be_made_makes_a_host_unreachable():
    step = Step("mkdir", "/bin/sh -c '( umask 77 && mkdir ) && sleep 0'", ("/a/tmp", "ansible-tmp-1"))
    error = failure(step, 1, b"", b"mkdir: cannot create directory")
    assert isinstance(error, AnsibleConnectionFailure)
    assert str(error).endswith("Failed command was: ( umask 77 && mkdir ), exited with result 1")
    full = failure(step, 1, b"", b"mkdir: No space left on device")
    assert str(full) == "mkdir: No space left on device"


def test_a_mode_that_cannot_be_set_is_an_error_of_the_task():
    error = failure(Step("chmod", "/bin/sh -c 'chmod u+x /a'", (0o100, ["/a"])), 1, b"", b"chmod: no such file")
    assert type(error) is AnsibleError
    assert str(error).startswith("Failed to set ")
    assert str(error).endswith("(rc: 1, err: chmod: no such file)")


def test_a_file_that_cannot_be_put_is_an_error_of_the_task():
    error = failure(Step("put", "", ("/a", 0o600)), 1, b"", b"No space left on device")
    assert (type(error), str(error)) == (AnsibleError, "No space left on device")
