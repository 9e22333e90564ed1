"""What a server of a dict has of ssh tunnels, and what the actions of a plan would make of them; for servers.py."""

import base64
import hashlib
import re

TOOLS = {"ssh": "", "ssh-keygen": "", "useradd": ""}


def ssh_key(seed):
    """A public key of ssh that is always the same for the same seed."""
    raw = hashlib.sha256(str(seed).encode()).digest()
    return "ssh-ed25519 " + base64.b64encode(b"\0\0\0\x0bssh-ed25519\0\0\0 " + raw).decode()


def nothing(name):
    """The facts of a server that runs an sshd, and no tunnel."""
    return {
        "user": False,
        "key": None,
        "key_mode": None,
        "waiting_key": None,
        "host_keys": [ssh_key(("host", name))],
        "files": {},
        "ends": {},
        "devices": {},
    }


class Tunnels:
    """The part of a Server that has to do with them: `plain`, `name` and `route` are the rest's."""

    @property
    def ssh(self):
        return self.plain["ssh"]

    def edit_file(self, name, text):
        """By hand, or by an action."""
        self.ssh["files"][name] = {"text": text, "sha256": hashlib.sha256(text.encode()).hexdigest()}

    def run_script(self, name):
        """Its device part, as the shell would."""
        text = self.ssh["files"][name]["text"]
        device, user = re.search(r"ip tuntap add dev (\S+) mode tun user (\S+)", text).groups()
        local, peer = re.search(r"ip address replace (\S+) peer (\S+)", text).groups()
        mtu, queue = map(int, re.search(r"mtu (\d+) txqueuelen (\d+) up", text).groups())
        one = self.ssh["devices"].setdefault(
            device, {"user": user, "queue": 500, "carrier": False, "rx": 0, "tx": 0, "addresses": []}
        )
        about = self.plain["devices"].setdefault(
            device, {"mtu": 1500, "up": False, "kind": "tun", "addresses": [], "accept_ra": None}
        )
        if {"local": local, "peer": peer} not in one["addresses"]:
            one["addresses"].append({"local": local, "peer": peer})
        one.update(queue=queue)
        about.update(mtu=mtu, up=True, addresses=[f"{address['local']}/32" for address in one["addresses"]])
        for lan, metric in re.findall(rf"ip route replace (\S+) dev {device} metric (\d+)", text):
            wanted = self.route(lan, device, protocol="boot", scope="link", metric=int(metric))
            if wanted not in self.plain["routes"]:
                self.plain["routes"].append(wanted)

    def lose_device(self, device):
        del self.ssh["devices"][device], self.plain["devices"][device]
        self.plain["routes"] = [one for one in self.plain["routes"] if one["dev"] != device]

    def do_tunnel_identity(self):
        if self.ssh["waiting_key"] is None:
            self.keys_made += 1
            self.ssh["waiting_key"] = ssh_key((self.name, self.keys_made))

    def do_tunnel_use_identity(self, public):
        assert public in (self.ssh["key"], self.ssh["waiting_key"]), "act refuses a key that is not there"
        if public == self.ssh["waiting_key"]:
            self.ssh["waiting_key"] = None
        self.ssh.update(key=public, key_mode=0o600)

    def do_tunnel_user(self):
        self.ssh["user"] = True

    def do_tunnel_file(self, name, text, before):
        old = self.ssh["files"].get(name)
        assert before == (old["sha256"] if old else None)
        if text is None:
            del self.ssh["files"][name]
        else:
            self.edit_file(name, text)

    def do_tunnel_device(self, name, device, anew, routes, addresses):
        if anew:
            self.lose_device(device)
        self.plain["routes"] = [
            one for one in self.plain["routes"] if (one["dev"], one["to"]) not in {(device, to) for to in routes}
        ]
        if device in self.ssh["devices"]:
            one = self.ssh["devices"][device]
            one["addresses"] = [address for address in one["addresses"] if address["local"] not in addresses]
        self.run_script(name)

    def do_tunnel_run(self, name, restart):
        self.run_script(name)
        enabled = "enabled" if self.plain["systemd"] else None
        self.ssh["ends"][name] = {"enabled": enabled, "active": "active", "age": 1.0, "said": None}

    def do_tunnel_remove(self, name):
        del self.ssh["ends"][name]
        for file in (name, f"{name}.service"):
            self.ssh["files"].pop(file, None)

    def do_tunnel_remove_device(self, device):
        self.lose_device(device)

    def do_tunnel_down(self):
        for device in list(self.ssh["devices"]):
            self.lose_device(device)
        self.plain["ssh"] = nothing(self.name)
