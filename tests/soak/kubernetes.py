"""Kubernetes on one machine: its own programs, Debian's containerd and runc, in namespaces that end with whoever started them.

API server, etcd, scheduler, controllers and a kubelet really run; images are made of files of this machine. The network is the
cluster's own, and has a loopback alone; pods share it (hostNetwork). Takes root, and what tools/build_kubernetes.py has built.
"""

import hashlib
import io
import json
import os
import shutil
import subprocess
import tarfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from tools import build_kubernetes, unpack_debian

UNPACKED = Path(__file__).parents[2] / ".venv" / "containerd"
ADDRESS = "192.0.2.7"
PATIENCE = 120.0  # seconds until the node is there
HOST = {"hostNetwork": True}  # a pod's spec

CONFIGURATION = f"""\
apiVersion: v1
kind: Config
clusters: [{{name: test, cluster: {{server: "https://{ADDRESS}:6443", insecure-skip-tls-verify: true}}}}]
users: [{{name: admin, user: {{token: admin-token}}}}, {{name: bob, user: {{token: bob-token}}}}]
contexts: [{{name: admin, context: {{cluster: test, user: admin}}}}, {{name: bob, context: {{cluster: test, user: bob}}}}]
current-context: admin
"""
KUBELET = f"""\
apiVersion: kubelet.config.k8s.io/v1beta1
kind: KubeletConfiguration
containerRuntimeEndpoint: unix://{{folder}}/containerd.sock
cgroupDriver: cgroupfs
cgroupsPerQOS: false
enforceNodeAllocatable: []
failSwapOn: false
failCgroupV1: false
localStorageCapacityIsolation: false
authentication: {{{{anonymous: {{{{enabled: true}}}}, webhook: {{{{enabled: false}}}}}}}}
authorization: {{{{mode: AlwaysAllow}}}}
address: {ADDRESS}
podLogsDir: {{folder}}/logs
makeIPTablesUtilChains: false
"""
CONTAINERD = """\
version = 2
root = "{folder}/containerd"
state = "{folder}/containerd-state"
[grpc]
address = "{folder}/containerd.sock"
[plugins."io.containerd.grpc.v1.cri"]
sandbox_image = "localhost/pause:1"
disable_apparmor = true
restrict_oom_score_adj = true
[plugins."io.containerd.grpc.v1.cri".cni]
bin_dir = "{unpacked}/usr/lib/cni"
conf_dir = "{folder}/cni"
[plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc]
runtime_type = "io.containerd.runc.v2"
[plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc.options]
BinaryName = "{folder}/runc"
"""
NETWORK = '{"cniVersion": "0.3.1", "name": "unused", "type": "ptp", "ipam": {"type": "host-local", "subnet": "198.51.100.0/24"}}'
START = """\
set -e
mount -t proc proc /proc
mount -t tmpfs roamlet /run
{python} -c '{loopback}'
cd {folder}
export KUBECONFIG={folder}/kubeconfig PATH={programs}:{unpacked}/usr/bin:{unpacked}/usr/sbin:$PATH
etcd --data-dir etcd --unsafe-no-fsync > etcd.log 2>&1 &
kube-apiserver --etcd-servers=http://127.0.0.1:2379 --bind-address={address} --cert-dir=certificates \
  --service-account-issuer=https://test --service-account-key-file=account.key --service-account-signing-key-file=account.key \
  --token-auth-file=tokens.csv --authorization-mode=RBAC --service-cluster-ip-range=203.0.113.0/24 \
  --disable-admission-plugins=ServiceAccount --kubelet-preferred-address-types=InternalIP > api.log 2>&1 &
kube-scheduler --kubeconfig=$KUBECONFIG --authentication-kubeconfig=$KUBECONFIG --authorization-kubeconfig=$KUBECONFIG \
  --leader-elect=false --secure-port=0 > scheduler.log 2>&1 &
kube-controller-manager --kubeconfig=$KUBECONFIG --leader-elect=false --secure-port=0 \
  --controllers=garbagecollector,namespace,resourcequota,node-lifecycle-controller > controllers.log 2>&1 &
(
export LD_LIBRARY_PATH={unpacked}/usr/lib/x86_64-linux-gnu
containerd -c containerd.toml > containerd.log 2>&1 &
until ctr -a containerd.sock -n k8s.io version > /dev/null 2>&1; do sleep 0.2; done
for image in images/*.tar; do ctr -a containerd.sock -n k8s.io images import $image > /dev/null; done
exec kubelet --config=kubelet.yaml --kubeconfig=$KUBECONFIG --root-dir={folder}/kubelet --cert-dir=kubelet-certificates \
  --hostname-override=node-1 --node-ip={address} > kubelet.log 2>&1
) &
echo started
cat > /dev/null
"""
LOOPBACK = (
    "import fcntl, socket, struct; s = socket.socket(); "
    'fcntl.ioctl(s, 0x8914, struct.pack("16sh14x", b"lo", 0x41)); '
    f'fcntl.ioctl(s, 0x8916, struct.pack("16sHH4s8x", b"lo:1", 2, 0, socket.inet_aton("{ADDRESS}")))'
)
PAUSE = """\
#include <signal.h>
#include <unistd.h>
void end(int number) { _exit(0); }
int main(void) { signal(SIGTERM, end); for (;;) pause(); }
"""


class CannotBeMade(Exception):
    """This machine, or whoever runs the tests, cannot do that; the message says why."""


@dataclass(frozen=True)
class Kubernetes:
    """A cluster of one node. `first` is the number of a process in its namespaces."""

    folder: Path
    first: int

    def command(self, *words: str) -> list[str]:
        """The words that run kubectl in the cluster's network."""
        variable = f"KUBECONFIG={self.folder}/kubeconfig"
        return [
            "nsenter",
            "--target",
            str(self.first),
            "--net",
            "--",
            "env",
            variable,
            str(build_kubernetes.FOLDER / "kubectl"),
            *words,
        ]

    def kubectl(self, *words: str) -> "subprocess.CompletedProcess[str]":
        return subprocess.run(
            self.command(*words), capture_output=True, text=True, check=False, stdin=subprocess.DEVNULL, timeout=60
        )

    def install(self, into: Path) -> None:
        """Put kubectl into the folder `into`."""
        path = into / "kubectl"
        path.write_text(f'#!/bin/sh\nexec {" ".join(self.command())} "$@"\n')
        path.chmod(0o755)


@contextmanager
def running_kubernetes(folder: Path) -> Iterator[Kubernetes]:
    """Start it and wait until its node is ready. Raises CannotBeMade."""
    if os.geteuid() != 0 or shutil.which("unshare") is None or shutil.which("cc") is None:
        raise CannotBeMade("a cluster of one's own takes root, unshare and a C compiler")
    if not (build_kubernetes.FOLDER / "kubelet").exists():
        raise CannotBeMade("its programs are not built: python -m tools.build_kubernetes")
    try:
        unpack_debian.unpack(UNPACKED, ["containerd", "containernetworking-plugins", "runc"])
    except unpack_debian.CannotUnpack as reason:
        raise CannotBeMade(str(reason)) from None
    _write(folder)
    before = set(_cgroups())
    script = START.format(
        folder=folder,
        unpacked=UNPACKED,
        programs=build_kubernetes.FOLDER,
        python="/usr/bin/python3",
        loopback=LOOPBACK,
        address=ADDRESS,
    )
    apart = ["--mount", "--propagation", "private", "--net", "--uts", "--ipc", "--pid", "--fork", "--kill-child"]
    process = subprocess.Popen(
        ["unshare", *apart, "sh", "-c", script],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert process.stdin and process.stdout and process.stderr
    try:
        if process.stdout.readline() != "started\n":
            raise CannotBeMade(f"no namespaces for Kubernetes: {process.stderr.read()}")
        first = int(Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()[0])
        cluster = Kubernetes(folder, first)
        _wait_for_the_node(cluster)
        yield cluster
    finally:
        process.kill()  # its child is killed with it, and as that is the first of its namespace, so are all in there
        process.wait(20)
        for pipe in (process.stdin, process.stdout, process.stderr):
            pipe.close()
        for path in sorted(set(_cgroups()) - before, key=lambda path: -len(str(path))):
            with suppress(OSError):
                path.rmdir()


def _wait_for_the_node(cluster: Kubernetes) -> None:
    end = time.monotonic() + PATIENCE
    while True:
        said = cluster.kubectl(
            "get",
            "nodes",
            '--output=jsonpath={.items[*].spec.taints} {.items[*].status.conditions[?(@.type=="Ready")].status}',
        )
        if said.stdout.strip() == "True":
            return
        if time.monotonic() > end:
            logs = "\n".join(path.read_text(errors="replace")[-2000:] for path in sorted(cluster.folder.glob("*.log")))
            raise CannotBeMade(f"Kubernetes did not start: {said.stdout}{said.stderr}\n{logs}")
        time.sleep(0.5)


def _cgroups() -> list[Path]:
    return [path for path in Path("/sys/fs/cgroup").glob("*/*") if len(path.name) == 64 and path.is_dir()]


def _write(folder: Path) -> None:
    for name in ("cni", "images", "pause/bin"):
        (folder / name).mkdir(parents=True)
    (folder / "cni/10-unused.conf").write_text(NETWORK)
    (folder / "kubeconfig").write_text(CONFIGURATION)
    (folder / "kubelet.yaml").write_text(KUBELET.format(folder=folder))
    (folder / "containerd.toml").write_text(CONTAINERD.format(folder=folder, unpacked=UNPACKED))
    (folder / "tokens.csv").write_text('admin-token,admin,1,"system:masters"\nbob-token,bob,2\n')
    libraries = f"LD_LIBRARY_PATH={UNPACKED}/usr/lib/x86_64-linux-gnu"
    (folder / "runc").write_text(f'#!/bin/sh\n{libraries} exec {UNPACKED}/usr/sbin/runc "$@"\n')
    (folder / "runc").chmod(0o755)
    subprocess.run(["openssl", "genrsa", "-out", str(folder / "account.key"), "2048"], check=True, capture_output=True)
    (folder / "pause.c").write_text(PAUSE)
    subprocess.run(["cc", "-static", "-Os", "-o", str(folder / "pause/bin/pause"), str(folder / "pause.c")], check=True)
    _image("pause", folder / "images", {"/pause": folder / "pause/bin/pause"}, ["/pause"])
    python = Path("/usr/bin/python3").resolve()
    standard = Path("/usr/lib") / python.name
    modules = [path for path in standard.rglob("*") if path.is_file() and not {"__pycache__", "test"} & set(path.parts)]
    ours = {
        str(path): path for path in [*modules, *_with_libraries([python, *(standard / "lib-dynload").glob("*.so")])]
    }
    ours["/usr/bin/python3"] = python
    shell = {str(path): path for path in _with_libraries([Path("/bin/sh"), Path("/bin/sleep")])}
    _image("python", folder / "images", {**ours, **shell}, ["/bin/sh"])
    _image("no-shell", folder / "images", ours, ["/usr/bin/python3"])
    _image("no-python", folder / "images", shell, ["/bin/sh"])


def _with_libraries(programs: Sequence[Path]) -> set[Path]:
    found = set(programs)
    for program in programs:
        said = subprocess.run(["ldd", str(program)], capture_output=True, text=True, check=False).stdout
        found |= {Path(word) for word in said.split() if word.startswith("/")}
    return found


def _image(name: str, folder: Path, files: dict[str, Path], command: list[str]) -> None:
    """An archive as `docker save` writes it, with these files in one layer."""
    data = io.BytesIO()
    with tarfile.open(fileobj=data, mode="w") as layer:
        for path in ("proc", "sys", "dev", "tmp", "etc"):
            place = tarfile.TarInfo(path)
            place.type, place.mode = tarfile.DIRTYPE, 0o755
            layer.addfile(place)
        for path, source in sorted(files.items()):
            layer.add(source.resolve(), arcname=path.lstrip("/"))
    text = data.getvalue()
    config = json.dumps(
        {
            "architecture": "amd64",
            "os": "linux",
            "config": {"Cmd": command, "Env": ["PATH=/usr/bin:/bin"]},
            "rootfs": {"type": "layers", "diff_ids": [f"sha256:{hashlib.sha256(text).hexdigest()}"]},
        }
    ).encode()
    named = f"{hashlib.sha256(config).hexdigest()}.json"
    manifest = json.dumps([{"Config": named, "RepoTags": [f"localhost/{name}:1"], "Layers": ["layer.tar"]}]).encode()
    with tarfile.open(folder / f"{name}.tar", "w") as archive:
        for member, content in ((named, config), ("layer.tar", text), ("manifest.json", manifest)):
            place = tarfile.TarInfo(member)
            place.size = len(content)
            archive.addfile(place, io.BytesIO(content))
