"""Real sudo and su with accounts of their own: passwords, flags, names and refusals give what they give over core's ssh plugin."""

import os
import pprint
import tempfile
from pathlib import Path

import pytest

from tests.remote.sshd import running_sshd
from tests.remote.transports.private_system import CALLER, FREE, OTHER, PASSWORD, PYTHON, CannotBeMade, make

from .faulty import NO_MASTER, leaving_nothing
from .playing import ROAMLET, STOCK, Playing
from .test_playbooks import comparable

pytestmark = pytest.mark.playbook

PLAY = "- hosts: all\n  gather_facts: false\n  tasks:\n"
GOES_ON = PLAY.replace("tasks", "ignore_errors: true\n  tasks")
KEYS = ("rc", "stdout", "stderr", "msg", "changed", "unreachable", "module_stdout", "module_stderr")


@pytest.fixture(scope="module")
def accounts():
    """An sshd that lets in the accounts of the private system; its folder and /etc are its own."""
    # Not below pytest's own folder, which only its user may enter.
    with tempfile.TemporaryDirectory(prefix="roamlet-accounts-") as name:
        folder = Path(name)
        folder.chmod(0o755)
        try:
            system = make(folder)
        except CannotBeMade as reason:
            pytest.skip(f"no private system: {reason}")
        entered = folder / "entered"
        # A copy that can be changed lies over the read-only /etc: tests add accounts and groups.
        entered.write_text(
            f"#!/bin/sh\nexec {system.enter} root unshare --mount sh -ec '"
            f"mkdir -p {folder}/live/etc && cp -a /etc/. {folder}/live/etc && mount --bind {folder}/live/etc /etc && "
            'exec "$@"\' sh "$@"\n'
        )
        entered.chmod(0o755)
        with running_sshd(folder, [str(entered)]) as server:
            yield server


@pytest.fixture
def playing(accounts, tmp_path):
    pytest.importorskip("ansible", reason="ansible-core is not installed for this Python")
    with tempfile.TemporaryDirectory(prefix="cp-") as control, tempfile.TemporaryDirectory(prefix="rt-") as remote:
        os.chmod(remote, 0o1777)
        made = Playing(tmp_path, Path(control), accounts.host, accounts.folder / "ssh_config", PYTHON)
        made.variables |= {"ansible_user": CALLER, "ansible_remote_tmp": f"{remote}/tmp"}
        made.variables["ansible_shell_allow_world_readable_temp"] = True  # su reads no module from its input
        with leaving_nothing(made):
            yield made


def tasks(method, user, password, **more):
    lines = "".join(f", {name}: {value!r}" for name, value in more.items())
    secret = "" if password is None else f', ansible_become_password: "{password}"'
    return f"become: true, become_method: {method}, become_user: {user!r}{lines}, vars: {{x: 1{secret}}}"


def result(played):
    return [
        (name, status, comparable({key: one.get(key) for key in KEYS}, "nowhere")) for name, status, one in played.tasks
    ]


def both(playing, text, *names):
    """Play it over core's ssh plugin and over roamlet; the results of the latter, if they are equal."""
    given = []
    for connection in (STOCK, ROAMLET):
        played = playing.play(text, connection, *names, **NO_MASTER)
        given.append(result(played))
    different = [(one, other) for one, other in zip(*given, strict=False) if one != other]
    assert not different, pprint.pformat(different)
    assert len(given[0]) == len(given[1])
    return played


QUESTIONS = f"""{GOES_ON}
  - {{name: sudo, command: id -un, {tasks("sudo", "root", PASSWORD)}}}
  - {{name: sudo to other, command: id -un, {tasks("sudo", OTHER, PASSWORD)}}}
  - {{name: su to other, command: id -un, {tasks("su", OTHER, PASSWORD)}}}
  - {{name: sudo again, shell: "id -un; id -Gn; umask; pwd", {tasks("sudo", OTHER, PASSWORD)}}}
  - {{name: sudo raw, raw: id -un, {tasks("sudo", OTHER, PASSWORD)}}}
  - {{name: su raw, raw: id -un, {tasks("su", OTHER, PASSWORD)}}}
  - {{name: flags, shell: 'id -un; echo "$HOME $KEPT"', {tasks("sudo", OTHER, PASSWORD, become_flags="-H -S --preserve-env=KEPT")}}}
  - {{name: login, shell: 'id -un; echo $HOME', {tasks("sudo", OTHER, PASSWORD, become_flags="-i -S")}}}
  - {{name: su login, shell: 'id -un; echo $HOME', {tasks("su", OTHER, PASSWORD, become_flags="-l")}}}
  - {{name: bad flags, command: id -un, {tasks("sudo", OTHER, PASSWORD, become_flags="--no-such-flag")}, ignore_errors: true}}
  - {{name: bad exe, command: id -un, {tasks("sudo", OTHER, PASSWORD, become_exe="/no/such/sudo")}, ignore_errors: true}}
  - {{name: without, command: id -un}}
"""


def test_right_passwords_flags_and_programs(playing):
    played = both(playing, QUESTIONS.replace("\\", "\\\\"))
    assert [played[name]["stdout"] for name in ("sudo", "sudo to other", "su to other", "without")] == [
        "root", OTHER, OTHER, CALLER,
    ]  # fmt: skip
    assert "Sorry" not in played.text


REFUSALS = f"""{PLAY}
  - {{name: wrong sudo, command: id, {tasks("sudo", "root", "wrong")}, ignore_errors: true, ignore_unreachable: true}}
  - {{name: missing sudo, command: id, {tasks("sudo", "root", None)}, ignore_errors: true, ignore_unreachable: true}}
  - {{name: wrong su, command: id, {tasks("su", OTHER, "wrong")}, ignore_errors: true, ignore_unreachable: true}}
  - {{name: wrong raw, raw: id, {tasks("sudo", OTHER, "wrong")}, ignore_errors: true, ignore_unreachable: true}}
  - {{name: missing raw, raw: id, {tasks("sudo", OTHER, None)}, ignore_errors: true, ignore_unreachable: true}}
  - {{name: after, command: id -un, {tasks("sudo", OTHER, PASSWORD)}}}
  - {{name: not asked, command: id, {tasks("sudo", OTHER, None, become_flags="-n")}, ignore_errors: true, ignore_unreachable: true}}
"""


def test_wrong_and_missing_passwords_are_named_as_core_names_them(playing):
    played = both(playing, REFUSALS)
    assert played["wrong sudo"]["msg"] == "Incorrect sudo password"
    assert played["missing sudo"]["msg"] == "Missing sudo password"
    assert played["after"]["stdout"] == OTHER


AFTERWARDS = f"""{PLAY}
  - {{name: right, command: id -un, {tasks("sudo", OTHER, PASSWORD)}}}
  - {{name: wrong, command: id -un, {tasks("sudo", OTHER, "wrong")}, ignore_errors: true, ignore_unreachable: true}}
  - {{name: missing, command: id -un, {tasks("sudo", OTHER, None)}, ignore_errors: true, ignore_unreachable: true}}
  - {{name: right again, command: id -un, {tasks("sudo", OTHER, PASSWORD)}}}
"""


def test_a_wrong_password_is_refused_after_the_right_one_too(playing):
    """The zygote of the account is there: the password that it was started with is asked for again."""
    played = both(playing, AFTERWARDS)
    assert [played.status(name) for name in ("right", "right again")] == ["ok", "ok"]
    assert played["wrong"]["msg"] == "Incorrect sudo password"
    assert played["missing"]["msg"] == "Missing sudo password"


NAMES = ["no-such-user", "a b", "$(echo none-such)", "-x", "a;id", "#61004", "it's", "ü"]


def test_names_of_users_that_are_none_fail_as_they_do_over_ssh(playing):
    playing.variables["ansible_user"] = FREE
    lines = "".join(
        f"  - {{name: n{number}-{method}, command: id -un, {tasks(method, name, PASSWORD if method == 'su' else None)},"
        " ignore_errors: true, ignore_unreachable: true}\n"
        for number, name in enumerate(NAMES)
        for method in ("sudo", *(("su",) if number in (0, 2) else ()))
    )
    both(playing, PLAY + lines.replace('"it\'s"', "it''s") + "  - {name: after, ping: }\n")


# Of pbrun's kind: it asks on its standard error, and runs its words by a shell of its own.
PBRUN = """\
#!/bin/sh
test "$1" = -u || exit 64
user=$2; shift 2
exec sudo -S -p Password: -u "$user" -- sh -c "$*"
"""


@pytest.fixture
def pbrun():
    with tempfile.TemporaryDirectory(prefix="roamlet-pbrun-") as name:
        folder = Path(name)
        folder.chmod(0o755)
        (folder / "pbrun").write_text(PBRUN)
        (folder / "pbrun").chmod(0o755)
        yield str(folder / "pbrun")


def everything(method, password, **more):
    """Tasks of each kind under another account, by a become plugin that core does not have."""
    other = tasks(method, OTHER, password, **more)
    return f"""{GOES_ON}
  - {{name: without, command: id -un}}
  - {{name: module, shell: "id -un; id -Gn; umask; pwd; echo $HOME", {other}}}
  - {{name: again, shell: 'echo "$COLOUR `id -un`"', environment: {{COLOUR: "a 'b' $c"}}, {other}}}
  - {{name: raw, raw: "id -un; echo $HOME", {other}}}
  - {{name: copy, copy: {{content: line, dest: /tmp/roamlet-{method}}}, {other}}}
  - {{name: absent, file: {{path: /tmp/roamlet-{method}, state: absent}}, {other}}}
  - {{name: fails, command: "sh -c 'exit 3'", {other}}}
  - {{name: root, command: id -un, {tasks(method, "root", password, **more)}}}
"""


def test_doas_becomes_without_a_password(playing):
    playing.variables["ansible_user"] = FREE
    played = both(playing, everything("doas", None), "-vvv")
    assert [played[name]["stdout"] for name in ("without", "root")] == [FREE, "root"]
    assert played["module"]["stdout_lines"][0] == OTHER
    assert played.text.count("> MODULE") == 8


def test_doas_asks_on_its_terminal(playing):
    """With pipelining stock's modules have none, and doas refuses; a raw command has one."""
    played = both(playing, everything("doas", PASSWORD))
    assert "doas: " in played["module"]["module_stderr"]
    assert OTHER in played["raw"]["stdout_lines"]


def test_pbrun_becomes_with_a_password(playing, pbrun):
    played = both(playing, everything("pbrun", PASSWORD, become_exe=pbrun), "-vvv")
    assert [played[name]["stdout"] for name in ("without", "root")] == [CALLER, "root"]
    assert played["module"]["stdout_lines"][0] == OTHER


def test_runas_is_refused_by_its_name(playing):
    played = playing.play(
        f"{PLAY}  - {{name: runas, command: id, {tasks('runas', OTHER, PASSWORD)}, ignore_errors: true}}\n", **NO_MASTER
    )
    assert played.status("runas") == "failed", played.text
    assert "runas" in played["runas"]["msg"]


def test_changed_accounts_groups_and_environment_files_are_seen_by_the_next_module(playing):
    playing.variables["ansible_user"] = FREE
    root, other = tasks("sudo", "root", None), tasks("sudo", OTHER, None)
    played = playing.play(
        f"""{PLAY}
  - {{name: groups, command: id -Gn, {other}}}
  - {{name: own groups, command: id -Gn}}
  - {{name: zygote, shell: "cut -d' ' -f4 /proc/$PPID/stat", {other}}}
  - {{name: join, shell: "sed -i 's/^games:.*/&{OTHER},{FREE}/' /etc/group", {root}}}
  - {{name: groups after, command: id -Gn, {other}}}
  - {{name: own groups after, command: id -Gn}}
  - {{name: name, shell: "sed -i 's|^{OTHER}:\\\\(.*\\\\):/tmp:|{OTHER}:\\\\1:/usr:|' /etc/passwd", {root}}}
  - {{name: home, shell: "echo ~; echo $HOME", {other}}}
  - {{name: same, shell: "cut -d' ' -f4 /proc/$PPID/stat", {other}}}
  - {{name: environment, shell: "echo X=1 >> /etc/environment", {root}}}
  - {{name: another, shell: "cut -d' ' -f4 /proc/$PPID/stat", {other}}}
  - {{name: still, shell: "cut -d' ' -f4 /proc/$PPID/stat", {other}}}
""",
        **NO_MASTER,
    )
    assert played.code == 0, played.text
    assert "games" not in played["groups"]["stdout"] + played["own groups"]["stdout"]
    assert "games" in played["groups after"]["stdout"]
    assert "games" in played["own groups after"]["stdout"]
    assert set(played["home"]["stdout_lines"]) == {"/usr"}
    assert played["same"]["stdout"] != played["another"]["stdout"] == played["still"]["stdout"]


def test_changed_groups_are_seen_by_what_is_no_module_in_the_warm_python(playing):
    """A session of ssh has the account's groups as they are when it begins; the context is replaced then."""
    playing.variables["ansible_user"] = FREE
    (playing.folder / "groups.sh").write_text("#!/bin/sh\nid -Gn\n")
    started = "command: id -Gn, async: 20, poll: 1"
    given = []
    for connection in (STOCK, ROAMLET):
        played = playing.play(
            f"""{PLAY}
  - {{name: before, raw: id -Gn}}
  - {{name: join, shell: "sed -i '/news/s/{FREE}$//;s/^news:.*/&{FREE}/' /etc/group", {tasks("sudo", "root", None)}}}
  - {{name: raw, raw: id -Gn}}
  - {{name: script, script: groups.sh}}
  - {{name: job, {started}}}
  - {{name: copied, command: id -Gn, vars: {{ansible_pipelining: false}}}}
  - {{name: module, command: id -Gn}}
  - {{name: variable, shell: "echo export ADDED=yes > /etc/profile.d/added.sh", {tasks("sudo", "root", None)}}}
  - {{name: login, raw: 'sh -lc "echo \\$ADDED"'}}
  - {{name: leave, shell: "sed -i '/^news/s/{FREE}$//' /etc/group", {tasks("sudo", "root", None)}}}
  - {{name: last, raw: id -Gn}}
""",
            connection,
            **NO_MASTER,
        )
        assert played.code == 0, played.text
        given.append([(name, one["stdout"].split()) for name, _, one in played.tasks])
    assert given[1] == given[0]
    assert "news" in dict(given[1])["raw"]  # beside groups that other tests have given the account


def test_an_account_that_changes_disturbs_no_task_that_runs_on_the_host(playing):
    """Each of these tasks finds its context outdated, while others run in it."""
    playing.variables["ansible_user"] = FREE
    (playing.folder / "large").write_bytes(os.urandom(5_000_000))
    root, of = f"delegate_to: t0, {tasks('sudo', 'root', None)}", "{{ inventory_hostname }}"
    played = playing.play(
        f"""{PLAY}
  - {{name: first, ping: , delegate_to: t0}}
  - {{name: command, shell: "sleep 0.{{{{ inventory_hostname[1:] }}}}; echo > /etc/profile.d/{of}.sh; sleep 1", {root}}}
  - {{name: file, copy: {{content: "x=1\\n", dest: "/etc/profile.d/x{of}.sh"}}, {root}}}
  - {{name: raw, raw: "echo > /etc/profile.d/r{of}.sh; sleep 0.5", {root}}}
  - {{name: large, copy: {{src: large, dest: "/etc/profile.d/l{of}"}}, {root}}}
""",
        hosts=6,
        ANSIBLE_FORKS="8",
        **NO_MASTER,
    )
    assert played.code == 0, played.text
    assert [status for _, status, _ in played.tasks] == ["ok"] * 30


def test_an_account_whose_modules_ran_can_be_removed(playing):
    """userdel refuses an account that has a process: its zygote has ended before."""
    playing.variables["ansible_user"] = FREE
    root, other = tasks("sudo", "root", None), tasks("sudo", "leaving", None)
    played = playing.play(
        f"""{PLAY}
  - {{name: add, command: /usr/sbin/useradd -M leaving, {root}}}
  - {{name: first, command: id -un, {other}}}
  - {{name: user, user: {{name: leaving, state: absent}}, {root}}}
  - {{name: again, command: /usr/sbin/useradd -M leaving, {root}}}
  - {{name: second, command: id -un, {other}}}
  - {{name: command, command: /usr/sbin/userdel leaving, {root}}}
""",
        **NO_MASTER,
    )
    assert played.code == 0, played.text
    assert played["first"]["stdout"] == played["second"]["stdout"] == "leaving"


def test_accounts_of_one_host_at_once(playing):
    """Two accounts, and root from both: each has processes of its own."""
    playing.variables["ansible_user"] = "{{ ['" + CALLER + "', '" + FREE + "'][inventory_hostname[1:] | int % 2] }}"
    played = playing.play(
        f"{PLAY}  - {{name: who, command: id -un}}\n"
        f"  - {{name: became, shell: 'id -un; echo $SUDO_USER', {tasks('sudo', OTHER, PASSWORD)}}}\n",
        hosts=4,
        **NO_MASTER,
    )
    assert played.code == 0, played.text
    who = sorted(one["stdout"] for name, _, one in played.tasks if name == "who")
    assert who == [CALLER, CALLER, FREE, FREE]
    became = sorted(one["stdout"] for name, _, one in played.tasks if name == "became")
    assert became == [f"{OTHER}\n{CALLER}"] * 2 + [f"{OTHER}\n{FREE}"] * 2
