"""Servers that boot a systemd: a container of systemd-nspawn in the network of a machine that has nothing else.

What `reboot` or a power cut ends is started again, with the devices, routes and settings that a server has before anything has
been set up on it; files stay. The lab's process 1 has all of it below itself, so it ends with the lab.
"""

from pathlib import Path

from roamlet_lab.errors import LabError
from roamlet_lab.machine import Machine
from roamlet_lab.spaces import Keeper, cgroups_of

# Runs in the lab, in the background, for as long as the lab lasts. TUN devices are open to all, as udev has it; who may use
# which, the kernel says. A network of its own loses in a boot what a computer does.
BOOT = """\
cd /lab/machines/{name}
mkdir -p upper work root
[ -e tun ] || mknod -m 666 tun c 10 200
mount -t overlay {name} -o lowerdir=/lab/system,upperdir=$PWD/upper,workdir=$PWD/work root
cat >network.sh <<'END'
for device in $(ls /sys/class/net); do
    case $device in lo|eth0) ;; *) ip link delete $device 2>/dev/null || : ;; esac
done
ip address flush dev eth0
ip route flush table main
ip -6 address flush dev eth0
{network}
END
cat >boot.sh <<'END'
for group in {groups}; do
    mkdir -p $group/{host}
    echo 0 >$group/{host}/cgroup.procs
done
echo $$ >/lab/state/{name}.pid
export SYSTEMD_NSPAWN_API_VFS_WRITABLE=network SYSTEMD_NSPAWN_LOCK=0
exec systemd-nspawn --quiet --directory=root --machine={host} --register=no --keep-unit \\
    --network-namespace-path=/proc/{holder}/ns/net --capability=CAP_NET_ADMIN \\
    --bind=/lab/machines/{name}/tun:/dev/net/tun \\
    --bind=/lab/state/hosts:/etc/hosts --resolv-conf=off --timezone=off --link-journal=no --console=pipe --boot
END
cat >run.sh <<'END'
while :; do
    nsenter --net=/proc/{holder}/ns/net unshare --mount sh -euc 'mount -t sysfs sys /sys; . ./network.sh'
    sh -eu boot.sh || :
    rm -f /lab/state/{name}.pid
    for group in {groups}; do find $group/{host} -depth -type d -exec rmdir {{}} + 2>/dev/null || :; done
    sleep 0.2
done
END
setsid sh run.sh </dev/null >boot.log 2>&1 &
"""


def boot_script(lab: str, name: str, host: str, holder: int, network: str) -> str:
    """What boots a machine and keeps it going; `network` is the script that sets up the cable to the LAN. Run it in the lab."""
    groups = " ".join(map(str, cgroups_of(lab)))
    return BOOT.format(name=name, host=host, holder=holder, network=network, groups=groups)


class BootedMachine(Machine):
    """A server with a systemd of its own, which may be restarted at any time."""

    def __init__(self, keeper: Keeper, name: str, holder: int, address: str) -> None:
        super().__init__(keeper, name, holder, address)
        self.holder = holder
        """The process that keeps its network, inside the lab, whether it runs or not."""

    @property
    def pid(self) -> int:
        """Of its systemd, inside the lab; it changes with each boot. Raises LabError until it runs."""
        proc = Path(f"/proc/{self._keeper.pid}/root/proc")
        try:
            container = (self._keeper.folder / f"{self.name}.pid").read_text().strip()
            children = (proc / container / "task" / container / "children").read_text().split()
            return int(children[0])
        except (OSError, IndexError, ValueError):
            raise LabError(f"{self.name} does not run at the moment; is it being restarted?") from None

    def boot_log(self) -> str:
        """What its console has said since the lab was built."""
        return self._keeper.run(f"cat /lab/machines/{self.name}/boot.log")
