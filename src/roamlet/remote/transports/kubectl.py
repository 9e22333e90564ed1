"""An interpreter in a container of a pod that runs in a Kubernetes cluster."""

import re
from collections.abc import Sequence
from typing import ClassVar

from roamlet.remote.errors import AuthenticationFailed, HostUnreachable, NotAllowed, TargetNotFound, TargetNotRunning
from roamlet.remote.transports.command import Command, Meaning, checked_arguments, checked_name
from roamlet.remote.transports.docker import NO_PROGRAM

POD = re.compile(r"([a-z]+/)?[a-z0-9]([a-z0-9.-]*[a-z0-9])?")
LABEL = re.compile(r"[a-z0-9]([a-z0-9-]*[a-z0-9])?")


class Kubectl(Command):
    """Starts a Python in `pod`, a name or such as deploy/web. kubectl's own configuration says which cluster is asked."""

    program = "kubectl"
    comes_with = "Kubernetes's client, the package kubernetes-client or kubectl"
    meanings: ClassVar[tuple[Meaning, ...]] = (
        Meaning(
            r"\(NotFound\): (error when creating \"\S+\": )?(?P<kind>[\w./-]+) \"(?P<which>[^\"]+)\" not found",
            TargetNotFound,
            "the cluster has no {which} among its {kind}",
            "See which there are: kubectl get pods --all-namespaces. A namespace of its own goes into namespace=.",
        ),
        Meaning(
            r"container (?P<which>\S+) is not valid for pod|container not found \(\"(?P<gone>[^\"]+)\"\)",
            TargetNotRunning,
            "the pod has no such container, or it does not run now",
            "See the pod's containers and their states: kubectl describe pod {target}. One of them goes into container=.",
        ),
        Meaning(
            r"completed pod|does not have a host assigned|unable to upgrade connection: pod does not exist|"
            r"cannot exec in a (stopped|paused)",
            TargetNotRunning,
            "the pod does not run",
            "See why: kubectl describe pod {target}",
        ),
        Meaning(
            r"\(Forbidden\)|unable to upgrade connection: Forbidden|cannot create resource \"pods/exec\"",
            NotAllowed,
            "the cluster does not let this user start commands in pods",
            "That takes the verb create on pods/exec. Ask: kubectl auth can-i create pods/exec",
        ),
        Meaning(
            r"You must be logged in to the server|asked for the client to provide credentials|\(Unauthorized\)|getting credentials",
            AuthenticationFailed,
            "the cluster does not know this user, or no longer",
            "Log in anew with what gives your credentials out; see which are used: kubectl config view --minify",
        ),
        Meaning(
            r"context \"?(?P<context>[^\" ]+)\"? does not exist|no configuration has been provided",
            TargetNotFound,
            "kubectl's configuration does not name such a cluster",
            "See which it knows: kubectl config get-contexts",
        ),
        Meaning(
            r"The connection to the server \S+ was refused|Unable to connect to the server|connection refused|i/o timeout",
            HostUnreachable,
            "the cluster's server does not answer",
            "Is it the right one (kubectl cluster-info), and does the network reach it?",
        ),
        NO_PROGRAM,
    )

    def __init__(
        self,
        pod: str,
        *,
        python: str | None = None,
        container: str | None = None,
        namespace: str | None = None,
        kubectl_args: Sequence[str] = (),
    ) -> None:
        super().__init__(checked_name(pod, "a pod", POD), python)
        self.container: str | None = (
            None if container is None else checked_name(container, "a container of a pod", LABEL)
        )
        self.namespace: str | None = None if namespace is None else checked_name(namespace, "a namespace", LABEL)
        self.kubectl_args: tuple[str, ...] = checked_arguments(kubectl_args, "kubectl_args")

    def words(self) -> list[str]:
        where = [] if self.namespace is None else [f"--namespace={self.namespace}"]
        part = [] if self.container is None else [f"--container={self.container}"]
        return ["kubectl", *self.kubectl_args, *where, "exec", "--stdin", *part, self.target, "--"]
