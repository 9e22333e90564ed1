"""Targets that lack what most have: Python, a new enough one, a writable root, room in /tmp, programs in /tmp, a silent shell."""

import os
import sys

import pytest

from roamlet_ansible.broker import session

from .faulty import NO_MASTER, target
from .playing import ROAMLET, STOCK

pytestmark = [pytest.mark.playbook, pytest.mark.skipif(os.geteuid() != 0, reason="mount namespaces take root")]

PLAY = "- hosts: all\n  gather_facts: false\n  tasks:\n"
NO_PYTHON = "mount --bind /dev/null $(readlink -f /usr/bin/python3)\nmount -t tmpfs none /root"
OLD = """\
cat > $PLACE/python3 <<EOF
#!/bin/sh
for last; do h1=\\$h2; h2=\\$last; done
[ $# -lt 3 ] || echo "\\$h1\\$h2"1 3.5.3
cat >/dev/null
exit 1
EOF
chmod +x $PLACE/python3
mount -t tmpfs none /root
mount --bind $PLACE/python3 $(readlink -f /usr/bin/python3)
"""


def statuses(played):
    return [(name, status) for name, status, _ in played.tasks]


def test_without_python_raw_works_and_modules_name_it(playing):
    playing.variables["ansible_python_interpreter"] = "/usr/bin/python3"
    text = f"""{PLAY}
  - {{name: raw, raw: "echo raw; echo more >&2; exit 4", ignore_errors: true}}
  - {{name: module, ping: , ignore_errors: true}}
  - {{name: script, script: s.sh one}}
  - {{name: raw again, raw: "echo raw"}}
"""
    (playing.folder / "s.sh").write_text('#!/bin/sh\necho "$1"\n')
    with target(playing, NO_PYTHON) as changed:
        given = [changed.play(text, connection, **NO_MASTER) for connection in (STOCK, ROAMLET)]
    stock, ours = given
    assert statuses(ours) == statuses(stock), ours.text
    assert ours["raw"]["rc"] == 4
    assert "raw" in ours["raw"]["stdout"]
    for key in ("rc", "msg", "module_stdout", "module_stderr"):
        assert ours["module"].get(key) == stock["module"].get(key), key
    assert "python3" in str(ours["module"])


def test_a_python_that_is_too_old_is_left_to_core(playing):
    playing.variables["ansible_python_interpreter"] = "/usr/bin/python3"
    text = f"{PLAY}  - {{name: raw, raw: echo raw}}\n  - {{name: module, ping: , ignore_errors: true}}\n"
    with target(playing, OLD) as changed:
        stock, ours = [changed.play(text, connection, "-vv", **NO_MASTER) for connection in (STOCK, ROAMLET)]
    assert statuses(ours) == statuses(stock), ours.text
    assert ours["module"].get("msg") == stock["module"].get("msg")
    assert "3.5.3" in ours.text


EVERYTHING = """
  - {name: ping, ping: }
  - {name: command, command: echo out}
  - {name: facts, setup: {gather_subset: [min]}}
  - {name: stat, stat: {path: /}}
"""


@pytest.mark.parametrize(
    "preparation",
    [
        "mount -t tmpfs -o size=16k none /tmp; cat /dev/zero > /tmp/full || true",
        "mount -t tmpfs -o noexec none /tmp; mount -t tmpfs -o noexec none /var/lib",
        "mount -t tmpfs -o ro none /tmp",
    ],
    ids=["full", "noexec", "read-only"],
)
def test_modules_run_where_tmp_is_of_no_use(playing, preparation):
    playing.variables["ansible_python_interpreter"] = "/usr/bin/python3"
    text = (
        PLAY
        + EVERYTHING
        + """
  - {name: copy, copy: {content: "x", dest: /root/x}}
  - {name: script, script: s.sh one}
"""
    )
    (playing.folder / "s.sh").write_text('#!/bin/sh\necho "$1"\n')
    with target(playing, "mount -t tmpfs none /root\n" + preparation) as changed:
        played = changed.play(text, **NO_MASTER)
    assert played.code == 0, played.text


FULL = "mount -t tmpfs -o size=400k none /root"


def test_a_file_that_does_not_fit_fails_by_its_name_and_the_next_one_arrives(playing):
    """Over ssh it fails, or the host is unreachable, as dd or ssh is faster."""
    playing.variables["ansible_python_interpreter"] = "/usr/bin/python3"
    (playing.folder / "large").write_bytes(os.urandom(3_000_000))
    (playing.folder / "small").write_text("small\n")
    text = f"""{PLAY}
  - {{name: large, copy: {{src: large, dest: /root/large}}, ignore_errors: true, ignore_unreachable: true}}
  - {{name: small, copy: {{src: small, dest: /root/small}}}}
  - {{name: there, command: ls -A /root /root/.ansible/tmp}}
"""
    given = []
    for connection in (STOCK, ROAMLET):
        with target(playing, FULL) as changed:
            played = changed.play(text, connection, **NO_MASTER)
        assert played.code == 0, played.text
        given.append((played["there"]["stdout"], played["small"]["checksum"]))
        assert played.status("large") in ("failed", "unreachable")
    assert given[1] == given[0]
    assert "large" not in played["there"]["stdout_lines"]
    assert played.status("large") == "failed"
    assert "source: [Errno 28] No space left on device" in played["large"]["msg"]


def test_modules_that_write_nothing_run_where_nothing_can_be_written(playing):
    preparation = "mount -t tmpfs -o ro none /dev/shm; mount -t tmpfs -o ro none /tmp; mount -o remount,bind,ro /"
    playing.variables["ansible_python_interpreter"] = "/usr/bin/python3"
    text = (
        PLAY
        + EVERYTHING
        + '  - {name: copy, copy: {content: "x", dest: /root/x}, ignore_errors: true, ignore_unreachable: true}\n'
        + "  - {name: after, ping: }\n"
    )
    with target(playing, preparation) as changed:
        played = changed.play(text, **NO_MASTER)
    assert played.code == 0, played.text
    assert played.status("copy") == "unreachable"  # as core says it of any connection
    assert "Failed to create temporary directory" in played["copy"]["msg"]


SHELL = """
mount -t tmpfs none /root
printf "echo welcome to this machine\\necho and to its errors >&2\\n" > /root/.bashrc
"""


def test_a_login_shell_that_prints_disturbs_no_task(playing):
    playing.variables["ansible_python_interpreter"] = "/usr/bin/python3"
    text = (
        PLAY
        + EVERYTHING
        + """
  - {name: raw, raw: echo raw}
  - {name: copy, copy: {content: "x", dest: /root/x}}
  - {name: fetch, fetch: {src: /root/x, dest: fetched/, flat: true}}
  - {name: script, script: s.sh one}
  - {name: async, command: echo later, async: 20, poll: 1}
"""
    )
    (playing.folder / "s.sh").write_text('#!/bin/sh\necho "$1"\n')
    with target(playing, SHELL, ["SetEnv SHLVL=0"]) as changed:
        played = changed.play(text, **NO_MASTER)
    assert played.code == 0, played.text
    assert played["raw"]["stdout_lines"][-1] == "raw"
    assert played["script"]["stdout_lines"][-1] == "one"


def test_an_interpreter_that_is_not_named_is_found_as_core_finds_it(playing):
    del playing.variables["ansible_python_interpreter"]
    broken = playing.folder / "broken"
    broken.write_text("#!/bin/sh\necho this one is broken >&2\nexit 3\n")
    broken.chmod(0o755)
    text = f"{PLAY}  - {{name: ping, ping: }}\n  - {{name: which, setup: {{gather_subset: [min], filter: ansible_python}}}}\n"
    text += f"  - {{name: broken, ping: , vars: {{ansible_python_interpreter: {broken}}}, ignore_errors: true}}\n"
    with target(playing, "mount -t tmpfs none /root") as changed:
        stock, ours = [changed.play(text, connection, **NO_MASTER) for connection in (STOCK, ROAMLET)]
    assert ours.code == 0, ours.text
    for key in ("rc", "msg", "module_stdout", "module_stderr"):
        assert ours["broken"].get(key) == stock["broken"].get(key), key
    assert ours["ping"].get("ansible_facts") == stock["ping"].get("ansible_facts")
    assert ours["which"]["ansible_facts"] == stock["which"]["ansible_facts"]


def test_an_interpreter_that_takes_long_to_start_is_waited_for(playing):
    """Longer than the broker waits for one answer of the host, as on one that is busy."""
    slow = playing.folder / "slow"
    slow.write_text(f'#!/bin/sh\nsleep {session.WAIT + 1}\nexec {sys.executable} "$@"\n')
    slow.chmod(0o755)
    playing.variables["ansible_python_interpreter"] = str(slow)
    played = playing.play(
        f"{PLAY}  - {{name: first, ping: }}\n  - {{name: next, ping: }}\n", ROAMLET, "-vvv", **NO_MASTER
    )
    assert played.code == 0, played.text
    assert played.text.count("> MODULE") == 2
