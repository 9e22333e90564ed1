"""What the tool cannot reach: the lines to set on each office's gateway, in words and as commands. Pure.

A client sends what is for another office to its gateway, which hands it to the server; the answers go from the server straight
to the client. So a gateway that looks at connections sees one half of each, and drops it for invalid unless it is told otherwise.
"""

import ipaddress
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from roamlet_vpn.backends import backend_of
from roamlet_vpn.errors import VpnError
from roamlet_vpn.model.network import Address, Lan, Network, Site


@dataclass(frozen=True)
class Settings:
    """What a gateway needs, whatever it is."""

    site: Site
    server: Address  # in the LAN
    gateway: Address | None
    lans: tuple[Lan, ...]  # of this office
    beyond: tuple[Lan, ...]  # the LANs of the others, and the tunnel
    peers: tuple[Address, ...]  # the others' endpoints, as far as they are addresses
    protocol: str  # of what others send to this site: "udp", or "tcp" for ssh
    outer: int | None  # the port at which the internet reaches it; None: no site calls it
    port: int  # the server's own

    @property
    def itself(self) -> bool:
        """The server is the gateway."""
        return self.server == self.gateway

    @property
    def default(self) -> Address | None:
        """Where DHCP sends all else to, which is a matter of IPv4."""
        return self.gateway if self.gateway is not None and self.gateway.version == 4 else None

    @property
    def accepts(self) -> bool:
        """The server is the gateway, and others send to it first."""
        return self.itself and (self.protocol == "udp" or self.outer is not None)

    def pairs(self) -> tuple[tuple[Lan, Lan], ...]:
        """From each own LAN to each network beyond, of one family."""
        return tuple((own, other) for own in self.lans for other in self.beyond if own.version == other.version)


def settings(network: Network, site: Site) -> Settings:
    """Raises VpnError where the file does not say enough."""
    if site.lan_address is None:
        raise VpnError(
            f'[sites.{site.name}] has no lan_address, to which its gateway would send: lan_address = "192.168.10.2", for example'
        )
    # A LAN without IPv6 needs no way to that of others.
    families = {lan.version for lan in site.lans} | {site.lan_address.version}
    endpoints = [peer.endpoint.address for peer in network.peers_of(site) if peer.endpoint is not None]
    known = tuple(address for address in endpoints if address is not None)
    protocol, outer, port = backend_of(network).forwarded_port(network, site)
    return Settings(
        site,
        site.lan_address,
        site.gateway,
        site.lans,
        tuple(lan for lan in (*network.lans_behind(site), *network.tunnels) if lan.version in families),
        known if len(known) == len(network.peers_of(site)) else (),
        protocol,
        outer,
        port,
    )


def option_121(found: Settings) -> str:
    """DHCP's option of classless routes, as dnsmasq writes it; a client that accepts it ignores every other default route."""
    routes = [f"{lan},{found.server}" for lan in found.beyond if lan.version == 4]
    return ",".join([*routes, f"0.0.0.0/0,{found.default or 'GATEWAY'}"])


def option_121_hex(found: Settings) -> str:
    """The same in bytes, as RFC 3442 has them, for DHCP servers that want those. The gateway must be known."""
    whole = ipaddress.ip_network("0.0.0.0/0")
    routes = [(lan, found.server) for lan in found.beyond if lan.version == 4] + [
        (whole, found.default or found.server)
    ]
    data = bytearray()
    for lan, through in routes:
        data.append(lan.prefixlen)
        data += lan.network_address.packed[: (lan.prefixlen + 7) // 8] + through.packed
    return data.hex(":")


# ---- in words


def text(network: Network, site: Site) -> str:
    """For a person in front of the gateway's web page."""
    found = settings(network, site)
    where = f"gateway {found.gateway}" if found.gateway is not None else "its gateway"
    lines = [f"{site.name}: on {where} (the server is {found.server})", ""]
    if found.itself:
        lines[0] = f"{site.name}: the server {found.server} is the gateway itself"
        lines += _steps(_accept_words(found)) if found.accepts else ["Nothing is to be set: it calls the others."]
        return "\n".join(lines)
    steps = [_forward_words(found), _routes_words(found), _stateful_words(found)]
    lines += _steps(*[step for step in steps if step])
    if found.server.version == 4 and any(lan.version == 4 for lan in found.beyond):
        lines += [
            "",
            "In place of the last two, or where clients still go astray: let DHCP give the routes to the clients.",
            f"    option 121 (dnsmasq)   {option_121(found)}",
        ]
        if found.default is not None:
            lines.append(f"    option 121 (bytes)     {option_121_hex(found)}")
    return "\n".join(lines)


def _steps(*steps: Sequence[str]) -> list[str]:
    return [
        f"{f'{number}. ' if row == 0 else '   '}{line}"
        for number, step in enumerate(steps, 1)
        for row, line in enumerate(step)
    ]


def _forward_words(found: Settings) -> list[str]:
    if found.outer is None:
        return []
    return [
        f"Forward {found.protocol.upper()} port {found.outer} that comes from the internet to {found.server}, port {found.port}.",
        *_only_from(found),
    ]


def _only_from(found: Settings) -> list[str]:
    return [f"(It comes from {', '.join(map(str, found.peers))} alone.)"] if found.peers else []


def _accept_words(found: Settings) -> list[str]:
    return [f"Accept {found.protocol.upper()} port {found.port} that comes from the internet.", *_only_from(found)]


def _routes_words(found: Settings) -> list[str]:
    return ["Static routes:", *(f"    {lan} through {_next_hop(found, lan)}" for lan in found.beyond)]


def _next_hop(found: Settings, lan: Lan) -> str:
    return (
        str(found.server) if lan.version == found.server.version else f"the IPv{lan.version} address of {found.server}"
    )


def _stateful_words(found: Settings) -> list[str]:
    return [
        "If it has a firewall between its own LAN and itself: accept these, ahead of the rule that drops invalid packets",
        "(ct state invalid), because the answers do not pass it:",
        *(f"    from {own} to {other}" for own, other in found.pairs()),
    ]


# ---- as commands


def nftables(network: Network, site: Site) -> str:
    """For a Linux gateway with nftables, as root. Once more does no harm."""
    found = settings(network, site)
    lines = [
        f"# {site.name}: on its gateway, as root. The chain of the last lines may have another name: nft list chains"
    ]
    port = found.port
    if found.outer is not None and not found.itself:
        family = "ip" if found.server.version == 4 else "ip6"
        target = f"{found.server}:{port}" if found.server.version == 4 else f"[{found.server}]:{port}"
        lines += [
            f"nft add table {family} roamlet_vpn",
            f"nft flush table {family} roamlet_vpn",
            f"nft 'add chain {family} roamlet_vpn prerouting {{ type nat hook prerouting priority dstnat; }}'",
            f"nft add rule {family} roamlet_vpn prerouting fib daddr type local {found.protocol} dport {found.outer} "
            f"dnat to {target}",
            f"nft insert rule inet filter forward {family} daddr {found.server} {found.protocol} dport {port} accept",
        ]
    if found.accepts:
        lines.append(f"nft insert rule inet filter input {found.protocol} dport {port} accept")
    if not found.itself:
        lines += [_ip_route(found, lan) for lan in found.beyond]
    for own, other in found.pairs():
        family = "ip" if own.version == 4 else "ip6"
        lines.append(f"nft insert rule inet filter forward {family} saddr {own} {family} daddr {other} accept")
        if found.itself:
            lines.append(f"nft insert rule inet filter forward {family} saddr {other} {family} daddr {own} accept")
    return "\n".join(lines)


def _ip_route(found: Settings, lan: Lan) -> str:
    if lan.version == found.server.version:
        return f"ip route replace {lan} via {found.server}"
    return f"# ip route replace {lan} via ...   the IPv{lan.version} address of {found.server}"


def openwrt(network: Network, site: Site) -> str:
    """For OpenWrt from 22.03 on, as root. Once more does no harm."""
    found = settings(network, site)
    lines = [f"# {site.name}: on its OpenWrt gateway, as root"]
    if found.accepts:
        lines += _uci(
            "firewall", "roamlet_vpn", "rule", src="wan", proto=found.protocol, dest_port=found.port, target="ACCEPT"
        )
    elif found.outer is not None and not found.itself:
        lines += _uci(
            "firewall",
            "roamlet_vpn",
            "redirect",
            src="wan",
            dest="lan",
            proto=found.protocol,
            src_dport=found.outer,
            dest_ip=found.server,
            dest_port=found.port,
            target="DNAT",
            family=f"ipv{found.server.version}",
        )
    if not found.itself:
        lines += _openwrt_routes(found)
    rules = [
        f"{family} saddr {source} {family} daddr {to} accept"
        for own, other in found.pairs()
        for family in ("ip" if own.version == 4 else "ip6",)
        for source, to in ((own, other), (other, own))[: 2 if found.itself else 1]
    ]
    path = "/usr/share/nftables.d/chain-pre/forward/roamlet-vpn.nft"
    lines += [f"mkdir -p {path.rpartition('/')[0]}", f"cat > {path} <<'END'", *rules, "END"]
    lines.append(
        f"grep -qxF {path} /etc/sysupgrade.conf || echo {path} >> /etc/sysupgrade.conf  # so that it outlives an upgrade"
    )
    return "\n".join(
        [*lines, "uci commit", "service network reload; service firewall restart; service dnsmasq restart"]
    )


def _openwrt_routes(found: Settings) -> list[str]:
    """In place of those that were set before: the gateway's own, and what DHCP gives to the clients."""
    lines = [
        "for old in $(uci -q show network | sed -n 's/^\\(network\\.roamlet_vpn_[0-9]*\\)=route6*$/\\1/p'); "
        "do uci delete $old; done"
    ]
    for number, lan in enumerate(found.beyond):
        if lan.version != found.server.version:
            lines.append(f"# a route to {lan} through the IPv{lan.version} address of {found.server}")
            continue
        kind = "route" if lan.version == 4 else "route6"
        lines += _uci("network", f"roamlet_vpn_{number}", kind, interface="lan", target=lan, gateway=found.server)
    if found.server.version != 4 or not any(lan.version == 4 for lan in found.beyond):
        return lines
    if found.default is None:  # with a default route that leads nowhere in it, no client would reach the internet
        return [*lines, "# for DHCP option 121 write this gateway into network.toml: gateway = ..."]
    option = f"121,{option_121(found)}"
    return [
        *lines,
        "for old in $(uci -q get dhcp.lan.dhcp_option); do",
        '    case $old in 121,*) uci del_list dhcp.lan.dhcp_option="$old" ;; esac',
        "done",
        f"uci add_list dhcp.lan.dhcp_option='{option}'",
    ]


def _uci(package: str, name: str, kind: str, **options: object) -> list[str]:
    return [
        f"uci set {package}.{name}={kind}",
        *(f"uci set {package}.{name}.{key}='{value}'" for key, value in options.items()),
    ]


def aws(network: Network, site: Site) -> str:
    """For a server that is an instance in a VPC; with the AWS command line, from anywhere."""
    found = settings(network, site)
    by = "private-ip-address" if found.server.version == 4 else "network-interface.ipv6-addresses.ipv6-address"
    query = f"aws ec2 describe-instances --output text --filters Name={by},Values="
    one = "--query 'Reservations[0].Instances[0]"
    tables = "aws ec2 describe-route-tables --output text --query 'RouteTables[0].RouteTableId' --filters"
    sources = [ipaddress.ip_network(address) for address in found.peers] or [
        ipaddress.ip_network("0.0.0.0/0"), ipaddress.ip_network("::/0")
    ]  # fmt: skip
    lines = [
        f"# {site.name}: its server is the instance with the address {found.server}; the VPC is the gateway",
        f"INSTANCE=$({query}{found.server} {one}.InstanceId')",
        f"GROUP=$({query}{found.server} {one}.SecurityGroups[0].GroupId')",
        f"SUBNET=$({query}{found.server} {one}.SubnetId')",
        f"VPC=$({query}{found.server} {one}.VpcId')",
        f"TABLE=$({tables} Name=association.subnet-id,Values=$SUBNET)",
        "# A subnet without a table of its own uses the VPC's main one.",
        f'[ "$TABLE" != None ] || TABLE=$({tables} Name=vpc-id,Values=$VPC Name=association.main,Values=true)',
        "aws ec2 modify-instance-attribute --instance-id $INSTANCE --no-source-dest-check",
    ]
    allow = "aws ec2 authorize-security-group-ingress --group-id $GROUP --ip-permissions"
    if found.outer is not None:
        ports = f"IpProtocol={found.protocol},FromPort={found.port},ToPort={found.port}"
        lines += [f"{allow} '{ports},{_aws_range(source)}'" for source in sources]
    lines += [f"{allow} 'IpProtocol=-1,{_aws_range(lan)}'" for lan in dict.fromkeys((*found.lans, *found.beyond))]
    for lan in found.beyond:
        key = "--destination-cidr-block" if lan.version == 4 else "--destination-ipv6-cidr-block"
        lines.append(f"aws ec2 create-route --route-table-id $TABLE {key} {lan} --instance-id $INSTANCE")
    return "\n".join(lines)


def _aws_range(lan: Lan) -> str:
    return f"IpRanges=[{{CidrIp={lan}}}]" if lan.version == 4 else f"Ipv6Ranges=[{{CidrIpv6={lan}}}]"


FORMS: dict[str, Callable[[Network, Site], str]] = {"text": text, "nftables": nftables, "openwrt": openwrt, "aws": aws}
