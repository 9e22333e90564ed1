"""Shell scripts that make machines and connect them. Pure text; they run inside the lab, with the programs of its Debian."""

from collections.abc import Sequence

from roamlet_lab.layout import ADMIN_ADDRESS, WAN, Place, gateway_rules

# Windows that fill a line of 80 ms; redirects off, because a router between networks of others sends none. Forwarding and the
# filters of bridges are what a new machine has, whatever this one is set to: a new network takes over some of that.
NETWORK = """\
ip link set lo up
set_to() { if [ -e "$1" ]; then echo "$2" >"$1"; fi; }
set_to /proc/sys/net/ipv4/tcp_rmem '4096 131072 33554432'
set_to /proc/sys/net/ipv4/tcp_wmem '4096 65536 33554432'
for family in ipv4 ipv6; do set_to /proc/sys/net/$family/conf/all/forwarding 0; done
for which in all default; do
    set_to /proc/sys/net/ipv4/conf/$which/rp_filter 0
    set_to /proc/sys/net/ipv4/conf/$which/send_redirects 0
    set_to /proc/sys/net/ipv4/conf/$which/accept_redirects 0
    set_to /proc/sys/net/ipv6/conf/$which/disable_ipv6 0
    set_to /proc/sys/net/ipv6/conf/$which/accept_ra 0
done
for what in iptables ip6tables arptables; do set_to /proc/sys/net/bridge/bridge-nf-call-$what 0; done
"""

ROOT = """\
mount --make-rprivate /
m=/lab/machines/{name}
mkdir -p $m/upper $m/work $m/root
mount -t overlay {name} -o lowerdir=/lab/system,upperdir=$m/upper,workdir=$m/work $m/root
cd $m/root
mount -t proc proc proc
mount -t sysfs sys sys
mount -t tmpfs -o mode=755 run run
mount -t devpts -o newinstance,ptmxmode=666,mode=620 devpts dev/pts
mount -t tmpfs -o mode=1777 shm dev/shm
ln -sf pts/ptmx dev/ptmx
mkdir -p run/sshd run/lock run/wireguard
mount --bind /lab/state/hosts etc/hosts
pivot_root . mnt
cd /
umount -l /mnt
hostname {host}
"""


def machine(name: str, host: str, *, own_root: bool = True) -> str:
    """What the first process of a machine runs. Without a root of its own it is a network alone, for a systemd to come."""
    return (ROOT.format(name=name, host=host) if own_root else "") + NETWORK


def wire(end: str, gateway: int, machine_pid: int) -> str:
    """A cable from the gateway to a machine, by the pids of their first processes; for a batch, in the lab itself."""
    return f"link add {end} netns {gateway} type veth peer name eth0 netns {machine_pid}"


def server_network(place: Place) -> str:
    return batch(_host(place, 100))


def client_network(place: Place, others: Sequence[Place]) -> str:
    return batch(
        _host(place, 50) + (_to_the_server("replace", place, others) if place.office.routes == "clients" else [])
    )


def gateway_network(place: Place, others: Sequence[Place]) -> str:
    """The LAN's switch, with the cables in it, and the line to the internet, which the relay has made; then routes and rules."""
    switch = [
        "link add br0 type bridge",
        f"address add {place.gateway}/24 dev br0",
        f"address add {place.address6(1)}/64 dev br0 nodad",
        "link set br0 up",
        "link set server master br0 up",
        "link set client master br0 up",
    ]
    forwarding = "".join(f"echo 1 >/proc/sys/net/{family}/conf/all/forwarding\n" for family in ("ipv4", "ipv6"))
    return batch(switch + _line(str(place.wan))) + forwarding + gateway_routes(place, others) + gateway_filter(place)


def gateway_routes(place: Place, others: Sequence[Place]) -> str:
    """The other LANs through the server, or not; whatever was there before."""
    if place.office.routes == "gateway":
        return batch(_to_the_server("replace", place, others))
    return batch(_to_the_server("del", place, others), forgiving=True)


def gateway_filter(place: Place) -> str:
    return f"nft -f - <<'RULES'\n{gateway_rules(place)}RULES\n"


def admin_network() -> str:
    return batch(_line(str(ADMIN_ADDRESS)))


def batch(lines: Sequence[str], *, forgiving: bool = False) -> str:
    """One process for many words of `ip`; `forgiving`: some may be about what is not there."""
    words = "ip -force -batch - 2>/dev/null" if forgiving else "ip -batch -"
    return f"{words} <<'BATCH'{' || :' if forgiving else ''}\n" + "".join(f"{line}\n" for line in lines) + "BATCH\n"


def _host(place: Place, number: int) -> list[str]:
    """A machine in the LAN."""
    return [
        f"address add {place.address(number)}/24 dev eth0",
        f"address add {place.address6(number)}/64 dev eth0 nodad",
        "link set eth0 up",
        f"route replace default via {place.gateway}",
        f"route replace ::/0 via {place.address6(1)}",
    ]


def _line(address: str) -> list[str]:
    return [f"address add {address}/{WAN.prefixlen} dev wan0", "link set wan0 up", "route replace default dev wan0"]


def _to_the_server(verb: str, place: Place, others: Sequence[Place]) -> list[str]:
    networks = [other.lan for other in others] + [place.office.tunnel]
    return [f"route {verb} {network} via {place.server}" for network in networks] + [
        f"route {verb} {other.lan6} via {place.address6(100)}" for other in others
    ]
