"""Tunnels of ssh on a server: its key, the user whom others log in as, the units that keep calling. Needs root.

Runs on the server: standard library, Python 3.6 and later. What the scripts do is decided in weft_vpn.ssh_backend.
"""

import glob
import os
import re
import signal

from weft_vpn.host import system

FOLDER = "/etc/weft-vpn"
USER = "weft-vpn"
KEY = FOLDER + "/id_ed25519"
SSHD = "/etc/ssh/sshd_config.d/weft-vpn.conf"
UNITS = "/etc/systemd/system"
RUN = "/run"
AGAIN = 5  # seconds until a tunnel that has ended is made anew

MATCH = """\
# Written by weft vpn: the user that tunnels log in as, who may do nothing else.
Match User {user}
    AuthorizedKeysFile {folder}/authorized_keys
    PermitTunnel point-to-point
    AllowTcpForwarding no
    X11Forwarding no
    PermitTTY no
    ForceCommand /bin/false
    ClientAliveInterval 5
    ClientAliveCountMax 3
Match all
"""
# A caller is started again for ever: a line that is down for ten minutes would else use up all the starts that systemd allows.
CALLING = """\
[Unit]
Description=weft vpn: ssh tunnel to {name}
After=network-online.target
Wants=network-online.target
StartLimitIntervalSec=0

[Service]
ExecStart=/bin/sh {script}
Restart=always
RestartSec={again}

[Install]
WantedBy=multi-user.target
"""
ACCEPTING = """\
[Unit]
Description=weft vpn: device of the ssh tunnel from {name}
After=network.target

[Service]
Type=oneshot
RemainAfterExit=yes
ExecStart=/bin/sh {script}

[Install]
WantedBy=multi-user.target
"""


def identity():
    """{"key": the public key that this server calls with, "host_keys": those that its sshd shows}. Makes what is missing."""
    os.makedirs(FOLDER, 0o755, exist_ok=True)
    if not os.path.exists(KEY):
        system.must(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", "weft-vpn", "-f", KEY])
    if system.run(["id", "-u", USER])[0]:
        system.must(["useradd", "--system", "--no-create-home", "--shell", "/usr/sbin/nologin", USER])
        # No password, which is something else than a locked account: sshd would refuse that where it runs without PAM.
        system.must(["usermod", "-p", "*", USER])
    host_keys = [_public(path) for path in sorted(glob.glob("/etc/ssh/ssh_host_*_key.pub"))]
    return {"key": _public(KEY + ".pub"), "host_keys": host_keys or _derived()}


def accept(order):
    """Let the callers in: their keys, each for its device alone, and the devices."""
    if not order["accepts"]:
        return
    _put("authorized_keys", order["allowed"], 0o644)
    before = system.read(SSHD)
    text = MATCH.format(user=USER, folder=FOLDER)
    if before != text.encode():
        system.write(SSHD, text.encode(), 0o644)
        try:
            system.must(["sshd", "-t"])
        except system.CannotDo:
            system.remove(SSHD)
            raise
        _reload_sshd()
    for name, script in sorted(order["accepts"].items()):
        path = _put("accept-" + _checked(name), script, 0o644)
        _start(name, ACCEPTING, path, False)
    return


def call(order):
    """Call the others, and go on calling."""
    if order["calls"]:
        _put("known_hosts", order["known"], 0o644)
    for name, script in sorted(order["calls"].items()):
        path = _put("call-" + _checked(name), script, 0o644)
        _start(name, CALLING, path, True)
    return


def remove():
    """Take all of it away."""
    for path in glob.glob(UNITS + "/weft-vpn-ssh-*.service"):
        system.run(["systemctl", "disable", "--now", os.path.basename(path)])
        system.remove(path)
    for path in glob.glob(RUN + "/weft-vpn-ssh-*.pid"):
        _end(path)
    for path in glob.glob(FOLDER + "/call-*") + glob.glob(FOLDER + "/accept-*"):
        for device in re.findall(r"ip tuntap add dev (tun\d+) ", (system.read(path) or b"").decode()):
            system.run(["ip", "link", "del", device])
        system.remove(path)
    if os.path.exists(SSHD):
        system.remove(SSHD)
        _reload_sshd()
    for name in ("authorized_keys", "known_hosts", "id_ed25519", "id_ed25519.pub"):
        system.remove(os.path.join(FOLDER, name))
    if not system.run(["id", "-u", USER])[0]:
        system.run(["userdel", USER])
    if os.path.isdir(FOLDER) and not os.listdir(FOLDER):
        os.rmdir(FOLDER)
    return


def _start(name, unit, script, is_call):
    """By systemd where it runs; else the script itself, and a loop around one that calls."""
    if os.path.isdir("/run/systemd/system"):
        service = "weft-vpn-ssh-%s.service" % name
        text = unit.format(name=name, script=script, again=AGAIN).encode()
        path = os.path.join(UNITS, service)
        if system.read(path) != text:
            system.write(path, text, 0o644)
            system.must(["systemctl", "daemon-reload"])
        system.must(["systemctl", "enable", service])
        system.must(["systemctl", "start" if is_call else "restart", service])
    elif not is_call:
        system.must(["sh", script])
    else:
        pid = os.path.join(RUN, "weft-vpn-ssh-%s.pid" % name)
        if not _runs(pid):
            loop = "echo $$ > '%s'; while :; do sh '%s'; sleep %d; done" % (pid, script, AGAIN)
            system.must(["sh", "-c", 'setsid sh -c "$1" </dev/null >/dev/null 2>&1 &', "sh", loop])


def _runs(path):
    pid = (system.read(path) or b"").decode().strip()
    return pid.isdigit() and os.path.exists("/proc/" + pid)


def _end(path):
    pid = (system.read(path) or b"").decode().strip()
    if pid.isdigit():
        try:
            os.killpg(int(pid), signal.SIGTERM)  # the loop leads a session of its own
        except ProcessLookupError:
            pass  # it has ended already
    system.remove(path)


def _put(name, text, mode):
    """A file in the folder, unless it is there as it should be; returns its path."""
    path = os.path.join(FOLDER, name)
    if system.read(path) != text.encode():
        system.write(path, text.encode(), mode)
    return path


def _checked(name):
    if not re.match(r"^[A-Za-z0-9][A-Za-z0-9_-]*$", name):
        raise ValueError("%r is no name of a site" % name)
    return name


def _public(path):
    words = (system.read(path) or b"").decode().split()
    if len(words) < 2:
        raise system.CannotDo("%s holds no public key" % path)
    return " ".join(words[:2])


def _derived():
    """Public host keys where only the private ones lie there."""
    paths = sorted(glob.glob("/etc/ssh/ssh_host_*_key"))
    found = [" ".join(system.must(["ssh-keygen", "-y", "-f", path]).split()[:2]) for path in paths]
    if not found:
        raise system.CannotDo("there is no host key in /etc/ssh: is there an sshd on this server?")
    return found


def _reload_sshd():
    """Have it read its configuration; connections stay."""
    if os.path.isdir("/run/systemd/system"):
        for unit in ("ssh", "sshd"):
            if not system.run(["systemctl", "reload", unit])[0]:
                return
    pid = (system.read("/run/sshd.pid") or b"").decode().strip()
    if pid.isdigit():
        os.kill(int(pid), signal.SIGHUP)
