"""Carries out the actions of a plan on this server, with a rollback armed before the first one. Decides nothing.

roamlet_vpn.wireguard.actions describes each action; each is right to do twice, and between any two of them the server runs the
old configuration or the new one.
"""

import difflib
import hashlib
import os
import re
import socket
import threading

from roamlet_vpn.host import forward, live, names, rollback, system, tunnel, tunnel_act

RESOLVING = 5.0  # seconds for a name of an endpoint
ASIDE = ".removed"  # what the name of a configuration ends with that roamlet vpn has put out of use
# What wg-quick takes out of a configuration before wg sees it.
_OF_WG_QUICK = (
    "address", "mtu", "dns", "table", "preup", "postup", "predown", "postdown", "saveconfig",
)  # fmt: skip


def act(interface, actions, token, rollback_after):
    """Arm a rollback, then do `actions` in their order; the rollback waits for rollback.disarm(token) from a fresh connection.

    Returns a dict:
    `done`    how many actions were done
    `error`   None, or why the next one failed: then all was rolled back, and
    `outcome` is the result of rollback.roll_back(); None otherwise

    Blocks until all is done, seconds at the most. Raises ValueError for what is no action before anything is changed, CannotDo when
    the rollback cannot be armed.
    """
    system.checked_interface(interface)
    steps = [(_DO[_what(action)], action) for action in actions]
    if not steps:
        return {"done": 0, "error": None, "outcome": None}
    devices = [device for action in actions for device in action.get("accept_ra", ())]
    networks = [network for action in actions if action["do"] == "routes" for network in action["add"]]
    networks += [route[0] for action in actions if action["do"] == "hold" for route in action["routes"]]
    rollback.arm(token, interface, rollback_after, _files(interface, actions), forward.settings(devices), networks)
    done = 0
    try:
        for function, action in steps:
            with rollback.turn(token):
                function(interface, action)
            done += 1
    except (system.CannotDo, OSError, ValueError, KeyError, TypeError) as error:
        outcome = rollback.roll_back(token)
        why = "{}: {}".format(actions[done]["do"], system.shown(str(error)) or type(error).__name__)
        return {"done": done, "error": why, "outcome": outcome}
    return {"done": done, "error": None, "outcome": None}


def make_key(interface):
    """The public key of the private key that waits in INTERFACE.key; it is made if missing, and never leaves this host."""
    path = system.key_path(interface)
    private = _waiting_key(interface)
    if not private:
        system.with_folder(system.FOLDER)
        private = system.must(["wg", "genkey"]).strip()
        system.write(path, private.encode("ascii") + b"\n", 0o600)
    elif os.stat(path).st_mode & 0o077:
        os.chmod(path, 0o600)
    return system.public_key(private)


def _what(action):
    if not isinstance(action, dict) or action.get("do") not in _DO:
        raise ValueError("{!r} is no action; is it of another version of roamlet?".format(action))
    return action["do"]


def _files(interface, actions):
    """Every file that an action may touch."""
    config = system.config_path(interface)
    tunnels = tunnel.paths([action["name"] for action in actions if action["do"] == "tunnel_file"])
    return [config, _aside(config), system.key_path(interface), forward.SYSCTL_FILE] + names.paths() + tunnels


# ---- the actions


def _make_key(interface, action):
    make_key(interface)


def _write_config(interface, action):
    """The configuration with the keys of this host in it, where the plan has seen it last."""
    path = system.config_path(interface)
    data = system.read(path)
    text = _with_keys(interface, action, (data or b"").decode("utf-8", "surrogateescape"))
    wanted = text.encode("utf-8", "surrogateescape")
    if data != wanted:
        before = None if data is None else hashlib.sha256(data).hexdigest()
        if before != action["before"]:
            raise system.CannotDo("%s was changed since the plan was made: look at it, and plan again" % path)
        system.with_folder(system.FOLDER)
        system.write(path, wanted, 0o600)
    _protect_config(interface, action)
    if _waiting_key(interface) == system.private_key_in(text):
        system.remove(system.key_path(interface))


def _with_keys(interface, action, old):
    """The action's text with this host's keys in place of their placeholders. Raises CannotDo if one is not to be found here.

    Other lines that are as the plan has seen them become what they are: there may be a key in them too, in a comment for one.
    """
    private, public_key = "", action["public_key"]
    for candidate in (system.private_key_in(old), _waiting_key(interface)):
        if candidate and system.public_key(candidate) == public_key:
            private = candidate
    if not private:
        raise system.CannotDo("the private key of %s is not on this server: plan again" % public_key)
    shared = _preshared(old)
    rotated = action.get("preshared_from") or {}
    shared.update((new, shared[was]) for new, was in dict(rotated).items() if was in shared)
    lines = action["text"].split("\n")
    originals = _originals(old, lines)
    for number, line, name, value, peer in _settings(lines):
        if name in ("privatekey", "presharedkey") and value == system.KEPT:
            key = private if name == "privatekey" else shared.get(peer)
            if not key:
                raise system.CannotDo("the preshared key for the peer %s is not on this server" % peer)
            setting, sign, comment = line.partition("#")
            comment = originals.get(number, line).partition("#")[2]
            lines[number] = setting.replace(system.KEPT, key, 1) + sign + comment
        elif number in originals:
            lines[number] = originals[number]
        elif system.KEPT in line.split("#", 1)[0]:
            raise system.CannotDo(
                "the line {!r} holds a key that stayed on this server, and this server does not know which: "
                "put that key into a file of its own, and name the file".format(system.shown(line, 120))
            )
    whole = "\n".join(lines)
    if system.private_key_in(whole) != private:
        raise system.CannotDo("the configuration to be written has no PrivateKey, so it was not written")
    return whole


def _originals(old, lines):
    """The lines of the configuration as they are, by the number of the line of the new one that shows them without their keys."""
    shown = system.as_shown(
        old.encode("utf-8", "surrogateescape").decode("utf-8", "replace"), system.public_key(system.private_key_in(old))
    ).split("\n")
    was = old.split("\n")
    same = difflib.SequenceMatcher(None, shown, lines, False).get_matching_blocks()
    return {there + step: was[here + step] for here, there, size in same for step in range(size)}


def _waiting_key(interface):
    private = (system.read(system.key_path(interface)) or b"").decode("ascii", "replace").strip()
    return private if system.is_key(private) else ""


def _settings(lines):
    """Each line with its number, the name and the value that it sets, "" without, and the public key of its section, as for wg."""
    key = None
    for number, line in enumerate(lines):
        name, value = _assignment(line)
        if name.startswith("["):
            key = _key_of_section(lines, number)
        yield number, line, name, value, key


def _assignment(line):
    name, _, value = line.split("#", 1)[0].partition("=")
    return name.strip().lower(), value.strip()


def _key_of_section(lines, header):
    """The public key that the section which begins in that line names last."""
    key = None
    for line in lines[header + 1 :]:
        name, value = _assignment(line)
        if name.startswith("["):
            break
        if name == "publickey":
            key = value
    return key


def _preshared(text):
    """The preshared keys of a configuration by the public key of their peer."""
    found = _settings(text.split("\n"))
    return {peer: value for _, _, name, value, peer in found if name == "presharedkey" and system.is_key(value)}


def _protect_config(interface, action):
    path = system.config_path(interface)
    about = os.stat(path)
    if about.st_mode & 0o7777 != 0o600:
        os.chmod(path, 0o600)
    if about.st_uid != 0 and os.geteuid() == 0:
        os.chown(path, 0, 0)


def _up(interface, action):
    if not live.exists(interface):
        stripped(interface)  # raises for a configuration that would make an interface without a key
        live.start(interface)
    if action["mtu"] is not None:
        live.set_mtu(interface, action["mtu"])


def _link_up(interface, action):
    system.must(["ip", "link", "set", "dev", interface, "up"])


def _sync(interface, action):
    live.sync(interface, stripped(interface, action["keep_endpoints"]))


def stripped(interface, keep_endpoints=()):
    """The configuration as wg takes it: without what is wg-quick's, and without the endpoints of the peers `keep_endpoints`.

    Endpoints that are names are resolved here; for one that does not resolve the peer keeps the endpoint that it has, rather
    than that nothing at all can be set. Raises CannotDo when there is no configuration, or none with a key.
    """
    data = system.read(system.config_path(interface))
    if data is None:
        raise system.CannotDo("there is no %s" % system.config_path(interface))
    text = data.decode("utf-8", "replace")
    if not system.is_key(system.private_key_in(text)):
        raise system.CannotDo("%s has no valid PrivateKey, and was not used" % system.config_path(interface))
    kept = []
    for _, line, name, value, peer in _settings(text.split("\n")):
        bare = line.split("#", 1)[0].strip()
        if name == "endpoint":
            endpoint = None if peer in keep_endpoints else _resolved(value)
            if endpoint:
                kept.append("Endpoint = " + endpoint)
        elif bare and name not in _OF_WG_QUICK:
            kept.append(bare)
    return "\n".join(kept) + "\n"


def _resolved(endpoint):
    """HOST:PORT with an address as the host; None when the name does not resolve now."""
    host, _, port = endpoint.rpartition(":")
    if re.match(r"^([0-9.]+|\[.*\])$", host):
        return endpoint
    answers = []

    def resolve():
        try:
            answers.extend(socket.getaddrinfo(host, int(port), 0, socket.SOCK_DGRAM))
        except (OSError, UnicodeError, ValueError):
            return

    asking = threading.Thread(target=resolve, daemon=True)  # nothing else can end a look-up
    asking.start()
    asking.join(RESOLVING)
    if not answers:
        return None
    address = answers[0][4][0]
    return ("[%s]:%s" if ":" in address else "%s:%s") % (address, port)


def _addresses(interface, action):
    there = live.addresses(interface)
    wanted = [address for address in there if address not in action["remove"]]
    live.set_addresses(interface, wanted + [address for address in action["add"] if address not in wanted])


def _mtu(interface, action):
    live.set_mtu(interface, action["mtu"])


def _routes(interface, action):
    for network in action["add"]:
        system.must(["ip", _family(network), "route", "replace", network, "dev", interface])
    for network in action["remove"]:
        short = re.sub(r"/(32|128)$", "", network)  # as ip shows the route to a single address
        if any(words[0] in (network, short) for _, words in live.routes(interface)):
            system.must(["ip", _family(network), "route", "del", network, "dev", interface])


def _family(network):
    return "-6" if ":" in network else "-4"


def _hold(interface, action):
    live.release_routes()  # so that it can be done twice
    live.hold_routes(interface, [(to, forward.checked_device(device), via) for to, device, via in action["routes"]])


def _forwarding(interface, action):
    forward.turn_on(action["family"], action["accept_ra"], action["live"], action["persistent"])


def _enable_unit(interface, action):
    if action["name"] != live.unit(interface):
        raise ValueError("%r is not the unit of %s" % (action["name"], interface))
    live.set_enabled(interface, True)


def _follow_names(interface, action):
    if action["wanted"]:
        names.start(interface)
    else:
        names.stop(interface)


def _aside(path):
    """The new name of the configuration: beside those that were renamed before, which may hold other keys."""
    data = system.read(path)
    number = 1
    while True:
        aside = path + ASIDE + (".%d" % number if number > 1 else "")
        if system.read(aside) in (None, data):
            return aside
        number += 1


def _down(interface, action):
    names.stop(interface)
    if live.enabled(interface):
        live.set_enabled(interface, False)
    live.stop(interface)
    if not action["keep_config"]:
        path = system.config_path(interface)
        data = system.read(path)
        # The key in it may be the only proof of this server's identity: it is renamed, not destroyed.
        if data is not None:
            system.write(_aside(path), data, 0o600)
            system.remove(path)
        system.remove(system.key_path(interface))
        if not tunnel.ends():  # packets are passed on for them too
            forward.put_back(interface)


_DO = {
    "make_key": _make_key,
    "write_config": _write_config,
    "protect_config": _protect_config,
    "up": _up,
    "link_up": _link_up,
    "sync": _sync,
    "addresses": _addresses,
    "mtu": _mtu,
    "routes": _routes,
    "hold": _hold,
    "forwarding": _forwarding,
    "enable_unit": _enable_unit,
    "follow_names": _follow_names,
    "down": _down,
}
_DO.update(tunnel_act.ACTIONS)
