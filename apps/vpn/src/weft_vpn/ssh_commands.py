"""What plan, apply and down do at the command line for a network of ssh tunnels."""

import sys

from weft_vpn import ssh_backend
from weft_vpn.network import Network
from weft_vpn.servers import Servers

__all__ = ["apply", "down", "plan"]


def plan(network: Network) -> int:
    """Says who calls whom. What runs already is not looked at, because apply leaves it as it is."""
    lacking = [site.name for site in network.sites if site.address is None]
    if lacking:
        raise ssh_backend.SshBackendError(
            f"{', '.join(lacking)}: no address in the tunnel; write one for each into the file, such as "
            f'`address = "{network.with_addresses().site(lacking[0]).address}"`: devices are called after them'
        )
    for link in ssh_backend.links(network):
        sys.stdout.write(
            f"{link.caller.name} ({link.caller_device}) calls {link.callee.name} ({link.callee_device}) by ssh at "
            f"{link.callee.endpoint.host if link.callee.endpoint else ''}, and again whenever that ends\n"
        )
    return 0


def apply(network: Network, servers: Servers) -> int:
    """Makes the tunnels. What is right already is left as it is."""
    ssh_backend.up(network, servers)
    sys.stdout.write("the tunnels are made; `weft vpn check` measures them\n")
    return 0


def down(network: Network, servers: Servers) -> int:
    """Takes them away, their keys and their user with them."""
    ssh_backend.down(network, servers)
    sys.stdout.write(f"no ssh tunnels of weft are left on {', '.join(site.name for site in network.sites)}\n")
    return 0
