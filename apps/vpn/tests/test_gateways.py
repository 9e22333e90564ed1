"""The lines for the gateways: every port, route and rule is there, in each form, and none that does not belong."""

import os
import shutil
import subprocess
from pathlib import Path

import pytest

from apps.vpn.tests.servers import OFFICES
from roamlet_vpn.commands.gateways import FORMS, option_121, option_121_hex, settings
from roamlet_vpn.errors import VpnError
from roamlet_vpn.model.file import parse
from tools import unpack_debian

UNPACKED = Path(__file__).parents[3] / ".venv" / "nftables"
TWO = OFFICES[: OFFICES.index("[sites.gamma]")].replace(
    'lan_address = "192.168.10.2"', 'lan_address = "192.168.10.2"\ngateway = "192.168.10.1"\nlisten_port = 51821'
)


def lines(form, text=TWO, name="alpha"):
    network = parse(text).with_addresses()
    return FORMS[form](network, network.site(name))


def test_in_words_for_whoever_sits_before_the_gateways_web_page():
    assert (
        lines("text")
        == """\
alpha: on gateway 192.168.10.1 (the server is 192.168.10.2)

1. Forward UDP port 51820 that comes from the internet to 192.168.10.2, port 51821.
   (It comes from 198.51.100.2 alone.)
2. Static routes:
       192.168.20.0/24 through 192.168.10.2
       10.8.1.0/24 through 192.168.10.2
3. If it has a firewall between its own LAN and itself: accept these, ahead of the rule that drops invalid packets
   (ct state invalid), because the answers do not pass it:
       from 192.168.10.0/24 to 192.168.20.0/24
       from 192.168.10.0/24 to 10.8.1.0/24

In place of the last two, or where clients still go astray: let DHCP give the routes to the clients.
    option 121 (dnsmasq)   192.168.20.0/24,192.168.10.2,10.8.1.0/24,192.168.10.2,0.0.0.0/0,192.168.10.1
    option 121 (bytes)     18:c0:a8:14:c0:a8:0a:02:18:0a:08:01:c0:a8:0a:02:00:c0:a8:0a:01"""
    )


def test_for_linux_with_nftables():
    assert lines("nftables").splitlines()[1:] == [
        "nft add table ip roamlet_vpn",
        "nft flush table ip roamlet_vpn",
        "nft 'add chain ip roamlet_vpn prerouting { type nat hook prerouting priority dstnat; }'",
        "nft add rule ip roamlet_vpn prerouting fib daddr type local udp dport 51820 dnat to 192.168.10.2:51821",
        "nft insert rule inet filter forward ip daddr 192.168.10.2 udp dport 51821 accept",
        "ip route replace 192.168.20.0/24 via 192.168.10.2",
        "ip route replace 10.8.1.0/24 via 192.168.10.2",
        "nft insert rule inet filter forward ip saddr 192.168.10.0/24 ip daddr 192.168.20.0/24 accept",
        "nft insert rule inet filter forward ip saddr 192.168.10.0/24 ip daddr 10.8.1.0/24 accept",
    ]


def test_for_openwrt():
    text = lines("openwrt")
    for line in (
        "uci set firewall.roamlet_vpn.src_dport='51820'",
        "uci set firewall.roamlet_vpn.dest_ip='192.168.10.2'",
        "uci set firewall.roamlet_vpn.dest_port='51821'",
        "uci set network.roamlet_vpn_0.target='192.168.20.0/24'",
        "uci set network.roamlet_vpn_1.gateway='192.168.10.2'",
        "ip saddr 192.168.10.0/24 ip daddr 192.168.20.0/24 accept",
        "uci add_list dhcp.lan.dhcp_option='121,192.168.20.0/24,192.168.10.2,10.8.1.0/24,192.168.10.2,0.0.0.0/0,192.168.10.1'",
        "uci commit",
    ):
        assert line in text.splitlines()


UCI = """#!/bin/sh
[ "$1" = -q ] && shift
case "$1 $2" in
    "show network")
        echo "network.roamlet_vpn_7=route"
        echo "network.roamlet_vpn_7.target='10.0.0.0/8'"
        echo "network.lan=interface"
        ;;
    "get dhcp.lan.dhcp_option") echo "6,192.168.10.1 121,10.0.0.0/8,192.168.10.9" ;;
    *) echo "uci $*" >> "$SAID" ;;
esac
"""


def test_openwrt_gets_the_new_routes_in_place_of_the_old_ones(tmp_path):
    """Run by a shell, with a stand-in for uci that has what an earlier network has left."""
    (tmp_path / "uci").write_text(UCI)
    (tmp_path / "uci").chmod(0o755)
    script = lines("openwrt").partition("\nmkdir")[0]
    environment = {"PATH": f"{tmp_path}:{os.environ['PATH']}", "SAID": str(tmp_path / "said")}
    subprocess.run(["sh", "-eu"], input=script, text=True, check=True, env=environment)
    said = (tmp_path / "said").read_text().splitlines()
    assert "uci delete network.roamlet_vpn_7" in said and "uci delete network.roamlet_vpn_7.target" not in said
    assert [line for line in said if "list" in line] == [
        "uci del_list dhcp.lan.dhcp_option=121,10.0.0.0/8,192.168.10.9",
        "uci add_list dhcp.lan.dhcp_option=121,192.168.20.0/24,192.168.10.2,10.8.1.0/24,192.168.10.2,0.0.0.0/0,192.168.10.1",
    ]


def test_openwrt_never_hands_out_a_default_route_that_leads_nowhere():
    text = lines("openwrt", TWO.replace('gateway = "192.168.10.1"\n', ""))
    assert "dhcp.lan" not in text and "# for DHCP option 121 write this gateway into network.toml" in text


@pytest.mark.parametrize("gateway", ["fd00:10::1", "fe80::1"])
def test_a_gateway_of_ipv6_is_no_default_route_of_dhcp(gateway):
    text = TWO.replace('gateway = "192.168.10.1"', f'gateway = "{gateway}"').replace(
        '"192.168.10.0/24"', '"192.168.10.0/24", "fd00:10::/64"'
    )
    said = lines("text", text)
    assert f"gateway {gateway}" in said and "0.0.0.0/0,GATEWAY" in said and "(bytes)" not in said
    assert "dhcp.lan" not in lines("openwrt", text)


def test_addresses_of_ipv6_are_what_they_are_in_each_form():
    text = (
        TWO.replace('"192.168.10.2"\ngateway = "192.168.10.1"', '"fd00:10::2"\ngateway = "fd00:10::1"')
        .replace('"192.168.10.0/24"', '"192.168.10.0/24", "fd00:10::/64"')
        .replace('"198.51.100.2:51820"', '"[2001:db8::2]:51820"')
    )
    openwrt = lines("openwrt", text)
    assert "uci set firewall.roamlet_vpn.family='ipv6'" in openwrt and "dhcp.lan" not in openwrt
    aws = lines("aws", text)
    assert "Name=network-interface.ipv6-addresses.ipv6-address,Values=fd00:10::2" in aws
    assert "'IpProtocol=udp,FromPort=51821,ToPort=51821,Ipv6Ranges=[{CidrIpv6=2001:db8::2/128}]'" in aws


def test_for_aws():
    text = lines("aws")
    for part in (
        "modify-instance-attribute --instance-id $INSTANCE --no-source-dest-check",
        "'IpProtocol=udp,FromPort=51821,ToPort=51821,IpRanges=[{CidrIp=198.51.100.2/32}]'",
        "'IpProtocol=-1,IpRanges=[{CidrIp=192.168.20.0/24}]'",
        "create-route --route-table-id $TABLE --destination-cidr-block 192.168.20.0/24 --instance-id $INSTANCE",
    ):
        assert part in text
    unknown = lines("aws", TWO.replace("198.51.100.2", "beta.example.com"))
    assert "IpRanges=[{CidrIp=0.0.0.0/0}]" in unknown, "a name may be any address"


@pytest.mark.parametrize("form", FORMS)
def test_a_server_that_is_the_gateway_needs_no_routes_and_nothing_forwarded(form):
    text = lines(form, TWO.replace('gateway = "192.168.10.1"', 'gateway = "192.168.10.2"'))
    if form != "aws":  # there the gateway is the VPC, whatever the server is
        for wrong in ("dnat", "DNAT", "route replace", "Static routes", "network.roamlet_vpn"):
            assert wrong not in text
    assert "51821" in text


def test_a_site_without_endpoint_has_nothing_forwarded():
    text = TWO.replace('endpoint = "198.51.100.1:51820"\n', "")
    assert "Forward" not in lines("text", text)
    assert "dnat" not in lines("nftables", text)


def test_a_lan_without_ipv6_gets_no_routes_of_ipv6_and_one_with_it_does():
    assert "fd00" not in lines("text", OFFICES)
    text = OFFICES.replace('lans = ["192.168.10.0/24"]', 'lans = ["192.168.10.0/24", "fd00:10::/64"]')
    assert "fd00:30::/64 through the IPv6 address of 192.168.10.2" in lines("text", text)
    assert "from fd00:10::/64 to fd00:30::/64" in lines("text", text)
    assert "nft insert rule inet filter forward ip6 saddr fd00:10::/64 ip6 daddr fd00:30::/64 accept" in lines(
        "nftables", text
    )


def test_a_gateway_that_is_not_known_is_left_to_be_filled_in():
    assert "0.0.0.0/0,GATEWAY" in lines("text", TWO, "beta")
    assert "bytes" not in lines("text", TWO, "beta")


def test_the_bytes_of_option_121_are_those_of_the_rfc():
    text = TWO.replace("192.168.20.0/24", "10.17.0.0/16").replace('lan_address = "192.168.20.2"\n', "")
    network = parse(text).with_addresses()
    found = settings(network, network.site("alpha"))
    assert option_121_hex(found).startswith("10:0a:11:c0:a8:0a:02:18:0a:08:01:"), (
        "only the bytes that the length covers"
    )
    assert option_121(found).startswith("10.17.0.0/16,192.168.10.2,")


def test_without_the_servers_address_in_its_lan_nothing_can_be_said():
    with pytest.raises(VpnError, match=r"\[sites.beta\] has no lan_address, to which its gateway would send"):
        lines("text", TWO.replace('lan_address = "192.168.20.2"\n', ""), "beta")


@pytest.mark.parametrize("form", ["nftables", "openwrt", "aws"])
def test_the_commands_are_ones_that_a_shell_reads(form):
    done = subprocess.run(["sh", "-n"], input=lines(form, OFFICES), text=True, capture_output=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")


@pytest.fixture(scope="module")
def nft():
    """The command, installed or unpacked into a private folder, in a network namespace of its own."""
    if os.geteuid() != 0:
        pytest.skip("nft checks rules for root alone")
    command = ["nft"]
    if shutil.which("nft") is None:
        try:
            command = unpack_debian.command(unpack_debian.unpack(UNPACKED, ["nftables"]), "nft")
        except unpack_debian.CannotUnpack as error:
            pytest.skip(f"nft is not installed: {error}")
    return ["unshare", "--net", *command]


def test_nft_takes_the_rules_of_its_form(nft):
    rules = [
        line.removeprefix("nft ").replace("'", "") for line in lines("nftables").splitlines() if line.startswith("nft")
    ]
    assert rules
    head = "add table inet filter\nadd chain inet filter forward { type filter hook forward priority 0; }\n"
    done = subprocess.run(
        [*nft, "-c", "-f", "-"], input=head + "\n".join(rules) + "\n", text=True, capture_output=True, check=False
    )
    assert (done.returncode, done.stderr) == (0, "")


def test_for_ssh_it_is_port_22_of_those_who_are_called():
    text = TWO.replace("[network]", '[network]\nbackend = "ssh"')
    assert "Forward" not in lines("text", text)  # alpha calls
    assert "\n1. Forward TCP port 22 that comes from the internet to 192.168.20.2, port 22.\n" in lines(
        "text", text, "beta"
    )
    assert "tcp dport 22 dnat to 192.168.20.2:22" in lines("nftables", text, "beta")
    assert "proto='tcp'" in lines("openwrt", text, "beta") and "src_dport='22'" in lines("openwrt", text, "beta")
    assert "IpProtocol=tcp,FromPort=22,ToPort=22" in lines("aws", text, "beta")
    assert "FromPort" not in lines("aws", text)
    itself = text.replace('gateway = "192.168.10.1"', 'gateway = "192.168.10.2"')
    assert lines("text", itself).endswith("\n\nNothing is to be set: it calls the others.")
    assert "dport" not in lines("nftables", itself) and "proto=" not in lines("openwrt", itself)
