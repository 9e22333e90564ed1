"""The texts of the ssh backend's files: scripts, units, what sshd and ssh read. Pure; ssh/setup.py says where each belongs."""

import shlex

from roamlet_vpn.host.tunnel import FOLDER, USER
from roamlet_vpn.ssh.links import End

QUEUE = 2000  # packets: the 500 of a tun device overflow while ssh waits for an answer at 80 ms
METRIC = 512  # of the routes: those of WireGuard come before them, so that a network goes over while both are there
ALIVE = 5  # seconds between signs of life; three that are missing end the connection, and it is made anew
AGAIN = 5  # seconds until a tunnel that has ended is made anew

SSHD = f"""\
# Written by roamlet vpn: the user that tunnels log in as, which may do nothing else.
Match User {USER}
    AuthorizedKeysFile {FOLDER}/authorized_keys
    PermitTunnel point-to-point
    AllowTcpForwarding no
    X11Forwarding no
    PermitTTY no
    ForceCommand /bin/false
    ClientAliveInterval {ALIVE}
    ClientAliveCountMax 3
Match all
"""
# A caller is started again for ever: a line that is down for ten minutes would else use up all the starts that systemd allows.
_CALLING = """\
[Unit]
Description=roamlet vpn: ssh tunnel to {peer}
After=network-online.target
Wants=network-online.target
StartLimitIntervalSec=0

[Service]
ExecStart=/bin/sh {folder}/{name}
Restart=always
RestartSec={again}

[Install]
WantedBy=multi-user.target
"""
_ACCEPTING = """\
[Unit]
Description=roamlet vpn: device of the ssh tunnel from {peer}
After=network.target

[Service]
Type=oneshot
RemainAfterExit=yes
ExecStart=/bin/sh {folder}/{name}

[Install]
WantedBy=multi-user.target
"""


def unit(end: End) -> str:
    """The unit of systemd: of an end that calls, one that is started again for ever; else one that makes the device."""
    text = _CALLING if end.calls else _ACCEPTING
    return text.format(peer=end.peer, name=end.name, folder=FOLDER, again=AGAIN)


def call_script(end: End, peer_device: str, host: str) -> str:
    """What the caller's server runs for as long as the tunnel is to be there: its end of the device, then ssh in the foreground.

    With the argument `device` it makes the device, and does not call.
    """
    settings = {
        "BatchMode": "yes",
        "ConnectTimeout": "15",
        "ExitOnForwardFailure": "yes",  # a tunnel that could not be made is no tunnel: ssh ends, and is started again
        "HostKeyAlias": end.peer,
        "IdentitiesOnly": "yes",
        "IdentityFile": f"{FOLDER}/id_ed25519",
        "IPQoS": "throughput",
        "ServerAliveCountMax": "3",
        "ServerAliveInterval": str(ALIVE),
        "StrictHostKeyChecking": "yes",
        "Tunnel": "point-to-point",
        "UserKnownHostsFile": f"{FOLDER}/known_hosts",
    }
    words = ["ssh", "-F", "/dev/null", "-N", "-w", f"{end.device[3:]}:{peer_device[3:]}"]
    words += [word for name, value in settings.items() for word in ("-o", f"{name}={value}")]
    words.append(f"{USER}@{host}")
    return accept_script(end) + f'[ "$1" != device ] || exit 0\nexec {shlex.join(words)}\n'


def accept_script(end: End) -> str:
    """What the callee's server runs once: a device that belongs to the user that the caller logs in as, which so needs no root."""
    device = end.device
    lines = [
        "# Written by roamlet vpn: change network.toml, not this file, and run `roamlet vpn apply`",
        "set -e",
        f"[ -e /sys/class/net/{device} ] || ip tuntap add dev {device} mode tun user {USER}",
        f"ip address replace {end.address} peer {end.peer_address} dev {device}",
        f"ip link set dev {device} mtu {end.mtu} txqueuelen {QUEUE} up",
        *(f"ip route replace {lan} dev {device} metric {METRIC}" for lan in end.routes),
    ]
    return "\n".join(lines) + "\n"


def allowed_key(device: str, key: str) -> str:
    """A line of authorized_keys: this key may have this device, and nothing else."""
    return f'restrict,tunnel="{device[3:]}" {key}\n'
