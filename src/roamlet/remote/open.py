"""The functions that open contexts, one for each transport: what remote.local, remote.ssh and their like are.

All block, fail and take options as described at `ssh`. What takes longer than `timeout` to end is ended in the background.
"""

from collections.abc import Sequence
from typing import TypedDict, Unpack

from roamlet.remote.calls.engine import calls_of
from roamlet.remote.context import Context
from roamlet.remote.link.output import OutputFunction
from roamlet.remote.modules import Modules
from roamlet.remote.opening.connect import connect
from roamlet.remote.terminal.prompts import Held, PasswordFunction
from roamlet.remote.transports import Transport
from roamlet.remote.transports.buildah import Buildah
from roamlet.remote.transports.doas import Doas
from roamlet.remote.transports.docker import Docker
from roamlet.remote.transports.fork import Fork
from roamlet.remote.transports.incus import Incus
from roamlet.remote.transports.jail import Jail
from roamlet.remote.transports.kubectl import Kubectl
from roamlet.remote.transports.local import Local
from roamlet.remote.transports.lxc import Lxc
from roamlet.remote.transports.nspawn import Machine, Nspawn
from roamlet.remote.transports.podman import Podman
from roamlet.remote.transports.setns import Setns
from roamlet.remote.transports.slurm import Slurm
from roamlet.remote.transports.ssh import Ssh
from roamlet.remote.transports.su import Su
from roamlet.remote.transports.sudo import Sudo

TIMEOUT = 30.0  # seconds


class Options(TypedDict, total=False):
    """What every function here takes: see `ssh`. `name` is the target's own name by default, `timeout` 30 seconds."""

    name: str | None
    timeout: float
    output: OutputFunction | None
    modules: Modules | None
    tasklets: bool
    via: Context | None


def local(python: str | None = None, **options: Unpack[Options]) -> Context:
    """Open a context in another process of this machine, run by the interpreter `python`: a path, or a name on PATH.

    None is the interpreter of this process; with `via`, that of the context, and the machine is the one that it is on.
    Everything else is as for `ssh`.
    """
    via = options.get("via")
    if isinstance(via, Context):
        return _opened("local", Local(python or via.facts.executable or "python3", where=f"on {via.name!r}"), options)
    return _opened("local", Local(python), options)


def ssh(
    host: str,
    *,
    python: str | None = None,
    user: str | None = None,
    port: int | None = None,
    password: str | PasswordFunction | None = None,
    ssh_args: Sequence[str] = (),
    **options: Unpack[Options],
) -> Context:
    """Open a context on `host`, which OpenSSH's client reaches as it would from the command line, but without asking the user.

    `python` is a path or name on the target; None tries this process's version, then python3, then python. `ssh_args` are
    further arguments of ssh; they win over what roamlet adds (BatchMode, ConnectTimeout, ServerAliveInterval). `password` is
    typed where ssh asks for that of the host or of a key: a str, or a function(prompt, who) that returns one and may block
    this thread; None is the environment's ROAMLET_SSH_PASSWORD, and without one there is no question. `name` is what messages and
    log records call it, the host by default. `output(context, stream, line)` gets what is printed on the target, stream being
    "stdout" or "stderr"; None prints it here. `modules` says which modules may travel there, and whose copy of a package
    counts. `tasklets=True` brings roamlet itself there, into memory, and runs calls as tasklets instead of threads, which
    takes the same version of Python on the same platform; raises NoTasklets elsewhere. With `via`, a context, ssh runs
    there, with the configuration and the keys of that place; the new context goes through that one, is as much this
    process's own as any other, and ends with it at the latest.

    Blocks this tasklet only; thread-safe; many can be opened at once. Raises a ConnectError that says what was wrong, after
    `timeout` seconds at the latest; nothing is left then. Close the context, best by `with`.
    """
    held = Held(password)
    del password  # tracebacks keep this frame
    timeout = options.get("timeout", TIMEOUT)
    transport = Ssh(host, python=python, user=user, port=port, password=held, ssh_args=ssh_args, timeout=timeout)
    return _opened("ssh", transport, options)


def fork(*, beside_threads: bool = False, **options: Unpack[Options]) -> Context:
    """Open a context in a child that is forked off this process: nothing is started, and all that is imported here is there.

    Modules and data are shared with the child until one of the two writes to them. It has the module state of this moment,
    the main script's too, and real tasklets; but no other thread, no tasklet and no open file, socket or context of this
    process: their descriptors lead to /dev/null there. Everything else is as for `ssh`. Blocks the calling thread for some
    milliseconds, longer the more memory it has. Raises UnsafeFork while there are threads beside the caller's and roamlet's
    own, since a lock that one of them holds would never be released in the child; `beside_threads` says that they hold none
    that is needed there.
    """
    return _opened("fork", Fork(beside_threads=beside_threads), options)


def sudo(
    user: str | None = None,
    *,
    python: str | None = None,
    password: str | PasswordFunction | None = None,
    sudo_args: Sequence[str] = (),
    **options: Unpack[Options],
) -> Context:
    """Open a context under the account `user` (a name, or #number), root by default, by way of sudo and its rules.

    `sudo_args` are further options of sudo. `password` is as for `ssh`, in the environment ROAMLET_SUDO_PASSWORD. An
    interpreter that `python` names is started as it is, so that a rule may allow it alone; else a shell looks for one.
    Everything else is as for `ssh`. Raises AuthenticationFailed, NotAllowed where the rules forbid it, TargetNotFound for
    an unknown user.
    """
    held = Held(password)
    del password  # tracebacks keep this frame
    return _opened("sudo", Sudo(user, python=python, password=held, sudo_args=sudo_args), options)


def su(
    user: str | None = None,
    *,
    python: str | None = None,
    password: str | PasswordFunction | None = None,
    **options: Unpack[Options],
) -> Context:
    """Open a context under the account `user`, root by default, by way of su. Everything else is as for `ssh`, the
    password in the environment ROAMLET_SU_PASSWORD.

    Raises AuthenticationFailed, NotAllowed where PAM forbids it, TargetNotFound for an unknown user.
    """
    held = Held(password)
    del password  # tracebacks keep this frame
    return _opened("su", Su(user, python=python, password=held), options)


def doas(
    user: str | None = None,
    *,
    python: str | None = None,
    password: str | PasswordFunction | None = None,
    **options: Unpack[Options],
) -> Context:
    """Open a context under the account `user`, root by default, by way of doas and its rules.

    `password` is as for `ssh`, in the environment ROAMLET_DOAS_PASSWORD. An interpreter that `python` names is started as it
    is, so that a rule may allow it alone; else a shell looks for one. Everything else is as for `ssh`. Raises
    AuthenticationFailed, NotAllowed where the rules forbid it, TargetNotFound for an unknown user.
    """
    held = Held(password)
    del password  # tracebacks keep this frame
    return _opened("doas", Doas(user, python=python, password=held), options)


def docker(
    container: str,
    *,
    python: str | None = None,
    user: str | None = None,
    docker_args: Sequence[str] = (),
    **options: Unpack[Options],
) -> Context:
    """Open a context in the running container `container`, a name or an identifier, by way of `docker exec`.

    `user` is one of the container's, or #number. `docker_args` are options of docker itself, such as ["--context", "lab"].
    An interpreter that `python` names needs no shell in the container. Everything else is as for `ssh`. Raises
    TargetNotFound, TargetNotRunning, NotAllowed where this user may not talk to the daemon.
    """
    return _opened("docker", Docker(container, python=python, user=user, arguments=docker_args), options)


def podman(
    container: str,
    *,
    python: str | None = None,
    user: str | None = None,
    podman_args: Sequence[str] = (),
    **options: Unpack[Options],
) -> Context:
    """Open a context in the running container `container` of this user, by way of `podman exec`. As `docker` otherwise."""
    return _opened("podman", Podman(container, python=python, user=user, arguments=podman_args), options)


def buildah(
    container: str,
    *,
    python: str | None = None,
    user: str | None = None,
    buildah_args: Sequence[str] = (),
    **options: Unpack[Options],
) -> Context:
    """Open a context in the working container `container` of this user, by way of `buildah run`.

    It has the container's file system and is the only process in it, which ends with the context. `user` is one of the
    container's, or #number. `buildah_args` are options of `buildah run`, such as ["--isolation", "chroot"]. Everything else
    is as for `docker`.
    """
    return _opened("buildah", Buildah(container, python=python, user=user, arguments=buildah_args), options)


def jail(
    jail: str,
    *,
    python: str | None = None,
    user: str | None = None,
    jexec_args: Sequence[str] = (),
    **options: Unpack[Options],
) -> Context:
    """Open a context in a running jail of FreeBSD, a name or a number, by way of `jexec`; `via` is a context on that machine.

    `user` is one of the jail's own, root by default. `jexec_args` are further options of jexec, such as ["-l"]. Everything
    else is as for `ssh`. Raises TargetNotFound, NotAllowed.
    """
    return _opened("jail", Jail(jail, python=python, user=user, jexec_args=jexec_args), options)


def kubectl(
    pod: str,
    *,
    python: str | None = None,
    container: str | None = None,
    namespace: str | None = None,
    kubectl_args: Sequence[str] = (),
    **options: Unpack[Options],
) -> Context:
    """Open a context in a pod of a Kubernetes cluster, by way of `kubectl exec`: `pod` is a name, or such as "deploy/web".

    `container` is one of the pod's, its default one if None. `kubectl_args` are options of kubectl itself, such as
    ["--context", "lab"]. An interpreter that `python` names needs no shell in the container. Everything else is as for
    `ssh`. Raises TargetNotFound, TargetNotRunning, NotAllowed, AuthenticationFailed, HostUnreachable where the cluster is
    silent.
    """
    transport = Kubectl(pod, python=python, container=container, namespace=namespace, kubectl_args=kubectl_args)
    return _opened("kubectl", transport, options)


def lxc(
    container: str,
    *,
    python: str | None = None,
    lxc_args: Sequence[str] = (),
    **options: Unpack[Options],
) -> Context:
    """Open a context in the running container `container` of LXC, by way of lxc-attach, in the container's environment.

    `lxc_args` are further options of lxc-attach, such as ["--lxcpath", "/srv/lxc"]. Everything else is as for `ssh`.
    For LXD, whose client is called lxc too: remote.incus(instance, client="lxc").
    Raises TargetNotFound, TargetNotRunning, NotAllowed.
    """
    return _opened("lxc", Lxc(container, python=python, lxc_args=lxc_args), options)


def incus(
    instance: str,
    *,
    python: str | None = None,
    client: str = "incus",
    incus_args: Sequence[str] = (),
    **options: Unpack[Options],
) -> Context:
    """Open a context in the running instance `instance` of Incus, a name or "remote:name", by way of `incus exec`.

    `client` is "lxc" for LXD, which has the same command line. `incus_args` are options of the client itself, such as
    ["--project", "lab"]. Everything else is as for `ssh`. Raises TargetNotFound, TargetNotRunning, NotAllowed.
    """
    return _opened("incus", Incus(instance, python=python, client=client, incus_args=incus_args), options)


def nspawn(
    directory: str | None = None,
    *,
    machine: str | None = None,
    python: str | None = None,
    user: str | None = None,
    nspawn_args: Sequence[str] = (),
    **options: Unpack[Options],
) -> Context:
    """Open a context in a container of systemd-nspawn: a new one made of `directory`, or the running `machine`.

    The new one has the context's Python as its only process and ends with it; `nspawn_args` are further options of
    systemd-nspawn, such as ["--ephemeral", "--bind=/srv"]. The running one is a machine that machinectl lists; its
    namespaces are entered, so that it needs neither a bus nor a shell of its own. Takes root. Everything else is as for
    `ssh`. Raises TargetNotFound, TargetNotRunning, NotAllowed; TypeError for both, or none, of directory and machine.
    """
    if (directory is None) == (machine is None):
        raise TypeError("give one of directory and machine=: nspawn('/srv/tree'), or nspawn(machine='web')")
    if machine is not None and (user is not None or nspawn_args):
        raise TypeError(
            "user= and nspawn_args= belong to a new container, nspawn('/srv/tree'), not to a running machine"
        )
    if machine is not None:
        return _opened("nspawn", Machine(machine, python=python), options)
    return _opened("nspawn", Nspawn(directory or "", python=python, user=user, nspawn_args=nspawn_args), options)


def setns(
    pid: int | None = None,
    *,
    container: str | None = None,
    runtime: str | None = None,
    namespaces: Sequence[str] | None = None,
    python: str | None = None,
    nsenter_args: Sequence[str] = (),
    **options: Unpack[Options],
) -> Context:
    """Open a context in the namespaces of the running process `pid`, or of the first process of `container`, by way of nsenter.

    `runtime` says whose container it is: "docker", "podman", "lxc" or "machinectl". `namespaces` is a list of some of
    "cgroup", "ipc", "mount", "net", "pid", "time", "user" and "uts"; None enters all that differ from those of this
    process. What the interpreter is looked for in is the file system of the mount namespace. `nsenter_args` are further
    options of nsenter, such as ["--root"] for a process with a root directory of its own. Everything else is as for `ssh`.
    Raises TargetNotFound, TargetNotRunning, NotAllowed where this user may not enter them (most take root).
    """
    transport = Setns(
        pid, container=container, runtime=runtime, namespaces=namespaces, python=python, nsenter_args=nsenter_args
    )
    return _opened("setns", transport, options)


def slurm(
    node: str | None = None,
    *,
    job: int | str | None = None,
    python: str | None = None,
    exact: bool = False,
    slurm_args: Sequence[str] = (),
    **options: Unpack[Options],
) -> Context:
    """Open a context as one task in an allocation of Slurm's, by way of srun: on `node`, else on one that Slurm chooses.

    `job` is the allocation's number, that of this process if None (with `via` it must be given); none is requested: see
    `allocation`. The task overlaps with others, so that any number of contexts fits into one allocation; with `exact` it gets
    processors of its own, and waits for them. `slurm_args` are further options of srun. Everything else is as for `ssh`.
    Raises NoAllocation, TargetNotFound where the allocation has no such node, NotAllowed, HostUnreachable where the controller
    is silent.
    """
    return _opened(
        "slurm",
        Slurm(
            node, job=job, python=python, slurm_args=slurm_args, elsewhere=options.get("via") is not None, exact=exact
        ),
        options,
    )


def _opened(function: str, transport: Transport, options: Options) -> Context:
    for option in options:
        if option not in Options.__annotations__:
            raise TypeError(
                f"remote.{function}() takes no argument {option!r}; beside its own: {', '.join(Options.__annotations__)}"
            )
    via = options.get("via")
    if not isinstance(via, Context | None):
        raise TypeError(
            f"via= takes the context that is to start the new one, such as remote.ssh('alpha'), not {via!r}"
        )
    calls = connect(
        transport,
        name=options.get("name"),
        timeout=options.get("timeout", TIMEOUT),
        output=options.get("output"),
        policy=options.get("modules"),
        tasklets=options.get("tasklets", False),
        via=None if via is None else calls_of(via),
    )
    return Context(calls, via)
