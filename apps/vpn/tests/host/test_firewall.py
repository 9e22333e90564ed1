"""The chains of a firewall, out of what nft and the old iptables print."""

from roamlet_vpn.host.check import firewall

NFT = """\
table inet guard {
	set offices {
		type ipv4_addr
		elements = { 10.0.0.1 }
	}

	chain input {
		type filter hook input priority filter; policy accept;
		ct state established,related accept
		iifname { "lo", "eth0" } jump checked
	}

	chain checked {
		tcp dport 22 accept
		reject # handle 7
	}

	chain forward {
		type filter hook forward priority filter; policy accept;
		counter packets 0 bytes 0 comment "drop nothing"
	}
}
# Warning: table ip nat is managed by iptables-nft, do not touch!
table ip nat {
	chain POSTROUTING {
		type nat hook postrouting priority srcnat; policy accept;
		oifname "eth0" counter packets 0 bytes 0 masquerade
	}
}
table netdev edge {
	chain in {
		type filter hook ingress device "eth0" priority 0; policy drop;
	}
}
"""
LEGACY = """\
*filter
:INPUT ACCEPT [0:0]
:FORWARD DROP [12:700]
:DOCKER - [0:0]
-A INPUT -j DOCKER
-A DOCKER -p tcp -j REJECT --reject-with tcp-reset
COMMIT
*nat
:POSTROUTING ACCEPT [0:0]
-A POSTROUTING -s 10.0.0.0/8 -o eth0 -j SNAT --to-source 198.51.100.1
COMMIT
"""


def told(chains):
    return [
        (one["tool"], one["family"], one["table"], one["name"], one["hook"], one["drops"], one["rewrites"])
        for one in chains
    ]


def test_chains_of_nft_with_what_those_do_that_they_jump_to():
    assert told(firewall.of_nft(NFT)) == [
        ("nft", "inet", "guard", "input", "input", True, False),
        ("nft", "inet", "guard", "forward", "forward", False, False),
        ("iptables", "ip", "nat", "POSTROUTING", "postrouting", False, True),
        ("nft", "netdev", "edge", "in", "ingress", True, False),
    ]


def test_chains_of_the_old_iptables():
    assert told(firewall.of_iptables(LEGACY, "iptables")) == [
        ("iptables", "ip", "filter", "INPUT", "input", True, False),
        ("iptables", "ip", "filter", "FORWARD", "forward", True, False),
        ("iptables", "ip", "nat", "POSTROUTING", "postrouting", False, True),
    ]


def test_tools_that_are_not_there_or_say_nothing_tell_nothing(server, monkeypatch):
    monkeypatch.setenv("PATH", f"{server.folder}/bin")
    assert firewall.chains() is None
    server.program("nft", "#!/bin/sh\nexit 1\n")
    assert firewall.chains() is None
    server.program("nft", "#!/bin/sh\n")
    assert firewall.chains() == []


def test_an_old_iptables_beside_nft_counts_too(server, monkeypatch):
    monkeypatch.setenv("PATH", f"{server.folder}/bin:/usr/bin:/bin")
    server.program("nft", "#!/bin/sh\n")
    server.program("iptables", "#!/bin/sh\necho 'iptables v1.8.9 (legacy)'\n")
    server.program("iptables-save", f"#!/bin/sh\ncat <<'END'\n{LEGACY}END\n")
    server.program("ip6tables", "#!/bin/sh\necho 'ip6tables v1.8.9 (nf_tables)'\n")
    server.program("ip6tables-save", f"#!/bin/sh\ncat <<'END'\n{LEGACY}END\n")
    assert [one["tool"] for one in firewall.chains()] == ["iptables"] * 3
