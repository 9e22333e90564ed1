"""Carries out the actions of a plan for tunnels of ssh (roamlet_vpn.ssh.actions); host/act.py calls them. Decides nothing."""

import hashlib
import os
import re

from roamlet_vpn.host import forward, live, system, tunnel


def make_identity(interface):
    """The public half of the key that waits for its turn; it is made if missing, and its private half stays here."""
    tunnel.make_folder()
    if not system.read(tunnel.KEY + tunnel.NEW):
        for ending in ("", ".pub"):
            system.remove(tunnel.KEY + tunnel.NEW + ending)
        words = ["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", "roamlet-vpn"]
        system.must([*words, "-f", tunnel.KEY + tunnel.NEW])
    os.chmod(tunnel.KEY + tunnel.NEW, 0o600)
    return tunnel.public_half(tunnel.KEY + tunnel.NEW)


def _identity(interface, action):
    make_identity(interface)


def _use_identity(interface, action):
    new = tunnel.KEY + tunnel.NEW
    if os.path.exists(tunnel.KEY) and tunnel.public_half(tunnel.KEY) == action["public"]:
        os.chmod(tunnel.KEY, 0o600)
        return
    data = system.read(new)
    if data is None or tunnel.public_half(new) != action["public"]:
        raise system.CannotDo("the key %s for ssh is not on this server: plan again" % action["public"][-20:])
    system.write(tunnel.KEY + ".pub", (action["public"] + " roamlet-vpn\n").encode("ascii"), 0o644)
    system.write(tunnel.KEY, data, 0o600)
    for ending in ("", ".pub"):
        system.remove(new + ending)


def _user(interface, action):
    tunnel.make_user()


def _file(interface, action):
    name = action["name"]
    path = tunnel.path(name)
    data = system.read(path)
    wanted = None if action["text"] is None else action["text"].encode("utf-8")
    if data == wanted:
        return
    if (None if data is None else hashlib.sha256(data).hexdigest()) != action["before"]:
        raise system.CannotDo("%s was changed since the plan was made: look at it, and plan again" % path)
    tunnel.make_folder()
    if not os.path.isdir(os.path.dirname(path)):
        os.makedirs(os.path.dirname(path))
    if wanted is None:
        system.remove(path)
    else:
        system.write(path, wanted, 0o644)
    if name == "sshd":
        _check_sshd(wanted is not None)
        tunnel.reload_sshd()
    elif name.endswith(".service") and live.has_systemd():
        system.must(["systemctl", "daemon-reload"])


def _check_sshd(wanted):
    """Whether sshd will have it so. Raises CannotDo; the rollback takes the file back then."""
    program = system.found("sshd") or "/usr/sbin/sshd"
    system.must([program, "-t"])
    said = system.must([program, "-T", "-C", "user=%s,host=localhost,addr=127.0.0.1" % tunnel.USER])
    if wanted and "permittunnel point-to-point" not in said.lower():
        raise system.CannotDo(
            "sshd does not read %s: its sshd_config has no line for that folder, or something before it wins. Put "
            "`Include /etc/ssh/sshd_config.d/*.conf` at the top of /etc/ssh/sshd_config" % tunnel.SSHD
        )


def _device(interface, action):
    name, device = tunnel.checked(action["name"]), tunnel.checked_device(action["device"])
    if action["anew"] and live.exists(device):
        system.must(["ip", "link", "del", "dev", device])
    if live.exists(device):
        for network in action["routes"]:
            short = re.sub(r"/(32|128)$", "", network)  # as ip shows the route to a single address
            for family, words in live.routes(device):
                if words[0] in (network, short):
                    system.must(["ip", "-%d" % family, "route", "del"] + words + ["dev", device])
        for address in live.addresses(device):
            if address.partition("/")[0] in action["addresses"]:
                system.must(["ip", "address", "del", address, "dev", device])
    system.must(["sh", tunnel.script(name), "device"])
    tunnel.end_lost_sessions()


def _run(interface, action):
    tunnel.start(tunnel.checked(action["name"]), action["restart"])


def _remove(interface, action):
    name = tunnel.checked(action["name"])
    service = tunnel.path(name + ".service")
    if live.has_systemd() and os.path.exists(service):
        tunnel.enable(name, False)
    tunnel.stop(name)
    system.remove(tunnel.script(name))
    if os.path.exists(service):
        system.remove(service)
        system.must(["systemctl", "daemon-reload"])


def _remove_device(interface, action):
    tunnel.remove_device(action["device"])
    tunnel.end_lost_sessions()


def _down(interface, action):
    for name in tunnel.ends():
        _remove(interface, {"name": name})
    for device in sorted(tunnel.devices()):
        tunnel.remove_device(device)
    if os.path.exists(tunnel.SSHD):
        system.remove(tunnel.SSHD)
        tunnel.reload_sshd()
    for path in tunnel.paths():
        system.remove(path)
    tunnel.remove_user()
    tunnel.remove_empty_folder()
    # WireGuard, to which the network has gone over, needs it too.
    if system.read(system.config_path(interface)) is None:
        forward.put_back(interface)


ACTIONS = {
    "tunnel_identity": _identity,
    "tunnel_use_identity": _use_identity,
    "tunnel_user": _user,
    "tunnel_file": _file,
    "tunnel_device": _device,
    "tunnel_run": _run,
    "tunnel_remove": _remove,
    "tunnel_remove_device": _remove_device,
    "tunnel_down": _down,
}
