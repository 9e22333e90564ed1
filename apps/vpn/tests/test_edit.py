"""Changes in network.toml: comments and everything else stay where they are, and the file is written whole or not at all."""

import os
import tomllib

import pytest

from roamlet_vpn.errors import VpnError
from roamlet_vpn.model.edit import (
    FileChange,
    changed_in_file,
    new_text,
    with_changes,
    with_site,
    with_value,
    without_site,
    write,
)
from roamlet_vpn.model.file import parse

TEXT = """\
# Ours since 2019. Ask Anna.
[network]
tunnel = "10.8.1.0/24"  # free everywhere

# The head office.
# Its gateway is a FritzBox.
[sites.alpha]
server = "root@alpha"   # in the cellar
lans = ["192.168.10.0/24"]
endpoint = "a:1"

# Second floor.
[sites.beta]
server = "root@beta"
lans = [
    "192.168.20.0/24",  # desks
]
mtu = 1400 # DSL

# The warehouse.
[sites.gamma]
server = "root@gamma"
endpoint = "c:1"
# nothing follows
"""


def test_an_address_comes_below_the_server_and_nothing_else_moves():
    text = with_changes(TEXT, [FileChange("alpha", "address", "10.8.1.1"), FileChange("beta", "address", "10.8.1.2")])
    assert text == TEXT.replace("cellar\n", 'cellar\naddress = "10.8.1.1"\n').replace(
        'beta"\n', 'beta"\naddress = "10.8.1.2"\n'
    )
    assert [str(site.address) for site in parse(text).sites] == ["10.8.1.1", "10.8.1.2", "None"]


def test_a_value_is_replaced_in_its_line_and_its_comment_stays():
    assert with_value(TEXT, "beta", "mtu", 1380) == TEXT.replace("mtu = 1400", "mtu = 1380")
    text = with_value(TEXT, "beta", "lans", ["192.168.21.0/24"])
    assert tomllib.loads(text)["sites"]["beta"]["lans"] == ["192.168.21.0/24"], "of several lines: tomlkit does it"
    assert "# The warehouse." in text


def test_a_site_comes_at_the_end():
    text = with_site(TEXT, "delta", {"server": "root@delta", "sudo": True, "listen_port": 5, "lans": ["10.0.0.0/8"]})
    assert (
        text == TEXT + '\n[sites.delta]\nserver = "root@delta"\nsudo = true\nlisten_port = 5\nlans = ["10.0.0.0/8"]\n'
    )
    with pytest.raises(VpnError, match="there is a site 'alpha' already; `roamlet vpn remove alpha` takes it out"):
        with_site(TEXT, "alpha", {"server": "x"})


@pytest.mark.parametrize(
    ("name", "first", "after"),
    [("alpha", "# The head", "# Second"), ("beta", "# Second", "# The ware"), ("gamma", "# The ware", None)],
)
def test_a_site_goes_with_the_comment_above_it_and_no_other(name, first, after):
    end = TEXT.index(after) if after else len(TEXT)
    expected = TEXT[: TEXT.index(first)] + TEXT[end:]
    assert without_site(TEXT, name) == expected.rstrip("\n") + "\n"


def test_what_is_added_and_removed_again_leaves_the_text_as_it_was():
    assert without_site(with_site(TEXT, "delta", {"server": "d"}), "delta") == TEXT


def test_a_site_that_is_not_there_is_refused_by_name():
    with pytest.raises(VpnError, match="there is no site 'delta'; the file has alpha, beta, gamma"):
        without_site(TEXT, "delta")


def test_tables_written_in_one_line_are_changed_too():
    text = '[sites]\nalpha = {server = "a"} # here\nbeta = {server = "b"}\n'
    assert tomllib.loads(without_site(text, "beta")) == {"sites": {"alpha": {"server": "a"}}}
    assert "# here" in without_site(text, "beta")
    assert tomllib.loads(with_value(text, "beta", "mtu", 1300))["sites"]["beta"] == {"server": "b", "mtu": 1300}


def test_a_header_inside_a_text_does_not_deceive():
    text = TEXT.replace('"root@beta"', '"""root@beta\n[sites.gamma]\n"""')
    assert set(tomllib.loads(without_site(text, "gamma"))["sites"]) == {"alpha", "beta"}


def test_quotes_in_a_value_survive():
    text = with_value(TEXT, "alpha", "python", 'C:\\a "b"')
    assert tomllib.loads(text)["sites"]["alpha"]["python"] == 'C:\\a "b"'


def test_a_new_file_says_what_it_was_given():
    text = new_text({"tunnel": "10.9.0.0/24"}, {"alpha": {"server": "a", "endpoint": "a:1"}, "beta": {"server": "b"}})
    assert text.startswith("# The offices of this network")
    network = parse(text)
    assert str(network.tunnel) == "10.9.0.0/24"
    assert [site.server for site in network.sites] == ["a", "b"]


def test_the_file_is_written_with_its_mode_through_a_link_and_leaves_nothing_beside(tmp_path):
    (tmp_path / "real.toml").write_text(TEXT)
    (tmp_path / "real.toml").chmod(0o640)
    (tmp_path / "network.toml").symlink_to("real.toml")
    changed_in_file(tmp_path / "network.toml", lambda text: text + "# more\n")
    assert (tmp_path / "real.toml").read_text() == TEXT + "# more\n"
    assert (tmp_path / "real.toml").stat().st_mode & 0o777 == 0o640
    assert (tmp_path / "network.toml").is_symlink()
    assert sorted(os.listdir(tmp_path)) == ["network.toml", "real.toml"]


def test_a_text_that_stays_the_same_is_not_written(tmp_path):
    path = tmp_path / "network.toml"
    path.write_text(TEXT)
    os.utime(path, (1, 1))
    changed_in_file(path, lambda text: text)
    assert path.stat().st_mtime == 1


def test_a_write_that_fails_leaves_the_old_file_and_nothing_beside(tmp_path, monkeypatch):
    path = tmp_path / "network.toml"
    path.write_text(TEXT)

    def fails(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", fails)
    with pytest.raises(VpnError, match=r"network.toml cannot be written: No space left on device"):
        write(path, "half")
    assert path.read_text() == TEXT
    assert os.listdir(tmp_path) == ["network.toml"]


def test_lines_that_end_as_on_windows_go_on_ending_so(tmp_path):
    path = tmp_path / "network.toml"
    path.write_bytes(TEXT.replace("\n", "\r\n").encode())
    changed_in_file(path, lambda text: text + "# more\n")
    assert path.read_bytes() == (TEXT + "# more\n").replace("\n", "\r\n").encode()


def test_a_file_that_was_changed_meanwhile_so_that_nothing_fits_is_left_alone(tmp_path):
    path = tmp_path / "network.toml"
    path.write_text("[network]\n")
    with pytest.raises(VpnError, match=r"network.toml was changed meanwhile, and cannot be changed now \('sites'\)"):
        changed_in_file(path, lambda text: with_value(text, "alpha", "address", "10.8.1.1"))
    assert path.read_text() == "[network]\n"
