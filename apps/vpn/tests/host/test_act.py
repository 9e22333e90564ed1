"""The actions on one server: keys stay and are found again, and wg never gets a configuration that would end a tunnel."""

import hashlib
import os
import stat
from pathlib import Path

import pytest

from apps.vpn.tests.host.conftest import key, public
from roamlet_vpn.host import act, forward, gather, live, rollback, system

PEER = public(key("peer"))
TOKEN = "0123456789abcdef"
TEXT = f"""\
# alpha
[Interface]
Address = 10.8.1.1/24
ListenPort = 51820
MTU = 1380
PrivateKey = (kept on the server)
PostUp = echo up

[Peer]
# beta
PublicKey = {PEER}
AllowedIPs = 10.8.1.2/32
AllowedIPs = 192.168.20.0/24
Endpoint = 198.51.100.2:51820
"""


def write(server, text=TEXT, public_key=None, before=None, **more):
    public_key = public_key or act.make_key("wg0")
    act._DO["write_config"](
        "wg0", {"do": "write_config", "text": text, "public_key": public_key, "before": before, **more}
    )
    return public_key


def digest(path):
    return hashlib.sha256(path.read_bytes()).hexdigest()


def test_a_key_is_made_once_and_only_its_public_half_is_told(server):
    before = os.umask(0)
    try:
        told = act.make_key("wg0")
    finally:
        os.umask(before)
    private = server.waiting.read_text().strip()
    assert told == public(private) == act.make_key("wg0")
    assert stat.S_IMODE(server.waiting.stat().st_mode) == 0o600
    assert private not in server.said  # keys go by pipes: the words of a command can be read by everybody


def test_the_configuration_gets_the_key_that_waits_and_that_waits_no_longer(server):
    told = act.make_key("wg0")
    private = server.waiting.read_text().strip()
    write(server, public_key=told)
    assert server.config.read_text() == TEXT.replace("(kept on the server)", private)
    assert stat.S_IMODE(server.config.stat().st_mode) == 0o600
    assert not server.waiting.exists()


def test_writing_twice_changes_nothing_the_second_time(server):
    told = write(server)
    os.utime(server.config, (1, 1))
    write(server, public_key=told)
    assert server.config.stat().st_mtime == 1


def test_the_key_of_the_configuration_stays_while_another_one_waits(server):
    told = write(server)
    act.make_key("wg0")
    write(server, TEXT.replace("1380", "1300"), told, digest(server.config))
    assert public(system.private_key_in(server.config.read_text())) == told
    assert server.waiting.exists()


def test_a_key_that_is_not_here_is_refused_and_the_file_stays(server):
    write(server)
    was = server.config.read_text()
    with pytest.raises(system.CannotDo, match=r"the private key of .* is not on this server: plan again"):
        write(server, public_key=public(key("elsewhere")), before=digest(server.config))
    assert server.config.read_text() == was


def test_a_file_that_was_edited_since_the_plan_is_left_alone(server):
    told = write(server)
    server.config.write_text(server.config.read_text() + "# by hand\n")
    with pytest.raises(system.CannotDo, match=r"wg0.conf was changed since the plan was made"):
        write(server, TEXT.replace("1380", "1300"), told, "0" * 64)
    assert server.config.read_text().endswith("# by hand\n")


def test_preshared_keys_stay_with_their_peers_also_when_those_get_new_keys(server):
    shared, other = key("shared"), public(key("other"))
    line = "PresharedKey = (kept on the server)\n"
    told = act.make_key("wg0")
    private = server.waiting.read_text().strip()
    server.config.write_text(TEXT.replace("(kept on the server)", private) + f"PresharedKey = {shared}\n")
    write(server, TEXT + line, told, digest(server.config))
    assert server.config.read_text().count(shared) == 1
    text = TEXT.replace(PEER, other) + line
    with pytest.raises(system.CannotDo, match="the preshared key for the peer"):
        write(server, text, told, digest(server.config))
    write(server, text, told, digest(server.config), preshared_from={other: PEER})
    assert server.config.read_text().count(shared) == 1


def test_keys_in_comments_stay_where_they_are(server):
    old, other, hook = key("old"), key("other"), key("hook")
    told = act.make_key("wg0")
    mine = server.waiting.read_text().strip()
    text = f"""\
# PrivateKey = {old}
[Interface]
Address = 10.8.1.1/24
#PrivateKey = {other}
PrivateKey = {mine} # since March, before it was {old}
PostUp = notify {hook}
# S\xfcd\xa0\x1bost
"""
    server.config.write_bytes(text.encode("latin-1"))
    shown = gather._config("wg0")["text"]
    assert shown.count("(kept on the server)") == 5 and old not in shown
    wanted = shown.replace("Address = 10.8.1.1/24\n", "Address = 10.8.1.1/24\nMTU = 1300\n")
    write(server, wanted, told, digest(server.config))
    expected = text.replace("Address = 10.8.1.1/24\n", "Address = 10.8.1.1/24\nMTU = 1300\n")
    assert server.config.read_bytes() == expected.encode("latin-1")


def test_a_rotated_key_leaves_the_comments_behind_it(server):
    server.config.write_text(TEXT.replace("(kept on the server)", f"{key('mine')} # not {key('old')}"))
    shown = gather._config("wg0")["text"]
    told = act.make_key("wg0")
    new = server.waiting.read_text().strip()
    write(server, shown, told, digest(server.config))
    assert server.config.read_text() == TEXT.replace("(kept on the server)", f"{new} # not {key('old')}")


def test_a_placeholder_elsewhere_is_refused(server):
    with pytest.raises(system.CannotDo, match="holds a key that stayed on this server"):
        write(server, TEXT.replace("echo up", "wg set %i private-key <(echo (kept on the server))"))
    assert not server.config.exists()


@pytest.mark.parametrize(
    "text", ["", "\n# nothing\n", TEXT.replace("PrivateKey", "# PrivateKey"), TEXT.replace("(kept on the server)", "")]
)
def test_wg_never_gets_a_configuration_without_a_key(server, text):
    server.config.write_text(text)
    with pytest.raises(system.CannotDo, match="no valid PrivateKey, and was not used"):
        act._DO["sync"]("wg0", {"do": "sync", "keep_endpoints": []})
    with pytest.raises(system.CannotDo, match=r"^refused: the configuration for wg0"):
        live.sync("wg0", text)
    assert server.synced is None and "syncconf" not in server.said


def test_wg_gets_what_is_its_own_and_no_endpoint_that_was_learnt(server):
    write(server)
    act._DO["sync"]("wg0", {"do": "sync", "keep_endpoints": []})
    private = system.private_key_in(server.config.read_text())
    lines = ["[Interface]", "ListenPort = 51820", f"PrivateKey = {private}", "[Peer]", f"PublicKey = {PEER}"]
    lines += ["AllowedIPs = 10.8.1.2/32", "AllowedIPs = 192.168.20.0/24", "Endpoint = 198.51.100.2:51820"]
    assert server.synced.splitlines() == lines
    act._DO["sync"]("wg0", {"do": "sync", "keep_endpoints": [PEER]})
    assert server.synced.splitlines() == lines[:-1]
    assert private not in server.said


def test_a_name_that_does_not_resolve_keeps_nobody_from_the_rest(server, monkeypatch):
    def no_answer(*question):
        raise OSError("Temporary failure in name resolution")

    monkeypatch.setattr(act.socket, "getaddrinfo", no_answer)
    write(server, TEXT.replace("198.51.100.2", "vpn.example.com"))
    act._DO["sync"]("wg0", {"do": "sync", "keep_endpoints": []})
    assert "Endpoint" not in server.synced and "AllowedIPs = 10.8.1.2/32" in server.synced


@pytest.fixture
def sysctls(server, monkeypatch):
    """Settings of a server that forwards nothing, and has no other devices than those of a small machine."""
    values = {
        "net/ipv4/ip_forward": "0",
        "net/ipv6/conf/all/forwarding": "0",
        "net/ipv6/conf/eth0.7/accept_ra": "1",
        "kinds": [""],
    }
    monkeypatch.setattr(live, "sysctl", values.get)
    monkeypatch.setattr(live, "set_sysctl", values.__setitem__)
    monkeypatch.setattr(
        gather, "devices", lambda: {str(n): {"up": True, "kind": kind} for n, kind in enumerate(values["kinds"])}
    )
    monkeypatch.setattr(gather, "SYSCTL_FOLDERS", (str(server.folder / "sysctl.d"),))
    monkeypatch.setattr(gather, "SYSCTL_CONF", str(server.folder / "sysctl.conf"))
    return values


def forwarded(family=4, devices=(), live=True, persistent=True):
    act._DO["forwarding"]("wg0", {"family": family, "live": live, "persistent": persistent, "accept_ra": list(devices)})


def put_back():
    forward.put_back("wg0")


def test_settings_for_good_stand_in_a_file_with_what_they_were(server, sysctls):
    forwarded()
    forwarded(6, ["eth0.7"])
    forwarded()
    assert Path(forward.SYSCTL_FILE).read_text().splitlines()[1:] == [
        "# before: net/ipv4/ip_forward = 0",
        "net/ipv4/ip_forward = 1",
        "# before: net/ipv6/conf/eth0.7/accept_ra = 1",
        "net/ipv6/conf/eth0.7/accept_ra = 2",
        "# before: net/ipv6/conf/all/forwarding = 0",
        "net/ipv6/conf/all/forwarding = 1",
    ]
    assert forward.settings() == forward.settings(["eth0.7"]) == sorted(name for name in sysctls if "/" in name)


def test_what_was_turned_on_is_as_it_was_before_when_nobody_needs_it(server, sysctls):
    before = dict(sysctls)
    forwarded()
    forwarded(6, ["eth0.7"])
    assert sysctls != before
    put_back()
    assert sysctls == before and not os.path.exists(forward.SYSCTL_FILE)


def test_what_was_on_before_stays_on(server, sysctls):
    sysctls["net/ipv4/ip_forward"] = "1"
    forwarded(live=False)
    put_back()
    assert sysctls["net/ipv4/ip_forward"] == "1" and not os.path.exists(forward.SYSCTL_FILE)


@pytest.mark.parametrize("kind", ["bridge", "tun", "wireguard", "ppp"])
def test_a_device_that_is_there_to_be_forwarded_to_keeps_it_on_until_a_restart(server, sysctls, kind):
    forwarded()
    forwarded(6, ["eth0.7"])
    sysctls["kinds"] = ["", kind]
    put_back()
    assert [sysctls[name] for name in forward.FORWARDING.values()] == ["1", "1"]
    assert sysctls["net/ipv6/conf/eth0.7/accept_ra"] == "2", "who forwards needs that for its default route"
    assert not os.path.exists(forward.SYSCTL_FILE)


def test_another_file_that_sets_it_keeps_it_on(server, sysctls):
    forwarded()
    forwarded(6)
    (server.folder / "sysctl.d" / "20-router.conf").write_text("net.ipv4.ip_forward = 1\n")
    put_back()
    assert [sysctls[name] for name in forward.FORWARDING.values()] == ["1", "0"]


def test_another_configuration_of_wireguard_keeps_all_of_it(server, sysctls):
    forwarded()
    server.config.with_name("wg1.conf").write_text("")
    put_back()
    assert sysctls["net/ipv4/ip_forward"] == "1" and os.path.exists(forward.SYSCTL_FILE)


def test_a_configuration_is_put_aside_beside_those_of_before(server, monkeypatch):
    monkeypatch.setattr(live, "exists", lambda interface: False)
    monkeypatch.setattr(forward, "put_back", lambda interface: None)
    for text in ("one", "one", "two"):
        server.config.write_text(text)
        assert act._aside(str(server.config)) in act._files("wg0", [])
        act._DO["down"]("wg0", {"do": "down", "keep_config": False})
        assert not server.config.exists()
    aside = {path.name: path.read_text() for path in server.config.parent.iterdir()}
    assert aside == {"wg0.conf.removed": "one", "wg0.conf.removed.2": "two"}


def test_what_is_no_action_is_refused_before_anything_is_done(server):
    with pytest.raises(ValueError, match="is no action; is it of another version of roamlet"):
        act.act("wg0", [{"do": "make_key"}, {"do": "format"}], TOKEN, 10)
    assert not server.waiting.exists() and not os.path.exists(rollback.FOLDER)


def test_an_action_that_fails_brings_everything_back(server):
    told = write(server)
    was = server.config.read_text()
    text = TEXT.replace("1380", "1300")
    actions = [
        {"do": "write_config", "text": text, "public_key": told, "before": digest(server.config)},
        {"do": "enable_unit", "name": "wg-quick@wg7.service"},
    ]
    ended = act.act("wg0", actions, TOKEN, 30)
    assert ended["done"] == 1 and ended["error"] == "enable_unit: 'wg-quick@wg7.service' is not the unit of wg0"
    assert ended["outcome"]["outcome"] == rollback.ROLLED_BACK
    assert server.config.read_text() == was
