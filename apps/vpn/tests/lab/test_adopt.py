"""A pair of servers that somebody has joined by hand, with wg and an editor, is taken over by the commands that a person types."""

import pytest

from roamlet.cli import main
from roamlet_vpn.model.file import read

pytestmark = [pytest.mark.lab, pytest.mark.timeout(300)]

CONFIG = """\
[Interface]
# the office of {name}
Address = 10.8.1.{number}/24
ListenPort = 51820
PrivateKey = {private}
{more}
[Peer]
# {other}
PublicKey = {public}
AllowedIPs = 10.8.1.{other_number}/32, {lan}
Endpoint = {endpoint}:51820
PersistentKeepalive = 25
"""
FORWARDING = "echo net.ipv4.ip_forward=1 >/etc/sysctl.d/router.conf; sysctl -qp /etc/sysctl.d/router.conf"


def made_by_hand(offices):
    """alpha and beta as somebody has set them up who knows WireGuard; alpha's configuration is overwritten by wg-quick."""
    pair = [offices.lab.office(name) for name in ("alpha", "beta")]
    private = {office.name: office.server.run(["wg", "genkey"]).stdout.strip() for office in pair}
    for number, (office, other) in enumerate((pair, pair[::-1]), 1):
        text = CONFIG.format(
            name=office.name,
            number=number,
            private=private[office.name],
            more="SaveConfig = true\n" if office.name == "alpha" else "",
            other=other.name,
            public=other.server.run(["wg", "pubkey"], data=private[other.name]).stdout.strip(),
            other_number=3 - number,
            lan=other.place.lan,
            endpoint=other.place.wan,
        )
        office.server.shell("mkdir -p -m 700 /etc/wireguard")
        office.server.write("/etc/wireguard/wg0.conf", text, 0o600)
        office.server.shell(f"{FORWARDING}; wg-quick up wg0")
    return private


def looks(offices):
    """What is there, and since when."""
    look = (
        "stat -c '%n %a %Y %Z' /etc/wireguard/* /etc/sysctl.d/*; wg show wg0 latest-handshakes; wg show wg0 public-key"
    )
    return {name: (offices.state(name), offices.server(name).shell(look)) for name in ("alpha", "beta")}


def test_a_pair_made_by_hand_is_taken_over_without_any_change(offices, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    private = made_by_hand(offices)
    try:
        assert offices.reaches("alpha", "beta")
        before = looks(offices)
        with offices.client("alpha").pings(offices.client("beta").address, every=0.1) as pings:
            assert main(["vpn", "init", "--adopt", "--ssh-config", offices.lab.ssh_config, "alpha", "beta"]) == 0
            adopting = capsys.readouterr()
            assert main(["vpn", "plan"]) == 0
            planned = capsys.readouterr()
            assert main(["vpn", "apply", "--yes"]) == 0
            applied = capsys.readouterr()
        assert pings.lost == 0 and len(pings.answered) > 10
        assert "alpha: SaveConfig = true: wg-quick overwrites the configuration" in adopting.err
        assert "Nothing would change: the plan of this file is empty." in adopting.err
        for said in (planned, applied):
            assert said.out.endswith("Nothing to do: every server is as the file says.\n")
        assert looks(offices) == before
        network = read(tmp_path / "network.toml")
        assert network.sites == read(tmp_path / "network.toml").with_addresses().sites
        assert [(site.name, str(site.address), str(site.lans[0])) for site in network.sites] == [
            ("alpha", "10.8.1.1", "192.168.10.0/24"),
            ("beta", "10.8.1.2", "192.168.20.0/24"),
        ]
        said = "".join(one.out + one.err for one in (adopting, planned, applied))
        assert not any(key in said + (tmp_path / "network.toml").read_text() for key in private.values())
    finally:
        for name in ("alpha", "beta"):
            offices.server(name).shell("rm -f /etc/sysctl.d/router.conf")
