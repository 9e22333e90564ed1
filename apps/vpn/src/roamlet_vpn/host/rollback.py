"""What brings a server back by itself: keeps what it was, waits in a process of its own, and restores unless it is told not to.

The process is an interpreter that was given copies of some files of this folder, so it needs neither the context that started it
nor the connection: it is a unit of systemd where that is PID 1, else a daemon of its own session. Everything of one rollback is
in /run/roamlet-vpn/TOKEN, which root alone can enter:

    state.json, live.conf, 0, 1, ...    what it was: the interface, and the files by number (with keys in them)
    armed -> disarmed | now             one empty file whose name is the state; a rename decides between two processes that want it
    rolling                             it is being restored
    outcome                             how it ended, as JSON; all else is gone then
    alive, turn                         locks: of the process, and of the code that changes something
"""

import contextlib
import errno
import fcntl
import hashlib
import inspect
import json
import os
import re
import shutil
import subprocess
import sys
import time

from roamlet_vpn.host import live, names, system, tunnel

FOLDER = "/run/roamlet-vpn"
TOKEN = re.compile("^[0-9a-f]{16}$")
LONGEST = 3600.0  # seconds that a rollback may wait
PULSE = 0.2  # seconds between two looks at the state
STARTING = 10.0  # seconds in which the process must live
RESTORING = 120.0  # seconds that we wait for it to have restored everything

DISARMED = "disarmed"
ROLLED_BACK = "rolled back"
UNKNOWN = "unknown"


# ---- for code that changes something


def arm(token, interface, seconds, files, sysctls=(), networks=()):
    """Keep what this server is, and start the process that restores it in `seconds`.

    `token`, 16 hex digits, is chosen by the caller, which so knows it although the answer may be lost. `files` are paths that may
    be changed, made or removed, `sysctls` settings, `networks` those whose routes by other devices may be replaced. Raises
    CannotDo when another rollback is armed, because two people are at work then, and when the process does not come to life;
    then nothing waits.
    """
    if isinstance(seconds, bool) or not isinstance(seconds, (int, float)) or not 1 <= seconds <= LONGEST:
        raise ValueError("a rollback can wait from 1 to %d seconds, not %r" % (LONGEST, seconds))
    folder = _folder(token)
    _make_private(FOLDER)
    with _locked(os.path.join(FOLDER, "lock")):
        other = armed()
        if other is not None:
            raise system.CannotDo(
                "another change of this server waits to be confirmed: it is rolled back in %d seconds, or confirmed before. "
                "Is another change being applied? Try again then." % other["seconds_left"]
            )
        _tidy()
        os.mkdir(folder, 0o700)
        try:
            _keep(folder, interface, seconds, files, sysctls, networks)
            _write_code(os.path.join(folder, "code"))
            _put(folder, "armed", b"")
            _start(folder, token)
        except BaseException:
            shutil.rmtree(folder, ignore_errors=True)  # a process that has started after all finds nothing, and ends
            raise


@contextlib.contextmanager
def turn(token):
    """To change something only while this rollback is armed: it does not begin to restore before the block has ended.

    Raises CannotDo when it is armed no longer.
    """
    folder = _folder(token)
    with _locked(os.path.join(folder, "turn")):
        if not os.path.exists(os.path.join(folder, "armed")):
            raise system.CannotDo("the time to confirm was over, so this server has rolled back by itself meanwhile")
        yield


def disarm(token):
    """What was changed stays. Returns DISARMED, ROLLED_BACK when it was too late, or UNKNOWN; may be asked twice."""
    folder = _folder(token)
    if _renamed(folder, "armed", "disarmed"):
        _finish(folder, {"outcome": DISARMED, "errors": []})
    return _outcome(token)["outcome"]


def roll_back(token):
    """Restore now, and wait until that is done. Returns a dict: its `outcome` and `errors`, what could not be restored.

    The outcome is DISARMED when it was confirmed before, and UNKNOWN where no such rollback is: it was never armed, or the server
    was restarted since. May be asked twice.
    """
    folder = _folder(token)
    _renamed(folder, "armed", "now")
    return _outcome(token)


def armed():
    """The rollback that waits, as a dict of `token` and `seconds_left`; None when none does. Needs root to see it."""
    try:
        names = os.listdir(FOLDER)
    except OSError as error:
        if error.errno in (errno.ENOENT, errno.EACCES):
            return None
        raise
    for name in sorted(names):
        folder = os.path.join(FOLDER, name)
        if TOKEN.match(name) and os.path.exists(os.path.join(folder, "armed")) and _lives(folder):
            state = _state(folder)
            return {"token": name, "seconds_left": max(0.0, state["deadline"] - time.monotonic())}
    return None


def _outcome(token):
    """How it ended, once it has. Does what the process should do if that is no longer there."""
    folder = _folder(token)
    deadline = time.monotonic() + RESTORING
    while time.monotonic() < deadline:
        data = system.read(os.path.join(folder, "outcome"))
        if data is not None:
            return json.loads(data.decode("utf-8"))
        if not os.path.isdir(folder):
            return {"outcome": UNKNOWN, "errors": []}
        if not _lives(folder) and _begin(folder):
            return _restore(folder)
        time.sleep(PULSE / 4)
    raise system.CannotDo("the rollback %s did not end within %d seconds" % (token, RESTORING))


# ---- what it was


def _keep(folder, interface, seconds, files, sysctls, networks):
    there = live.exists(interface)
    state = {
        "interface": system.checked_interface(interface),
        "files": {},
        "sysctls": {name: live.sysctl(name) for name in sysctls},
        "enabled": live.enabled(interface),
        "names": names.runs(interface),
        "tunnels": tunnel.keep(),
        "live": None,
        "networks": sorted(set(networks)),
        "elsewhere": [
            found for network in sorted(set(networks)) for found in live.routes_elsewhere(interface, network)
        ],
    }
    for number, path in enumerate(files):
        data = system.read(path)
        if data is not None:
            _put(folder, str(number), data)
            about = os.stat(path)
            state["files"][path] = {
                "number": number, "mode": about.st_mode & 0o7777, "owner": [about.st_uid, about.st_gid]
            }  # fmt: skip
        else:
            state["files"][path] = None
    if there:
        configuration = live.configuration(interface).encode("utf-8")
        _put(folder, "live.conf", configuration)
        state["live"] = {
            "sha256": hashlib.sha256(configuration).hexdigest(),
            "addresses": live.addresses(interface),
            "routes": live.routes(interface),
            "mtu": live.mtu(interface),
        }
    state["deadline"] = time.monotonic() + seconds
    _put(folder, "state.json", json.dumps(state).encode("utf-8"))


def _write_code(folder):
    """Copies of the files that the process runs: it cannot ask for them once the connection is gone."""
    inner = os.path.join(folder, "roamlet_vpn", "host")
    os.makedirs(inner)
    for path in (os.path.dirname(inner), inner):
        system.write(os.path.join(path, "__init__.py"), b"", 0o600)
    for module in (system, live, names, tunnel, sys.modules[__name__]):
        name = module.__name__.rpartition(".")[2] + ".py"
        system.write(os.path.join(inner, name), inspect.getsource(module).encode("utf-8"), 0o600)
    main = "import sys\nfrom roamlet_vpn.host import rollback\nrollback.main(sys.argv[1:])\n"
    system.write(os.path.join(folder, "__main__.py"), main.encode("ascii"), 0o600)


# ---- the process


def _start(folder, token):
    """Start the process and wait until it lives."""
    code = os.path.join(folder, "code")
    words = [sys.executable or "python3", "-E", "-s", "-B", code, folder]
    if not (live.has_systemd() and _by_systemd(words, token)):
        nothing = os.open(os.devnull, os.O_RDWR)
        try:
            # It forks once more, so that it is not a child of this process; a session of its own outlives the connection.
            first = subprocess.Popen(
                words + ["daemon"], stdin=nothing, stdout=nothing, stderr=nothing, cwd="/", start_new_session=True
            )
        finally:
            os.close(nothing)
        first.wait()
    deadline = time.monotonic() + STARTING
    while not (_lives(folder) and os.path.exists(os.path.join(folder, "ready"))):
        if time.monotonic() > deadline:
            raise system.CannotDo("the process that would roll back did not start, so nothing was changed here")
        time.sleep(0.01)


def _by_systemd(words, token):
    if system.found("systemd-run") is None:
        return False
    # On failure it is started anew, and goes on where it was: a restoration can be done twice.
    options = ["--quiet", "--collect", "--unit=roamlet-vpn-rollback-" + token, "-p", "Restart=on-failure"]
    return system.run(["systemd-run"] + options + ["--"] + words)[0] == 0


def main(words):
    """The process: wait for the end of the time or a word, then restore or not."""
    folder = words[0]
    if words[1:] == ["daemon"] and os.fork():
        os._exit(0)
    try:
        alive = open(os.path.join(folder, "alive"), "a")
        fcntl.flock(alive, fcntl.LOCK_EX)
        _put(folder, "ready", b"")
        while not _begin(folder):
            if not os.path.exists(os.path.join(folder, "armed")):
                return
            time.sleep(PULSE)
    except FileNotFoundError:
        return  # it was disarmed, and all of it is gone
    _restore(folder)


def _begin(folder):
    """Whether it is time to restore, and ours to do."""
    if os.path.exists(os.path.join(folder, "outcome")):
        return False
    if os.path.exists(os.path.join(folder, "rolling")):  # the process that began has died
        return True
    if _renamed(folder, "now", "rolling"):
        return True
    state = _state(folder)
    return time.monotonic() >= state["deadline"] and _renamed(folder, "armed", "rolling")


def _restore(folder):
    """Bring back everything that was kept; what fails keeps nothing else from it. Can be done twice."""
    state = _state(folder)
    errors = []

    def attempt(what, function, *args):
        try:
            return function(*args)
        except (system.CannotDo, OSError, ValueError) as error:
            errors.append(system.shown("%s: %s" % (what, error)))
            return None

    with _locked(os.path.join(folder, "turn"), RESTORING / 2):
        if state["live"] is None:  # first, because what takes it down reads the configuration that it came from
            attempt("the interface", live.stop, state["interface"])
        if live.has_systemd() and not state["names"] and names.runs(state["interface"]):
            attempt("the timer", names.stop, state["interface"])
        other_sshd = attempt("the ssh tunnels", tunnel.halt, state["tunnels"])
        for path, kept in sorted(state["files"].items()):
            attempt(path, _restore_file, folder, path, kept)
        if live.has_systemd():
            attempt("systemctl", system.must, ["systemctl", "daemon-reload"])
        for name, value in sorted(state["sysctls"].items()):
            if value is not None:
                attempt(name, live.set_sysctl, name, value)
        if state["enabled"] is not None:
            attempt("the unit", live.set_enabled, state["interface"], state["enabled"])
        if state["names"]:
            attempt("the timer", names.start, state["interface"])
        attempt("the ssh tunnels", tunnel.restore, state["tunnels"], other_sshd)
        if state["live"] is not None:
            _restore_live(folder, state, attempt)
        attempt("routes", live.set_routes_elsewhere, state["interface"], state["networks"], state["elsewhere"])
        attempt("routes", live.release_routes)  # last: what was held goes on by the held way until its own is back
    outcome = {"outcome": ROLLED_BACK, "errors": errors}
    _finish(folder, outcome)
    return outcome


def _restore_file(folder, path, kept):
    if kept is None:
        system.remove(path)
        return
    data = system.read(os.path.join(folder, str(kept["number"])))
    if data is not None and data != system.read(path):
        system.write(path, data, kept["mode"])
        about = os.stat(path)
        if [about.st_uid, about.st_gid] != kept["owner"]:
            os.chown(path, *kept["owner"])


def _restore_live(folder, state, attempt):
    interface, was = state["interface"], state["live"]
    if not live.exists(interface):
        attempt("the interface", live.start, interface)
    data = system.read(os.path.join(folder, "live.conf")) or b""
    if hashlib.sha256(data).hexdigest() == was["sha256"]:
        attempt("keys and peers", live.sync, interface, data.decode("utf-8"))
    attempt("addresses", live.set_addresses, interface, was["addresses"])
    attempt("MTU", live.set_mtu, interface, was["mtu"])
    attempt("routes", live.set_routes, interface, [(family, words) for family, words in was["routes"]])


# ---- files


def _folder(token):
    if not isinstance(token, str) or not TOKEN.match(token):
        raise ValueError("%r is no token of a rollback" % (token,))
    return os.path.join(FOLDER, token)


def _state(folder):
    data = system.read(os.path.join(folder, "state.json"))
    if data is None:
        raise FileNotFoundError(errno.ENOENT, "it was disarmed", folder)
    return json.loads(data.decode("utf-8"))


def _put(folder, name, data):
    system.write(os.path.join(folder, name), data, 0o600)


def _make_private(folder):
    """A folder of root's own. Raises CannotDo for one that another user has made."""
    with contextlib.suppress(FileExistsError):
        os.mkdir(folder, 0o700)
    about = os.lstat(folder)
    if not os.path.isdir(folder) or os.path.islink(folder) or about.st_uid != os.geteuid() or about.st_mode & 0o077:
        raise system.CannotDo("%s belongs to another user or is open to others: look at it, and remove it" % folder)


def _renamed(folder, name, to):
    try:
        os.rename(os.path.join(folder, name), os.path.join(folder, to))
    except FileNotFoundError:
        return False
    return True


def _finish(folder, outcome):
    """Say how it ended, and remove all that was kept: there are keys in it."""
    with contextlib.suppress(FileNotFoundError):
        if not os.path.exists(os.path.join(folder, "outcome")):
            _put(folder, "outcome", json.dumps(outcome).encode("utf-8"))
    for name in os.listdir(folder):
        path = os.path.join(folder, name)
        if name not in ("outcome", "alive"):
            if os.path.isdir(path):
                shutil.rmtree(path, ignore_errors=True)
            else:
                system.remove(path)


def _tidy():
    """Remove what former rollbacks have left, those of processes that were killed among them."""
    for name in os.listdir(FOLDER):
        if TOKEN.match(name):
            shutil.rmtree(os.path.join(FOLDER, name), ignore_errors=True)


def _lives(folder):
    """Whether its process does: it holds a lock as long."""
    try:
        descriptor = os.open(os.path.join(folder, "alive"), os.O_RDWR)
    except FileNotFoundError:
        return False
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        if error.errno in (errno.EAGAIN, errno.EACCES):
            return True
        raise
    finally:
        os.close(descriptor)
    return False


@contextlib.contextmanager
def _locked(path, patience=system.PATIENCE):
    """Hold the lock of a file, waiting for it so many seconds at the most; then go on without it, as its holder hangs."""
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
    try:
        deadline = time.monotonic() + patience
        while True:
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except OSError as error:
                if error.errno not in (errno.EAGAIN, errno.EACCES):
                    raise
            if time.monotonic() > deadline:
                break
            time.sleep(0.02)
        yield
    finally:
        os.close(descriptor)
