"""A timer of systemd that follows names: where a peer has been silent, its endpoint's name is looked up again.

wg looks a name up once, when it reads its configuration. When both ends of a tunnel have got new addresses, neither knows the
other's until the name is looked up again. A shell script does so, every half minute, and for silent peers alone, so
that no learnt endpoint is lost.
"""

import os

from roamlet_vpn.host import live, system

SCRIPT_PATH = "/etc/wireguard/roamlet-vpn-names"
UNITS = "/etc/systemd/system"
NAME = "roamlet-vpn-names@"
INTERVAL = 30  # seconds
# A tunnel that is used shakes hands every 120 seconds, and one that has not for 180 is dead.
SILENT = 150

SCRIPT = (
    """\
#!/bin/sh
# Made by roamlet vpn: look up the endpoints again that are names, of peers that have been silent for a while.
# The argument is the interface; its configuration says the names.
now=$(date +%%s)
wg show "$1" latest-handshakes | while read -r key at; do
    [ $((now - at)) -ge %d ] || continue
    endpoint=$(awk -v wanted="$key" '
        { sub(/#.*/, ""); gsub(/[ \\t\\r]/, "") }
        /^\\[/ { if (key == wanted && end != "") print end; key = ""; end = "" }
        tolower($0) ~ /^publickey=/ { key = substr($0, 11) }
        tolower($0) ~ /^endpoint=/ { end = substr($0, 10) }
        END { if (key == wanted && end != "") print end }' "/etc/wireguard/$1.conf")
    case $endpoint in
        "" | [[]*) continue ;;
        *[!0-9.:]*) wg set "$1" peer "$key" endpoint "$endpoint" ;;
    esac
done
"""
    % SILENT
)
SERVICE = """\
[Unit]
Description=Follow the names of the endpoints of %i (made by roamlet vpn)

[Service]
Type=oneshot
Environment=WG_ENDPOINT_RESOLUTION_RETRIES=1
ExecStart=/bin/sh /etc/wireguard/roamlet-vpn-names %i
"""
TIMER = """\
[Unit]
Description=Follow the names of the endpoints of %%i (made by roamlet vpn)

[Timer]
OnActiveSec=%d
OnUnitInactiveSec=%d
AccuracySec=1

[Install]
WantedBy=timers.target
""" % (INTERVAL, INTERVAL)


def _files():
    return {
        SCRIPT_PATH: (SCRIPT, 0o700),
        os.path.join(UNITS, NAME + ".service"): (SERVICE, 0o644),
        os.path.join(UNITS, NAME + ".timer"): (TIMER, 0o644),
    }


def paths():
    """Every file of it."""
    return sorted(_files())


def timer(interface):
    return NAME + system.checked_interface(interface) + ".timer"


def follows(interface):
    """Whether names are followed, as we would have it, now and after a restart; None without systemd."""
    if not live.has_systemd():
        return None
    return all(system.read(path) == text.encode("ascii") for path, (text, _) in _files().items()) and runs(interface)


def runs(interface):
    """Whether the timer runs, and starts with the server."""
    words = ("is-enabled", "is-active")
    return live.has_systemd() and not any(
        system.run(["systemctl", word, "--quiet", timer(interface)])[0] for word in words
    )


def start(interface):
    if not live.has_systemd():
        raise system.CannotDo("names of endpoints are followed by a timer of systemd, and this server has none")
    for path, (text, mode) in sorted(_files().items()):
        if system.read(path) != text.encode("ascii"):
            system.write(path, text.encode("ascii"), mode)
    system.must(["systemctl", "daemon-reload"])
    system.must(["systemctl", "--quiet", "enable", "--now", timer(interface)])


def stop(interface):
    """Follow no names any more. The files stay while another interface needs them."""
    if not live.has_systemd():
        return
    system.run(["systemctl", "--quiet", "disable", "--now", timer(interface)])
    others = system.run(["systemctl", "list-units", "--all", "--plain", "--no-legend", NAME + "*.timer"])[1].split()
    if not any(name.startswith(NAME) and name != timer(interface) for name in others):
        for path in paths():
            system.remove(path)
        system.run(["systemctl", "daemon-reload"])
