"""Tunnels of ssh on a server as they run: its ends, started and stopped, and what brings them back after a change that failed.

Decides nothing: texts come from roamlet_vpn.ssh.files. An end is called call-SITE or accept-SITE; it has a script in
/etc/roamlet-vpn, and a unit of systemd, or without that a loop which calls.
"""

import glob
import hashlib
import json
import os
import pwd
import re
import signal
import time

from roamlet_vpn.host import live, system

FOLDER = "/etc/roamlet-vpn"
USER = "roamlet-vpn"
KEY = FOLDER + "/id_ed25519"
NEW = ".new"  # what the name of a key that waits ends with
SSHD = "/etc/ssh/sshd_config.d/roamlet-vpn.conf"
UNITS = "/etc/systemd/system"
UNIT = "roamlet-vpn-ssh-%s.service"
RUN = "/run"
STARTING = 10.0  # seconds for a loop to start, and for sessions to end
AGAIN = 5  # seconds until a tunnel that has ended is made anew, where a loop does it
NAME = re.compile(r"^(call|accept)-[A-Za-z0-9][A-Za-z0-9_-]*$")
DEVICE = re.compile(r"^tun\d{1,12}$")


def checked(name):
    """The name if it is one of an end. Raises ValueError."""
    if not isinstance(name, str) or not NAME.match(name):
        raise ValueError("%r is no end of a tunnel: call-SITE or accept-SITE" % (name,))
    return name


def checked_device(name):
    """The name if it is one of a tun device. Raises ValueError."""
    if not isinstance(name, str) or not DEVICE.match(name):
        raise ValueError("%r is no tun device" % (name,))
    return name


def script(name):
    return os.path.join(FOLDER, checked(name))


def unit(name):
    return UNIT % checked(name)


def path(name):
    """Where the file of this name lies: authorized_keys, known_hosts, sshd, a script, or NAME.service. Raises ValueError."""
    if name == "sshd":
        return SSHD
    if name in ("authorized_keys", "known_hosts"):
        return os.path.join(FOLDER, name)
    if name.endswith(".service"):
        return os.path.join(UNITS, unit(name[: -len(".service")]))
    return script(name)


def files():
    """The names, as path() takes them, of those that are there."""
    found = [name for name in ("authorized_keys", "known_hosts", "sshd") if os.path.exists(path(name))]
    found += [name for name in ends() if os.path.exists(script(name))]
    return found + [name + ".service" for name in ends() if os.path.exists(os.path.join(UNITS, unit(name)))]


def paths(names=()):
    """Every file that there is, keys among them, and those of these names."""
    keys = [KEY + ending for ending in ("", ".pub", NEW, NEW + ".pub")]
    return sorted(set(keys + [path(name) for name in files() + list(names)]))


def ends():
    """The names of all ends of which there is a script, a unit or a process."""
    found = glob.glob(FOLDER + "/call-*") + glob.glob(FOLDER + "/accept-*")
    found += [text.replace("roamlet-vpn-ssh-", "") for text in glob.glob(os.path.join(UNITS, UNIT % "*"))]
    found += [text.replace("roamlet-vpn-ssh-", "") for text in glob.glob(os.path.join(RUN, "roamlet-vpn-ssh-*.pid"))]
    names = [re.sub(r"\.(service|pid)$", "", os.path.basename(text)) for text in found]
    return sorted(set(name for name in names if NAME.match(name)))


def make_user():
    """The user that callers log in as."""
    if not has_user():
        system.must(["useradd", "--system", "--no-create-home", "--shell", "/usr/sbin/nologin", USER])
        # No password, which is something else than a locked account: sshd would refuse that where it runs without PAM.
        system.must(["usermod", "-p", "*", USER])


def remove_user():
    """Without him, and without what runs as him: sessions that were told to end take a moment for it."""
    deadline = time.monotonic() + STARTING
    while has_user():
        end_sessions()
        status, _, said = system.run(["userdel", USER])
        if status and has_user():
            if "currently used by process" not in said or time.monotonic() > deadline:
                raise system.CannotDo("userdel: " + system.shown(said))
            time.sleep(0.05)


def has_user():
    try:
        pwd.getpwnam(USER)
    except KeyError:
        return False
    return True


def public_half(path):
    """Of a private key of ssh, as one line without its comment; None for anything else."""
    data = system.read(path) or b""
    # By a pipe: where others may read the file, ssh-keygen would refuse it, and it is to be known which key that was.
    words = ["ssh-keygen", "-y", "-P", "", "-f", "/dev/stdin"]
    status, output, _ = system.run(words, data.decode("ascii", "replace"))
    return " ".join(output.split()[:2]) if status == 0 and output.strip() else None


# ---- what runs


def start(name, restart):
    """Have it run, now and after a restart of the server. `restart`: what runs of it is ended before."""
    if live.has_systemd():
        enable(name, True)
        system.must(["systemctl", "restart" if restart else "start", unit(name)], timeout=live.STARTING)
    elif name.startswith("accept-"):
        system.must(["sh", script(name)])
    else:
        if restart:
            stop(name)
        if not runs(name):
            # The file's time says when it was started last.
            loop = "while :; do echo $$ > '{0}.pid'; sh '{1}' 2> '{0}.said'; sleep {2}; done".format(
                _run_path(name), script(name), AGAIN
            )
            system.must(["sh", "-c", 'setsid sh -c "$1" </dev/null >/dev/null 2>&1 &', "sh", loop])
            deadline = time.monotonic() + STARTING
            while not runs(name):
                if time.monotonic() > deadline:
                    raise system.CannotDo("the loop of %s did not start" % name)
                time.sleep(0.01)
    if name.startswith("accept-"):
        end_lost_sessions()


def stop(name):
    """End what runs of it; its device stays."""
    if live.has_systemd():
        system.run(["systemctl", "stop", unit(name)], timeout=live.STARTING)
    pid = _pid(name)
    if pid:
        try:
            os.killpg(pid, signal.SIGTERM)  # the loop leads a session of its own
        except ProcessLookupError:
            pass  # it has ended already
    for ending in (".pid", ".said"):
        system.remove(_run_path(name) + ending)


def runs(name):
    """Whether a loop calls; only of interest without systemd."""
    return _pid(name) is not None


def enable(name, wanted):
    """Whether systemd starts it with the server."""
    if wanted != enabled(name):
        system.must(["systemctl", "--quiet", "enable" if wanted else "disable", unit(name)], timeout=live.STARTING)


def enabled(name):
    """Whether systemd starts it with the server; None without systemd."""
    if not live.has_systemd():
        return None
    return system.run(["systemctl", "is-enabled", "--quiet", unit(name)])[0] == 0


def active(name):
    """Whether it runs, or is about to be started again."""
    if live.has_systemd():
        said = system.run(["systemctl", "is-active", unit(name)])[1].strip()
        return said in ("active", "activating", "reloading")
    return runs(name) or (name.startswith("accept-") and os.path.exists(script(name)))


def _run_path(name):
    return os.path.join(RUN, "roamlet-vpn-ssh-" + checked(name))


def _pid(name):
    """Of its loop, if it runs."""
    pid = (system.read(_run_path(name) + ".pid") or b"").decode("ascii", "replace").strip()
    if not pid.isdigit():
        return None
    words = system.read("/proc/%s/cmdline" % pid) or b""
    return int(pid) if script(name).encode() in words else None  # else another process has that number by now


def devices():
    """The tun devices that belong to our user, by name, as ip describes them."""
    if not has_user():
        return {}
    found = json.loads(system.must(["ip", "-j", "-d", "link", "show"]) or "[]")
    return {one["ifname"]: one for one in found if owner(one) == USER}


def owner(device):
    """The owner of a tun device, as a name; None for any other device, or one without an owner."""
    about = device.get("linkinfo", {})
    return about.get("info_data", {}).get("user") if about.get("info_kind") == "tun" else None


def remove_device(name):
    """Take one of ours away."""
    if checked_device(name) in devices():
        system.must(["ip", "link", "del", "dev", name])


def end_lost_sessions():
    """End the processes of our user whose device was taken away: to their callers all would seem well for ever."""
    for pid in _processes():
        try:
            for number in os.listdir("/proc/%s/fd" % pid):
                if os.readlink("/proc/{}/fd/{}".format(pid, number)) == "/dev/net/tun":
                    about = (system.read("/proc/{}/fdinfo/{}".format(pid, number)) or b"").decode("ascii", "replace")
                    if re.search(r"(?m)^iff:\s*$", about):
                        os.kill(int(pid), signal.SIGTERM)
        except OSError:
            continue  # it has ended meanwhile


def end_sessions():
    """End all processes of our user."""
    for pid in _processes():
        try:
            os.kill(int(pid), signal.SIGTERM)
        except OSError:
            continue


def _processes():
    if not has_user():
        return []
    uid = pwd.getpwnam(USER).pw_uid
    found = []
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            status = (system.read("/proc/%s/status" % pid) or b"").decode("ascii", "replace")
        except OSError:
            continue  # it has ended meanwhile
        if re.search(r"(?m)^Uid:\s+\d+\s+%d\s" % uid, status):  # /proc/PID itself seems to be root's
            found.append(pid)
    return found


def reload_sshd():
    """Have it read its configuration; connections stay."""
    if live.has_systemd():
        for name in ("ssh", "sshd"):
            if system.run(["systemctl", "reload", name])[0] == 0:
                return
    pid = (system.read("/run/sshd.pid") or b"").decode("ascii", "replace").strip()
    if pid.isdigit():
        try:
            os.kill(int(pid), signal.SIGHUP)
        except ProcessLookupError:
            return


# ---- taking back


def keep():
    """What is there, as plain values: what halt() and restore() bring back. The caller keeps the files."""
    return {
        "user": has_user(),
        "folder": os.path.isdir(FOLDER),
        "sshd": _digest([SSHD]),
        "devices": sorted(devices()),
        "ends": {name: {"digest": _of(name), "enabled": enabled(name), "active": active(name)} for name in ends()},
    }


def halt(kept):
    """Before the files are restored: end what was not there, and what runs from other files. What it returns is restore()'s."""
    if kept["folder"]:
        make_folder()
    for name in ends():
        was = kept["ends"].get(name)
        if was is None and live.has_systemd():
            system.run(["systemctl", "--quiet", "disable", unit(name)], timeout=live.STARTING)
        if was is None or was["digest"] != _of(name):
            stop(name)
    return _digest([SSHD]) != kept["sshd"]


def restore(kept, other_sshd):
    """After the files were: the user, the devices, the units and what ran. Raises CannotDo."""
    if other_sshd:
        reload_sshd()
    for name in sorted(set(devices()) - set(kept["devices"])):
        remove_device(name)
    if kept["user"]:
        make_user()
    else:
        remove_user()
    lost = set(kept["devices"]) - set(devices())
    for name, was in sorted(kept["ends"].items()):
        if was["active"]:
            system.must(["sh", script(name), "device"])
            start(name, bool(lost) and name.startswith("call-"))
        if was["enabled"] is not None:
            enable(name, was["enabled"])
    remove_empty_folder()


def make_folder():
    if not os.path.isdir(FOLDER):
        os.makedirs(FOLDER)
    os.chmod(FOLDER, 0o755)  # sshd reads authorized_keys as the user that logs in


def remove_empty_folder():
    if os.path.isdir(FOLDER) and not os.listdir(FOLDER):
        os.rmdir(FOLDER)


def _of(name):
    """What an end runs from."""
    return _digest([script(name), os.path.join(UNITS, unit(name)), KEY])


def _digest(those):
    data = [system.read(one) for one in those]
    if not any(data):
        return None
    return hashlib.sha256(b"\0".join(one or b"" for one in data)).hexdigest()
