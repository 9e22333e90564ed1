"""A server of a dict: what the facts of one look like, and what the actions of a plan would make of them. Touches no machine.

It knows WireGuard's tools as far as a plan does: wg-quick's routes and MTU, what syncconf keeps, what a restart brings back.
"""

import base64
import copy
import hashlib
import ipaddress

from apps.vpn.tests import ssh_servers
from roamlet_vpn.backends import make_plan
from roamlet_vpn.model.facts import KEPT, Facts
from roamlet_vpn.model.file import parse
from roamlet_vpn.planning.actions import MakeKey
from roamlet_vpn.wireguard.live import wanted_routes
from roamlet_vpn.wireguard.wgconf import parsed

OFFICES = """\
[network]
tunnel = "10.8.1.0/24"

[sites.alpha]
server = "root@alpha"
lan_address = "192.168.10.2"
lans = ["192.168.10.0/24"]
endpoint = "198.51.100.1:51820"

[sites.beta]
server = "root@beta"
lan_address = "192.168.20.2"
lans = ["192.168.20.0/24"]
endpoint = "198.51.100.2:51820"

[sites.gamma]
server = "root@gamma"
lan_address = "192.168.30.2"
lans = ["192.168.30.0/24", "fd00:30::/64"]
endpoint = "gamma.example.com:51820"
"""
NAMES = {"gamma.example.com": "198.51.100.3", "vpn.example.com": "198.51.100.1", "delta.example.com": "198.51.100.4"}


def key(seed):
    """A public key that is always the same for the same seed."""
    return base64.b64encode(hashlib.sha256(str(seed).encode()).digest()).decode()


def plain(hostname, lan_address, gateway=None):
    """The facts of a server on which nothing has been done yet."""
    network = ipaddress.ip_interface(lan_address).network
    return {
        "version": 1,
        "hostname": hostname,
        "time": 1_700_000_000.25,
        "kernel": "6.1.0-18-amd64",
        "os": "Debian GNU/Linux 12 (bookworm)",
        "python": "3.11.2",
        "is_root": True,
        "systemd": True,
        "tools": {
            "wg": "v1.0.20210914",
            "wg-quick": "",
            "ip": "6.1.0",
            "sysctl": "4.0.2",
            "systemctl": "252",
            **ssh_servers.TOOLS,
        },
        "wireguard": "kernel",
        "devices": {
            "lo": device(65536, "127.0.0.1/8", "::1/128"),
            "eth0": device(1500, lan_address, "fe80::1/64", accept_ra=1),
        },
        "routes": [
            route("default", "eth0", via=gateway or str(network[1])),
            route(str(network), "eth0", protocol="kernel", scope="link", source=lan_address.partition("/")[0]),
        ],
        "forwarding": {"ipv4": {"live": False, "persistent": False}, "ipv6": {"live": False, "persistent": False}},
        "interface": None,
        "config": None,
        "waiting_key": None,
        "other_interfaces": [],
        "unit": {"name": "wg-quick@wg0.service", "enabled": "disabled", "active": "inactive"},
        "listeners": [{"protocol": "udp", "address": "0.0.0.0", "port": 68, "process": "dhclient"}],
        "rollback": None,
        "resolved": {},
        "ssh": ssh_servers.nothing(hostname),
        "missing": {},
    }


def device(mtu, *addresses, kind="", accept_ra=None):
    return {"mtu": mtu, "up": True, "kind": kind, "addresses": list(addresses), "accept_ra": accept_ra}


def route(to, dev, via=None, protocol="static", scope="global", source=None, metric=None):
    return {
        "to": to,
        "family": 6 if ":" in to else 4,
        "via": via,
        "dev": dev,
        "metric": metric,
        "mtu": None,
        "source": source,
        "protocol": protocol,
        "scope": scope,
        "type": "unicast",
    }


class Server(ssh_servers.Tunnels):
    """One that carries out what plans say."""

    def __init__(self, name, lan_address):
        self.name = name
        self.plain = plain(name, lan_address)
        self.done = []  # the names of all actions, in order
        self.preshared = {}
        self.keys_made = 0
        self.route = route

    @property
    def facts(self):
        return Facts.from_plain(copy.deepcopy(self.plain), self.name)

    @property
    def interface(self):
        return self.plain["interface"]

    def act(self, actions):
        for action in actions:
            self.done.append(action["do"])
            getattr(self, "do_" + action.pop("do"))(**action)

    def peer(self, public_key):
        return next(peer for peer in self.interface["peers"] if peer["public_key"] == public_key)

    def edit(self, old, new):
        """The configuration changed by hand."""
        config = self.plain["config"]
        assert old in config["text"]
        self.set_config(config["text"].replace(old, new), config["public_key"])

    def set_config(self, text, public_key):
        self.plain["config"] = {
            "text": text,
            "public_key": public_key,
            "mode": 0o600,
            "uid": 0,
            "mtime": 1_700_000_000.0,
            "sha256": hashlib.sha256((text + str(public_key)).encode()).hexdigest(),
        }
        self.plain["resolved"] = {
            peer.endpoint.host: [NAMES[peer.endpoint.host]]
            for peer in parsed(text).peers
            if peer.endpoint is not None and peer.endpoint.host in NAMES
        }

    # ---- what host/act.py does

    def do_make_key(self):
        if self.plain["waiting_key"] is None:
            self.keys_made += 1
            self.plain["waiting_key"] = {"public_key": key((self.name, self.keys_made)), "mode": 0o600}

    def do_write_config(self, text, public_key, before, preshared_from):
        config, waiting = self.plain["config"], self.plain["waiting_key"]
        assert before == (config["sha256"] if config else None)
        known = {one["public_key"] for one in (config, waiting) if one}
        assert public_key in known, "act refuses a key that is not there"
        assert text.count(KEPT) - text.count("PresharedKey") == 1
        if waiting and waiting["public_key"] == public_key:
            self.plain["waiting_key"] = None
        self.set_config(text, public_key)

    def do_protect_config(self):
        self.plain["config"].update(mode=0o600, uid=0)

    learnt_mtu = 1500  # of the ways to the peers, as wg-quick finds it

    def do_up(self, mtu=None):
        assert self.interface is None
        self.plain["devices"]["wg0"] = device(1420, kind="wireguard")
        self.plain["interface"] = {
            "public_key": None, "listen_port": 4711, "mtu": 0, "up": True, "fwmark": None, "addresses": [], "peers": []
        }  # fmt: skip
        self.do_sync([])
        said = parsed(self.plain["config"]["text"])
        self.do_addresses(list(map(str, said.interface.addresses)), [])
        self.do_mtu(mtu or said.interface.mtu or self.learnt_mtu - 80)
        self.do_routes(list(map(str, wanted_routes(said))), [])
        if self.plain["systemd"]:
            self.plain["unit"]["active"] = "active"

    def do_link_up(self):
        self.interface["up"] = True

    def do_sync(self, keep_endpoints):
        said = parsed(self.plain["config"]["text"])
        now = {peer["public_key"]: peer for peer in self.interface["peers"]}
        assert set(keep_endpoints) <= set(now)
        peers = []
        for peer in said.peers:
            old = now.get(peer.public_key)
            keeps = old is not None and (peer.endpoint is None or peer.public_key in keep_endpoints)
            set_to = peer.endpoint and f"{NAMES.get(peer.endpoint.host, peer.endpoint.host)}:{peer.endpoint.port}"
            peers.append(
                {
                    **(
                        old
                        or {"public_key": peer.public_key, "preshared": False, "handshake_age": None, "rx": 0, "tx": 0}
                    ),
                    "endpoint": old["endpoint"] if keeps else set_to,
                    "allowed_ips": list(map(str, peer.allowed_ips)),
                    "keepalive": peer.keepalive,
                }
            )
        self.interface.update(
            public_key=self.plain["config"]["public_key"],
            listen_port=said.interface.listen_port or self.interface["listen_port"],
            peers=peers,
        )

    def do_addresses(self, add, remove):
        addresses = self.interface["addresses"]
        assert not set(add) & set(addresses)
        for address in add:
            addresses.append(address)
            network = ipaddress.ip_interface(address).network
            if network.num_addresses > 1:
                self.plain["routes"].append(route(str(network), "wg0", protocol="kernel", scope="link"))
        for address in remove:
            addresses.remove(address)
            gone = str(ipaddress.ip_interface(address).network)
            self.plain["routes"] = [one for one in self.plain["routes"] if (one["dev"], one["to"]) != ("wg0", gone)]
        self.plain["devices"]["wg0"]["addresses"] = list(addresses)

    def do_mtu(self, mtu):
        self.interface["mtu"] = self.plain["devices"]["wg0"]["mtu"] = mtu

    def do_routes(self, add, remove):
        changed = set(add) | set(remove)
        kept = [one for one in self.plain["routes"] if not (one["to"] in changed and one["metric"] is None)]
        self.plain["routes"] = kept + [route(to, "wg0", scope="link", protocol="boot") for to in add]

    def do_forwarding(self, family, live, persistent, accept_ra):
        now = self.plain["forwarding"][f"ipv{family}"]
        now.update(live=now["live"] or live, persistent=now["persistent"] or persistent)
        for name in accept_ra:
            self.plain["devices"][name]["accept_ra"] = 2

    def do_hold(self, routes):
        there = {(one["to"], one["dev"]) for one in self.plain["routes"]}
        assert routes and {(to, device) for to, device, _ in routes} <= there

    def do_enable_unit(self, name):
        self.plain["unit"]["enabled"] = "enabled"

    def do_down(self, keep_config):
        self.plain["interface"] = None
        del self.plain["devices"]["wg0"]
        self.plain["routes"] = [one for one in self.plain["routes"] if one["dev"] != "wg0"]
        if not keep_config:
            self.plain["config"] = None


class Offices:
    """A network with a server for each site."""

    def __init__(self, text=OFFICES):
        self.network = parse(text)
        self.servers = {}
        self.say(text)

    def say(self, text):
        """Another text of the file; servers appear with their sites."""
        self.network = parse(text)
        for site in self.network.sites:
            lan = site.lans[0] if site.lans else ipaddress.ip_network("172.20.0.0/24")
            address = f"{site.lan_address or lan[2]}/{lan.prefixlen}"
            self.servers.setdefault(site.name, Server(site.name, address))

    def __getitem__(self, name):
        return self.servers[name]

    def plan(self, **more):
        named = {site.name for site in self.network.sites}
        away = more.get("unreachable", ())
        facts = {name: server.facts for name, server in self.servers.items() if name in named and name not in away}
        return make_plan(self.network, facts, **more)

    def apply(self, **more):
        """As apply does it: keys first, then the plan made anew with them."""
        for name, actions in self.plan(**more).sites.items():
            self.servers[name].act([action.plain() for action in actions if isinstance(action, MakeKey)])
        plan = self.plan(**more)
        assert not plan.refusals
        for name, actions in plan.sites.items():
            self.servers[name].act([action.plain() for action in actions])
        self.network = self.network.with_addresses()  # which apply writes into the file
        return plan
