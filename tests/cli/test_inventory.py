"""From words and files to hosts: ranges, groups, settings, and what is refused by name."""

import json

import pytest

from roamlet.cli._errors import UsageError
from roamlet.cli.reaching.inventory import Host, expanded, folded, hosts_from, read_inventory

INI = """\
# a comment
lonely ansible_host=10.0.0.9 ansible_port=2200
here ansible_connection=local

[web]
web[01:03].example.com  ; of the office
web04.example.com ansible_user=deploy ansible_python_interpreter=/opt/py/bin/python3 note="a b"

[db]
db-[a:b] ansible_ssh_common_args='-o ProxyJump=gate -v'

[office:children]
web
db

[office:vars]
ansible_user=office
ansible_port = 2022

[web:vars]
ansible_user=www

[all:vars]
ansible_user=everybody
"""

TOML = """\
[groups]
web = ["web[01-03]", "deploy@extra:2222"]
all-of-it = ["web", "db"]

[hosts.web]
python = "python3.8"

[hosts.web02]
address = "10.0.0.2"
user = "root"
ssh_args = ["-v"]
via = "gate"
"""


def names(words, inventory=None):
    return [host.name for host in hosts_from(words, inventory)]


def written(tmp_path, name, text):
    path = tmp_path / name
    path.write_text(text)
    return read_inventory(path)


@pytest.mark.parametrize("name", ["hosts.toml", "hosts.ini", "hosts.json"])
def test_a_byte_order_mark_at_the_beginning_is_not_read_as_text(tmp_path, name):
    text = {".toml": '[groups]\nweb = ["a"]', ".ini": "[web]\na", ".json": '{"web": {"hosts": ["a"]}}'}[
        "." + name.partition(".")[2]
    ]
    assert written(tmp_path, name, "\ufeff" + text).groups["web"] == ["a"]
    (tmp_path / "names.txt").write_text("\ufeffalpha\n")
    assert names([f"@{tmp_path}/names.txt"]) == ["alpha"]


@pytest.mark.parametrize(
    ("word", "stands_for"),
    [
        ("alpha", ["alpha"]),
        ("web[08-11]", ["web08", "web09", "web10", "web11"]),
        ("web[8-11]", ["web8", "web9", "web10", "web11"]),
        ("web[a-c].x", ["weba.x", "webb.x", "webc.x"]),
        ("n[1:7:3]", ["n1", "n4", "n7"]),
        ("r[1-2]-[x,z]", ["r1-x", "r1-z", "r2-x", "r2-z"]),
        ("w[1,5-6]", ["w1", "w5", "w6"]),
        ("root@[fe80::1]:22", ["root@[fe80::1]:22"]),
    ],
)
def test_a_range_stands_for_all_its_hosts(word, stands_for):
    assert expanded(word) == stands_for


@pytest.mark.parametrize(
    ("word", "host"),
    [
        ("a", Host("a", "a")),
        ("me@a", Host("me@a", "a", "me")),
        ("me@a:22", Host("me@a:22", "a", "me", 22)),
        ("[::1]:2222", Host("[::1]:2222", "::1", None, 2222)),
        ("fe80::1", Host("fe80::1", "fe80::1")),
    ],
)
def test_a_word_says_user_address_and_port(word, host):
    assert hosts_from([word]) == [host]


def test_commas_separate_hosts_but_not_inside_of_a_range():
    assert names(["a,w[1,3]", "b"]) == ["a", "w1", "w3", "b"]


def test_a_file_names_one_host_a_line(tmp_path):
    (tmp_path / "hosts").write_text("# mine\nalpha\n\n  web[1-2]  # two\n")
    assert names([f"@{tmp_path}/hosts", "alpha"]) == ["alpha", "web1", "web2"]
    (tmp_path / "empty").write_text("# nothing\n")
    with pytest.raises(UsageError, match="there is no host in it"):
        names([f"@{tmp_path}/empty"])


def test_a_toml_file_has_groups_of_groups_and_settings_for_each(tmp_path):
    inventory = written(tmp_path, "hosts.toml", TOML)
    hosts = {host.name: host for host in hosts_from(["all-of-it"], inventory)}
    assert list(hosts) == ["web01", "web02", "web03", "deploy@extra:2222", "db"]
    assert hosts["web01"] == Host("web01", "web01", python="python3.8")
    assert hosts["web02"] == Host("web02", "10.0.0.2", "root", None, "python3.8", "gate", ("-v",))
    assert hosts["deploy@extra:2222"] == Host("deploy@extra:2222", "extra", "deploy", 2222, "python3.8")
    assert hosts_from(["me@web02"], inventory)[0].user == "me"  # what is typed wins


def test_all_is_every_host_of_a_toml_file_as_of_ansibles(tmp_path):
    inventory = written(tmp_path, "hosts.toml", TOML + '\n[hosts.alone]\nuser = "me"\n')
    hosts = {host.name: host for host in hosts_from(["all"], inventory)}
    assert {"web01", "web02", "web03", "deploy@extra:2222", "db", "alone"} <= set(hosts)
    assert hosts["alone"].user == "me"
    own = written(tmp_path, "own.toml", '[groups]\nall = ["web"]\nother = ["db"]\n')
    assert names(["all"], own) == ["web"]


def test_a_word_that_is_almost_a_group_is_refused_and_a_host_is_not(tmp_path):
    inventory = written(tmp_path, "hosts.toml", '[groups]\nweb = ["web1", "weba"]\ndatabases = ["db"]\n')
    for word, meant in (("webb", "web"), ("database", "databases")):
        with pytest.raises(UsageError, match=f"almost one: did you mean '{meant}'.*{word}:22"):
            names([word], inventory)
    for word in ("web2", "weba", "db", "beta", "webb:22", "me@webb", "webb.example.com"):
        assert names([word], inventory) == [word]
    assert names(["webb"]) == ["webb"]  # without an inventory


def check_ansible(inventory):
    hosts = {host.name: host for host in hosts_from(["all"], inventory)}
    web, db = "web01.example.com", "db-a"
    assert hosts["lonely"] == Host("lonely", "10.0.0.9", "everybody", 2200)
    assert hosts["here"].address is None
    assert hosts[web] == Host(web, web, "www", 2022)
    assert hosts["web04.example.com"].python == "/opt/py/bin/python3"
    assert hosts["web04.example.com"].user == "deploy"
    assert hosts[db] == Host(db, db, "office", 2022, ssh_args=("-o", "ProxyJump=gate", "-v"))
    assert len(names(["office"], inventory)) == 6


def test_an_ansible_inventory_is_read_with_its_rules(tmp_path):
    check_ansible(written(tmp_path, "hosts", INI))


def test_what_ansible_inventory_prints_is_read_too(tmp_path):
    web = [f"web0{number}.example.com" for number in range(1, 5)]
    db = ["db-a", "db-b"]
    arguments = {"ansible_ssh_common_args": "-o ProxyJump=gate -v", "ansible_user": "office", "ansible_port": 2022}
    office = {"ansible_user": "www", "ansible_port": 2022}
    said = {
        "_meta": {
            "hostvars": {
                "lonely": {"ansible_host": "10.0.0.9", "ansible_port": 2200, "ansible_user": "everybody"},
                "here": {"ansible_connection": "local"},
                **dict.fromkeys(web, office),
                web[3]: {**office, "ansible_user": "deploy", "ansible_python_interpreter": "/opt/py/bin/python3"},
                **dict.fromkeys(db, arguments),
            }
        },
        "all": {"children": ["ungrouped", "office"]},
        "office": {"children": ["web", "db"]},
        "ungrouped": {"hosts": ["lonely", "here"]},
        "web": {"hosts": web},
        "db": {"hosts": db},
    }
    check_ansible(written(tmp_path, "hosts.json", json.dumps(said)))


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("a.toml", "[groups]\nweb = 5\n", "the group 'web' is no list of names"),
        ("a.toml", "[hosts.a]\npots = 5\n", r"\[hosts.a\] has pots = 5; known are user, port"),
        ("a.toml", "[hosts.a]\nport = '5'\n", r"\[hosts.a\] has port = '5'"),
        ("a.toml", "[group]\n", r"\[group\] is unknown; there are \[groups\] and \[hosts.NAME\]"),
        ("a.toml", "[groups\n", "cannot be read: .*line 1"),
        ("a.yml", "all:\n", "ansible-inventory -i .*a.yml --list > a.json"),
        ("a.json", "[]", "is not what ansible-inventory --list prints"),
        ("a", "[a:children]\nb\n", r"\[a:children\] names 'b', and there is no such group"),
        ("a", "[a:children]\nb\n[b:children]\na\n", "the group 'a' contains itself: a > b > a"),
        ("a", "x ansible_port=ssh\n", "x: ansible_port='ssh' is no port"),
        ("a", "x y='z\n", "line 1: No closing quotation"),
    ],
)
def test_a_wrong_file_is_refused_with_what_is_wrong_in_it(tmp_path, name, text, message):
    with pytest.raises(UsageError, match=message):
        written(tmp_path, name, text)


def test_a_group_that_contains_itself_is_refused(tmp_path):
    inventory = written(tmp_path, "a.toml", '[groups]\na = ["b"]\nb = ["a"]\n')
    with pytest.raises(UsageError, match="the group 'a' contains itself: a > b > a"):
        names(["a"], inventory)


@pytest.mark.parametrize(
    ("hosts", "short"),
    [
        (["web01", "web02", "web03", "db"], "web[01-03],db"),
        (["a1", "a2", "a4"], "a[1-2,4]"),
        (["a1.x", "a2.x", "b"], "a[1-2].x,b"),
        (["only7"], "only7"),
        (["a9", "a10"], "a9,a10"),
    ],
)
def test_names_are_folded_so_that_they_can_be_typed_again(hosts, short):
    assert folded(hosts) == short
    assert names([short]) == hosts
