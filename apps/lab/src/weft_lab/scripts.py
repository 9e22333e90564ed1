"""Shell scripts that make machines and connect them. Pure text; they run inside the lab, with the programs of its Debian."""

from collections.abc import Sequence

from weft_lab.layout import ADMIN_ADDRESS, WAN, Place

__all__ = ["admin_network", "client_network", "gateway_network", "gateway_routes", "machine", "server_network", "wires"]

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


def wires(place: Place, gateway: int, server: int, client: int) -> str:
    """Cables from the gateway to the server and the client, by the pids of their first processes; run in the lab itself."""
    return "\n".join(
        f"ip link add {end} netns {gateway} type veth peer name eth0 netns {pid}"
        for end, pid in (("server", server), ("client", client))
    )


def _host(place: Place, number: int) -> str:
    """A machine in the LAN."""
    return f"""\
ip address add {place.address(number)}/24 dev eth0
ip -6 address add {place.address6(number)}/64 dev eth0 nodad
ip link set eth0 up
ip route replace default via {place.gateway}
ip -6 route replace default via {place.address6(1)}
"""


def server_network(place: Place) -> str:
    return _host(place, 100)


def client_network(place: Place, others: Sequence[Place]) -> str:
    lines = [_host(place, 50)]
    if place.office.routes == "clients":
        lines += _to_the_server("", place, others)
    return "\n".join(lines)


def gateway_network(place: Place) -> str:
    """The LAN's switch, with the cables in it, and the line to the internet, which the relay has made."""
    return f"""\
ip link add br0 type bridge
ip address add {place.gateway}/24 dev br0
ip -6 address add {place.address6(1)}/64 dev br0 nodad
ip link set br0 up
for end in server client; do ip link set $end master br0 up; done
echo 1 >/proc/sys/net/ipv4/conf/all/forwarding
echo 1 >/proc/sys/net/ipv6/conf/all/forwarding
{_line(str(place.wan))}"""


def gateway_routes(place: Place, others: Sequence[Place]) -> str:
    """The other LANs through the server, or not; whatever was there before."""
    return "\n".join(_to_the_server("" if place.office.routes == "gateway" else "del", place, others)) or ":"


def admin_network() -> str:
    return _line(str(ADMIN_ADDRESS))


def _line(address: str) -> str:
    return f"""\
ip address add {address}/{WAN.prefixlen} dev wan0
ip link set wan0 up
ip route replace default dev wan0
"""


def _to_the_server(verb: str, place: Place, others: Sequence[Place]) -> list[str]:
    networks = [other.lan for other in others] + [place.office.tunnel]
    networks6 = [other.lan6 for other in others]
    action, forgiving = ("del", " 2>/dev/null || :") if verb == "del" else ("replace", "")
    return [f"ip route {action} {network} via {place.server}{forgiving}" for network in networks] + [
        f"ip -6 route {action} {network} via {place.address6(100)}{forgiving}" for network in networks6
    ]
