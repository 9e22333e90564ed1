"""What is known of the servers of a network without a connection to them."""

from roamlet_vpn.model.file import parse
from roamlet_vpn.servers import Servers

FILE = """
[network]
tunnel = ["10.8.1.0/24", "fd00:8::/64"]

[sites.alpha]
server = "root@10.8.1.1"
lans = ["192.168.10.0/24"]
endpoint = "198.51.100.1:51820"

[sites.beta]
server = "root@[fd00:8::2]"
lans = ["192.168.20.0/24"]
endpoint = "198.51.100.2:51820"

[sites.gamma]
server = "root@192.168.20.7"
lans = ["192.168.30.0/24"]
endpoint = "198.51.100.3:51820"

[sites.delta]
server = "root@198.51.100.4"
lans = ["192.168.40.0/24"]
endpoint = "198.51.100.4:51820"
"""


def test_a_server_is_reached_through_the_tunnel_by_an_address_of_either_range_or_of_a_lan():
    with Servers(parse(FILE), ssh_config="/dev/null") as servers:
        assert servers.reached_through_tunnel(["alpha", "beta", "gamma", "delta"]) == {"alpha", "beta", "gamma"}
