"""A lab: offices with a client, a server and a gateway each, an internet between them, and a machine there to manage them from."""

import json
import os
import re
import secrets
import shutil
import subprocess
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import asdict, replace
from ipaddress import IPv4Address, IPv4Network
from pathlib import Path
from typing import Any, Self

from roamlet_lab import compiled, debian, layout, scripts
from roamlet_lab.booted import BootedMachine, boot_script
from roamlet_lab.errors import CommandFailed, LabError, NotPossible
from roamlet_lab.internet import Internet
from roamlet_lab.layout import Office, Place
from roamlet_lab.machine import Machine, packed
from roamlet_lab.spaces import BASE, Keeper, is_alive, why_not

CACHE = Path(os.environ.get("ROAMLET_LAB_CACHE", "/var/cache/roamlet-lab"))

LAB_NAME = re.compile(r"[a-z0-9][a-z0-9-]{0,30}")
MACHINES = ("client", "server", "gateway")
PATIENCE = 120  # seconds that a server has to boot


class BuiltOffice:
    """An office of a lab that is up: its machines `client`, `server` and `gateway`, and its addresses in `place`."""

    def __init__(self, lab: "Lab", place: Place, client: Machine, server: Machine, gateway: Machine) -> None:
        self._lab = lab
        self.place = place
        self.client = client
        self.server = server
        self.gateway = gateway

    @property
    def name(self) -> str:
        return self.place.name

    def set(
        self, *, stateful: bool | None = None, forward: Iterable[int] | None = None, routes: str | None = None
    ) -> None:
        """Change what is given, as in Office, while everything runs. Connections that the gateway knows go on."""
        changes: dict[str, Any] = {"stateful": stateful, "routes": routes}
        changes["forward"] = None if forward is None else tuple(forward)
        self._lab._change(self, {name: value for name, value in changes.items() if value is not None})

    def restart_server(self, *, abrupt: bool = False) -> None:
        """Start the server anew, and return when it takes ssh again: files stay; processes, devices, routes and settings go.

        With a systemd it is told to reboot, or, `abrupt`, loses its power. Without one nothing is started again but sshd.
        """
        self._lab._restart(self, abrupt)


class Lab:
    """Offices in namespaces on this machine; nothing of them can be seen from outside, and nothing outside is changed.

    with Lab(offices=("alpha", "beta"), rtt=0.080) as lab:
        lab.office("alpha").client.run(["ping", "-c", "1", "198.51.100.2"])

    `offices` is a number, or names, or Office objects; `rtt` the seconds from office to office and back; `systemd` boots one on
    each server. Takes root. Building blocks for about a second (the first time on a machine, for minutes, while the Debian that
    all machines run is built in CACHE; `say` is told). Raises NotPossible where the machine or the user cannot have labs.
    However this process ends, the lab ends with it, unless `release` was called; `down` is for all other ways.
    """

    def __init__(
        self,
        offices: int | Iterable[str | Office] = 2,
        *,
        rtt: float = 0.080,
        systemd: bool = False,
        name: str | None = None,
        say: Callable[[str], None] = lambda text: None,
    ) -> None:
        self.name = name or f"lab-{secrets.token_hex(4)}"
        if not LAB_NAME.fullmatch(self.name):
            raise LabError(f"{self.name!r} is no name for a lab: small letters, digits and dashes, at most 31")
        self.places = layout.places(offices)
        self.rtt = rtt
        self.systemd = systemd
        self.folder = BASE / self.name
        self._say = say
        self._keeper: Keeper | None = None
        self._machines: dict[str, Machine] = {}
        self._offices: dict[str, BuiltOffice] = {}

    def __enter__(self) -> Self:
        return self.up()

    def __exit__(self, *error: object) -> None:
        self.down()

    def __repr__(self) -> str:
        state = "up" if self._keeper else "down"
        return f"<lab {self.name}, {state}: {', '.join(place.name for place in self.places)}>"

    def up(self) -> Self:
        """Build everything, and return when each server takes connections by ssh. What fails is taken down again."""
        if reason := why_not():
            raise NotPossible(reason)
        if shutil.which("ssh-keygen") is None:
            raise NotPossible(
                "a lab makes keys for ssh, and there is no ssh-keygen here: apt-get install openssh-client"
            )
        programs = compiled.programs(CACHE)
        system = debian.system(CACHE, self._say)
        self._keeper = Keeper.started(self.name, programs, system)
        try:
            self._build(programs)
        except BaseException:
            self.down()
            raise
        return self

    def down(self) -> None:
        """End everything in the lab and wait until nothing of it is left. Does nothing when it is down."""
        if self._keeper:
            self._keeper.end()
            self._keeper = None

    def release(self) -> None:
        """Let the lab outlive this process: `running`, or `roamlet lab`, finds it by its name."""
        self._up().release()

    @contextmanager
    def kept_if_well(self) -> Iterator[Self]:
        """Release the lab when the block has ended well, and take it down when it has not."""
        try:
            yield self
            self.release()
        except BaseException:
            self.down()
            raise

    def described(self) -> dict[str, Any]:
        """What there is, and what the internet has counted, as plain data."""
        stats = self.internet.stats()
        lines = {port.pop("name"): port for port in stats.pop("ports")}
        internet = {
            "rtt": stats["delay_us"] * 2e-6,
            "loss": stats["loss_ppm"] * 1e-6,
            "rate_mbit": stats["rate_mbit"],
            "queue_bytes": stats["queue_bytes"],
        }
        offices = []
        for place in self.places:
            numbers = {key: str(getattr(place, key)) for key in ("wan", "lan", "lan6", "server", "client")}
            options = {"gateway": str(place.gateway), **asdict(place.office)}
            offices.append({**options, **numbers, "tunnel": str(place.office.tunnel), "line": lines[place.name]})
        return {
            "name": self.name,
            "systemd": self.systemd,
            "ssh_config": self.ssh_config,
            "internet": internet,
            "offices": offices,
        }

    def office(self, name: str) -> BuiltOffice:
        """An office by its name. Raises LabError with the names there are."""
        try:
            return self._offices[name]
        except KeyError:
            raise LabError(f"no office {name!r} in lab {self.name}: there are {', '.join(self._offices)}") from None

    @property
    def offices(self) -> tuple[BuiltOffice, ...]:
        return tuple(self._offices.values())

    @property
    def admin(self) -> Machine:
        """A machine on the internet, behind no gateway: where ssh with `ssh_config` comes from."""
        return self._machines[layout.ADMIN]

    @property
    def ssh_config(self) -> str:
        """The path of a file for `ssh -F`: the name of each office leads to its server, as root; NAME-admin as a user with sudo."""
        return str(self.folder / "ssh_config")

    @property
    def internet(self) -> Internet:
        self._up()
        return Internet(
            self.folder / "internet",
            lambda: [place.name for place in self.places],
            lambda name: self.office(name).gateway,
            self.renumber,
        )

    def machine(self, name: str) -> Machine:
        """A machine by its name: an office's name is its server, then NAME-client, NAME-gateway and admin."""
        wanted = f"{name}-server" if name in self._offices else name
        try:
            return self._machines[wanted]
        except KeyError:
            names = [*self._offices, *(key for key in self._machines if not key.endswith("-server"))]
            raise LabError(f"no machine {name!r} in lab {self.name}: there are {', '.join(names)}") from None

    def renumber(self, office: str, flush: bool, dns: bool) -> str:
        """What Internet.renumber promises."""
        built = self.office(office)
        taken = {place.wan for place in self.places}
        fresh = next(
            address
            for address in (layout.WAN[number] for number in range(101, 200))
            if address not in taken and address != built.place.wan
        )
        built.gateway.shell(
            # The old address first: a second one in its network would go with it.
            f"ip address del {built.place.wan}/24 dev wan0\nip address add {fresh}/24 dev wan0\n"
            "ip route replace default dev wan0" + ("\nconntrack -F" if flush else "")
        )
        self.internet._say(f"address {office} {fresh}")
        self._replace(built, replace(built.place, wan=fresh))
        if dns:
            self._write_hosts()
        return str(fresh)

    def _up(self) -> Keeper:
        if self._keeper is None:
            raise LabError(f"lab {self.name} is not up")
        return self._keeper

    def _build(self, programs: Path) -> None:
        """The machines, then what connects them, then what runs on them."""
        keeper = self._up()
        self._write_hosts()
        keys = self._make_keys()
        self._write_known_hosts(keys)
        pids = self._make_machines(keeper, keys)
        ports = [(place.name, pids[f"{place.name}-gateway"], place.wan) for place in self.places]
        ports.append((layout.ADMIN, pids[layout.ADMIN], layout.ADMIN_ADDRESS))
        keeper.run(
            scripts.batch(
                [
                    scripts.wire(end, pids[f"{place.name}-gateway"], pids[f"{place.name}-{end}"])
                    for place in self.places
                    for end in ("server", "client")
                ]
            )
        )
        self._start_internet(keeper, ports)
        self._set_up_networks()
        self.internet.set(rtt=self.rtt)
        for office in self.offices:
            self._boot(office)
        for office in self.offices:
            self._wait_for_ssh(office)
        self._save(programs)

    def _make_machines(self, keeper: Keeper, keys: dict[str, str]) -> dict[str, int]:
        files: list[tuple[str, str | bytes, int]] = []
        wanted: dict[str, str] = {}
        addresses: dict[str, str] = {layout.ADMIN: str(layout.ADMIN_ADDRESS)}
        for place in self.places:
            for kind in MACHINES:
                name = f"{place.name}-{kind}"
                host = place.name if kind == "server" else name
                wanted[name] = scripts.machine(name, host, own_root=not (self.systemd and kind == "server"))
                files.append((f"{name}/upper/etc/hostname", f"{host}\n", 0o644))
                addresses[name] = str(getattr(place, kind))
            files += [
                (f"{place.name}-server/upper{path}", text, mode) for path, text, mode in self._secrets(place, keys)
            ]
        wanted[layout.ADMIN] = scripts.machine(layout.ADMIN, layout.ADMIN)
        keeper.run("tar -xC /lab/machines", data=packed(files))
        pids = keeper.make_machines(wanted)
        self._take(keeper, {name: (pid, addresses[name]) for name, pid in pids.items()})
        return pids

    def _take(self, keeper: Keeper, machines: dict[str, tuple[int, str]]) -> None:
        """Have these machines, by pid and address."""
        for name, (pid, address) in machines.items():
            kind = BootedMachine if self.systemd and name.endswith("-server") else Machine
            self._machines[name] = kind(keeper, name, pid, address)
        self._offices = {
            place.name: BuiltOffice(self, place, *(self._machines[f"{place.name}-{kind}"] for kind in MACHINES))
            for place in self.places
        }

    def _start_internet(self, keeper: Keeper, ports: list[tuple[str, int, IPv4Address]]) -> None:
        words = [f"{name}:{pid}:wan0:{address}" for name, pid, address in ports]
        # The socket is bound under another name and gets its own when it listens, so that whoever sees it can connect.
        script = (
            "mkfifo /run/ready\n"
            f"setsid /lab/programs/relay /lab/state/internet.new {layout.ROUTER} {' '.join(words)} "
            "</dev/null >/run/ready 2>/run/relay.log &\n"
            "read -r word </run/ready || { cat /run/relay.log; exit 1; }\n"
            "mv /lab/state/internet.new /lab/state/internet"
        )
        keeper.run(script, name="the internet")

    def _set_up_networks(self) -> None:
        wanted = {layout.ADMIN: scripts.admin_network()}
        for office in self.offices:
            place, others = office.place, self._others(office)
            wanted[office.gateway.name] = scripts.gateway_network(place, others)
            wanted[office.client.name] = scripts.client_network(place, others)
            if not self.systemd:
                wanted[office.server.name] = scripts.server_network(place) + "/usr/sbin/sshd\n"
        with ThreadPoolExecutor(8) as several:
            for done in [several.submit(self._machines[name].shell, script) for name, script in wanted.items()]:
                done.result()

    def _boot(self, office: BuiltOffice) -> None:
        """Start the server's systemd, if it is to have one."""
        server = office.server
        if isinstance(server, BootedMachine):
            network = scripts.NETWORK + scripts.server_network(office.place)
            self._up().run(boot_script(self.name, server.name, office.name, server.holder, network))

    def _wait_for_ssh(self, office: BuiltOffice) -> None:
        """Return when the server takes connections. Raises LabError, with the end of what it said, when it never does."""
        waiting = f"until nc -z -w 1 {office.place.server} 22; do sleep 0.05; done"
        try:
            office.gateway.run(["timeout", str(PATIENCE), "sh", "-c", waiting], timeout=PATIENCE + 30)
        except CommandFailed as error:
            said = office.server.boot_log() if isinstance(office.server, BootedMachine) else error.output
            raise LabError(
                f"the server of {office.name} takes no ssh after {PATIENCE} s. It said: {said[-2000:]}"
            ) from error

    def _restart(self, office: BuiltOffice, abrupt: bool) -> None:
        server, keeper = office.server, self._up()
        if isinstance(server, BootedMachine):
            before = server.pid
            if abrupt:
                keeper.run(f"kill -9 {before}")
            else:
                server.run(["systemctl", "reboot"], check=False)
            keeper.run(f"while kill -0 {before} 2>/dev/null; do sleep 0.05; done")
        else:
            office.gateway.run(["ip", "link", "delete", "server"])
            keeper.run(f"kill -9 {server.pid}; while kill -0 {server.pid} 2>/dev/null; do sleep 0.05; done")
            server._pid = keeper.make_machines({server.name: scripts.machine(server.name, office.name)})[server.name]
            keeper.run(scripts.batch([scripts.wire("server", office.gateway.pid, server.pid)]))
            office.gateway.run(["ip", "link", "set", "server", "master", "br0", "up"])
            server.shell(scripts.server_network(office.place) + "/usr/sbin/sshd")
            self._save_again()
        self._wait_for_ssh(office)

    def _others(self, office: BuiltOffice) -> list[Place]:
        return [place for place in self.places if place.name != office.name]

    def _change(self, office: BuiltOffice, changes: dict[str, Any]) -> None:
        place = replace(office.place, office=replace(office.place.office, **changes))
        others = self._others(office)
        office.gateway.shell(scripts.gateway_filter(place) + scripts.gateway_routes(place, others))
        if "routes" in changes:
            flush = "ip address flush dev eth0; ip -6 address flush dev eth0\n"
            office.client.shell(flush + scripts.client_network(place, others))
        self._replace(office, place)

    def _replace(self, office: BuiltOffice, place: Place) -> None:
        office.place = place
        self.places = tuple(place if old.name == place.name else old for old in self.places)
        self._save_again()

    def _save_again(self) -> None:
        state = json.loads((self.folder / "lab.json").read_text())
        self._save(Path(state["programs"]))

    # Files: all of them in the lab's folder, which goes with the lab.

    def _write_hosts(self) -> None:
        # In place: the machines have this very file at /etc/hosts.
        with open(self.folder / "hosts", "w") as stream:
            stream.write(layout.hosts_file(self.places))

    def _make_keys(self) -> dict[str, str]:
        """A pair of keys for the admin, for each server, and for each server's root; returns the public ones."""
        names = ["id_ed25519"] + [f"{kind}-{place.name}" for place in self.places for kind in ("host", "root")]
        words = ["ssh-keygen", "-q", "-t", "ed25519", "-N", ""]
        made = [
            subprocess.Popen([*words, "-C", name, "-f", str(self.folder / name)], stdin=subprocess.DEVNULL)
            for name in names
        ]
        if sum(process.wait() for process in made):
            raise LabError("ssh-keygen has made no keys; what it said stands above")
        return {name: " ".join((self.folder / f"{name}.pub").read_text().split()[:2]) for name in names}

    def _write_known_hosts(self, keys: dict[str, str]) -> None:
        servers = {place.name: keys[f"host-{place.name}"] for place in self.places}
        (self.folder / "known_hosts").write_text(layout.known_hosts(self.places, servers))

    def _secrets(self, place: Place, keys: dict[str, str]) -> list[tuple[str, str, int]]:
        """What a server has that the others have not: it knows all servers, and all may log in."""
        known = (self.folder / "known_hosts").read_text()
        allowed = "".join(f"{key}\n" for name, key in keys.items() if not name.startswith("host-"))
        files = [
            ("/etc/ssh/ssh_host_ed25519_key", (self.folder / f"host-{place.name}").read_text(), 0o600),
            ("/root/.ssh/id_ed25519", (self.folder / f"root-{place.name}").read_text(), 0o600),
            ("/root/.ssh/known_hosts", known, 0o644),
            ("/root/.ssh/authorized_keys", allowed, 0o600),
            ("/etc/ssh/keys_of_admin", allowed, 0o644),
            (
                "/etc/ssh/sshd_config.d/admin.conf",
                "Match User admin\nAuthorizedKeysFile /etc/ssh/keys_of_admin\n",
                0o644,
            ),
        ]
        for name in (f"host-{place.name}", f"root-{place.name}"):
            (self.folder / name).unlink()
        return files

    def _save(self, programs: Path) -> None:
        """What another process needs to find this lab."""
        keeper = self._up()
        proxy = " ".join(self.admin.argv())
        (self.folder / "ssh_config").write_text(layout.ssh_config(self.places, str(self.folder), proxy))
        state = {
            "name": self.name,
            "programs": str(programs),
            "janitor": keeper.janitor,
            "pid": keeper.pid,
            "rtt": self.rtt,
            "systemd": self.systemd,
            "offices": [{**asdict(place.office), "number": place.number, "wan": place.wan} for place in self.places],
            "machines": {name: [machine._pid, machine.address] for name, machine in self._machines.items()},
        }
        fresh = self.folder / "lab.json.new"
        fresh.write_text(json.dumps(state, default=str, indent=1))
        fresh.replace(self.folder / "lab.json")


def names_of_labs() -> list[str]:
    """The names of the labs that are up on this machine."""
    return sorted(path.name for path in BASE.glob("*") if is_alive(path))


def running(name: str) -> Lab:
    """The lab of this name that is up, whichever process has built it. Raises LabError without one."""
    folder = BASE / name
    if not is_alive(folder) or not (folder / "lab.json").exists():
        others = names_of_labs()
        known = f"; there are {', '.join(others)}" if others else "; build one with: roamlet lab up"
        raise LabError(f"no lab {name!r} is up{known}")
    state = json.loads((folder / "lab.json").read_text())
    offices, places = [], []
    for one in state["offices"]:
        number, wan = one.pop("number"), IPv4Address(one.pop("wan"))
        offices.append(Office(**{**one, "forward": tuple(one["forward"]), "tunnel": IPv4Network(one["tunnel"])}))
        places.append(Place(offices[-1], number, wan))
    lab = Lab(offices, rtt=state["rtt"], systemd=state["systemd"], name=name)
    lab.places = tuple(places)
    keeper = lab._keeper = Keeper(folder, Path(state["programs"]), state["janitor"], state["pid"])
    lab._take(keeper, state["machines"])
    return lab
