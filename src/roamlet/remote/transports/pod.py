"""A pod of a Kubernetes cluster that is made for one context: its manifest, and what the cluster reports about its state.

Nothing here asks a cluster: see roamlet.remote.pods.
"""

import re
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from roamlet._escapes import escaped
from roamlet.remote.errors import (
    ConnectError,
    ConnectTimeout,
    ImagePullFailed,
    NoPython,
    NotAllowed,
    NotScheduled,
    RequestRefused,
    TargetNotRunning,
)
from roamlet.remote.transports.command import Meaning
from roamlet.remote.transports.kubectl import Kubectl

CONTAINER = "roamlet"
LABELS = {"app.kubernetes.io/managed-by": "roamlet"}
MESSAGE = 4096  # characters of a message that a cluster passes on
GRACE = 2  # seconds that a pod gets which is deleted
IMAGE = re.compile(r"[A-Za-z0-9][\w.:/@+-]*")

# The first process of the pod: it ends when a context has come and no other process is left, and when none has come in time, so
# that the pod ends without anybody who deletes it. It reaps what has lost its parent. A process that has come and gone between two
# looks is known by the number of the one that was made last (proc_loadavg(5)). Python 2.7, or 3.6 and later.
LEASE = """\
import os,signal,sys,time
signal.signal(signal.SIGTERM,lambda *a:os._exit(0))
me=str(os.getpid())
def last():
 with open("/proc/loadavg")as f:return f.read().split()[-1]
first=last()
came=quiet=0
end=time.time()+float(sys.argv[1])
while 1:
 try:
  while os.waitpid(-1,os.WNOHANG)[0]:pass
 except OSError:pass
 others=[p for p in os.listdir("/proc")if p.isdigit()and p!=me]
 quiet=0 if others else quiet+1
 came=came or others or last()!=first
 if quiet>4 and(came or time.time()>end):break
 time.sleep(.25)
"""


class Pod(Kubectl):
    """Starts a Python in a pod that was made for it, beside the pod's first process."""

    def __init__(self, pod: str, *, python: str | None, kubectl_args: Sequence[str], deadline: int) -> None:
        super().__init__(pod, python=python, container=CONTAINER, kubectl_args=kubectl_args)
        self._deadline = deadline

    def describe_end(self, exit_code: int | None, said: Sequence[str] = ()) -> str:
        if exit_code == 137:
            return (
                "its process was killed (exit code 137): it took more memory than the pod may have, the pod was deleted or moved "
                f"away, or had lived for its {self._deadline} seconds (active_deadline_seconds)"
            )
        return super().describe_end(exit_code, said)


class CreateMeanings(Kubectl):
    """What kubectl says where a pod is not created."""

    meanings = (
        Meaning(
            r"cannot (?P<verb>\w+) resource \"(?P<what>[\w/]+)\"",
            NotAllowed,
            "the cluster does not let this user {verb} {what}",
            "A pod of its own takes create, get and delete on pods, and create on pods/exec. Ask: kubectl auth can-i {verb} {what}",
        ),
        Meaning(
            r"exceeded quota: (?P<quota>[\w.-]+)",
            RequestRefused,
            "the namespace's quota {quota} has no room for it",
            "See what is used: kubectl describe quota. Ask for less in resources=, or delete what is not needed.",
        ),
        Meaning(
            r"forbidden: violates PodSecurity|admission webhook \S+ denied|is forbidden: (?!User)",
            NotAllowed,
            "a rule of the cluster forbids such a pod",
            "What it wants goes into spec=, a security context for example.",
        ),
        *Kubectl.meanings,
        Meaning(
            r"is invalid:|strict decoding error|error validating|unknown field|quantities must match|cannot unmarshal|"
            r"cannot be handled as a Pod",
            RequestRefused,
            "the cluster takes no such pod",
            "The words of resources= and spec= are those of a manifest: kubectl explain pod.spec",
        ),
    )

    @property
    def to(self) -> str:
        return f"pod {self.target!r}"


class State(NamedTuple):
    """What a pod is doing. `text` is for progress; `error`, if there is one, says that it will not become ready."""

    text: str
    ready: bool = False
    error: ConnectError | None = None


def manifest(
    name: str,
    image: str,
    *,
    pythons: Sequence[str],
    shell: bool,
    resources: Mapping[str, Any] | None,
    owner: Mapping[str, Any] | None,
    spec: Mapping[str, Any] | None,
    deadline: int,
    patience: float,
) -> dict[str, Any]:
    """The pod. `shell`: one looks for the first of `pythons` in the image; else there is one, and it needs no shell.

    `patience`: seconds until a context is to have come. What `spec` says is laid over it, field by field.
    """
    arguments = ["-BEs", "-c", LEASE, f"{patience:g}"]
    if shell:
        search = "".join(f'command -v {python} >/dev/null && exec {python} "$@"; ' for python in pythons)
        command = [
            "sh",
            "-c",
            f"{search}echo no Python of these names: {' '.join(pythons)} >&2; exit 127",
            "sh",
            *arguments,
        ]
    else:
        command = [pythons[0], *arguments]
    container: dict[str, Any] = {"name": CONTAINER, "image": image, "command": command}
    if resources:
        kinds = {"requests", "limits", "claims"}
        container["resources"] = (
            dict(resources) if set(resources) <= kinds else {"requests": dict(resources), "limits": dict(resources)}
        )
    metadata: dict[str, Any] = {"name": name, "labels": dict(LABELS)}
    if owner is not None:
        metadata["ownerReferences"] = [dict(owner)]
    ours = {
        "restartPolicy": "Never",
        "activeDeadlineSeconds": deadline,
        "terminationGracePeriodSeconds": GRACE,
        "containers": [container],
    }
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": laid_over(ours, dict(spec or {}))}


def laid_over(ours: dict[str, Any], theirs: Mapping[str, Any]) -> dict[str, Any]:
    """`ours` with the fields of `theirs`; containers of one name become one."""
    result = dict(ours)
    for key, value in theirs.items():
        if key == "containers" and isinstance(value, Sequence) and not isinstance(value, str):
            named = {one["name"]: one for one in result["containers"]}
            for one in value:
                name = one.get("name", CONTAINER)
                named[name] = laid_over(named[name], one) if name in named else dict(one)
            result["containers"] = list(named.values())
        elif isinstance(value, Mapping) and isinstance(result.get(key), Mapping):
            result[key] = laid_over(dict(result[key]), value)
        else:
            result[key] = value
    return result


def state_of(pod: Mapping[str, Any], name: str) -> State:
    """What the object says that the cluster keeps of a pod."""
    status = pod.get("status") or {}
    phase = _text(status.get("phase") or "Unknown")
    container: Mapping[str, Any] = next(
        (one for one in status.get("containerStatuses") or () if one.get("name") == CONTAINER), {}
    )
    state = container.get("state") or {}
    waiting, terminated = state.get("waiting") or {}, state.get("terminated") or {}
    if pod.get("metadata", {}).get("deletionTimestamp"):
        return State("deleted", error=_gone(name, "it was deleted before it was ready"))
    if phase in ("Failed", "Succeeded") or terminated:
        return State("ended", error=_ended(name, status, terminated))
    if "running" in state:
        return State("running", ready=True)
    if waiting.get("reason") not in (None, "ContainerCreating", "PodInitializing"):
        reason, message = _text(waiting["reason"]), _text(waiting.get("message") or "")
        return State(f"waiting: {reason} {message}".rstrip(), error=_stuck(name, reason, message))
    for condition in status.get("conditions") or ():
        if condition.get("type") == "PodScheduled" and condition.get("status") == "False":
            return State(f"not scheduled: {_text(condition.get('message') or condition.get('reason'))}")
    node = pod.get("spec", {}).get("nodeName")
    return State(f"on {_text(node)}: {_text(waiting.get('reason') or 'starting')}" if node else phase.lower())


def _text(said: object) -> str:
    """What registries, nodes or the cluster's rules say, for a terminal."""
    return escaped(str(said)[:MESSAGE])


def too_late(name: str, text: str, timeout: float) -> ConnectError:
    """The error of a pod that was not ready in time, whose last state is `text`."""
    if text.startswith("not scheduled: "):
        return NotScheduled(
            f"the cluster had no room for the pod {name!r} within {timeout:g} seconds, and it was deleted: "
            f"{text.removeprefix('not scheduled: ')}\n"
            "    Ask for less in resources=, or give a longer timeout= where nodes are added. See the nodes: kubectl describe nodes"
        )
    return ConnectTimeout(
        f"the pod {name!r} was not ready within {timeout:g} seconds, and was deleted. It was last seen {text or 'nowhere'}.\n"
        "    A first pull of a large image takes long: give a longer timeout="
    )


def _stuck(name: str, reason: str, message: str) -> ConnectError | None:
    said = f": {message}" if message else ""
    if reason in ("ImagePullBackOff", "InvalidImageName", "ErrImageNeverPull", "RegistryUnavailable"):
        return ImagePullFailed(
            f"the image of the pod {name!r} did not come, and the pod was deleted: {reason}{said}.\n"
            "    Is its name right, with its tag, and may the cluster pull it? A private registry takes "
            "spec={'imagePullSecrets': [{'name': ...}]}."
        )
    if "no such file or directory" in message or "not found in $PATH" in message:
        return _no_python(name, message)
    if reason in ("CreateContainerConfigError", "CreateContainerError", "RunContainerError", "CrashLoopBackOff"):
        return TargetNotRunning(
            f"the container of the pod {name!r} could not be started, and the pod was deleted: {reason}{said}.\n"
            "    What it wants is in resources= and spec=; secrets and config maps must be in its namespace."
        )
    return None  # ErrImagePull, which is tried again, and what is not known


def _ended(name: str, status: Mapping[str, Any], terminated: Mapping[str, Any]) -> ConnectError:
    reason = _text(terminated.get("reason") or status.get("reason") or "")
    message = _text(terminated.get("message") or status.get("message") or "")
    code = terminated.get("exitCode")
    if code == 127 or "no such file or directory" in message or "not found in $PATH" in message:
        return _no_python(name, message or f"its first process ended with exit code {code}")
    why = "; ".join(filter(None, (reason, message, "" if code is None else f"exit code {_text(code)}")))
    if reason == "OOMKilled":
        return _gone(name, f"it took more memory than it may have ({why})")
    return _gone(name, f"it ended before it was ready ({why})")


def _no_python(name: str, message: str) -> NoPython:
    return NoPython(
        f"the image of the pod {name!r} has no Python that was found, and the pod was deleted: {message}\n"
        "    Give the path of one in the image as python=, or another image, such as python:3.11-slim.\n"
        "    A context needs CPython 2.7, or 3.6 and later; without python= the image needs a shell `sh` as well."
    )


def _gone(name: str, why: str) -> TargetNotRunning:
    return TargetNotRunning(
        f"the pod {name!r} is no more: {why}.\n"
        f"    See what has happened: kubectl get events --field-selector involvedObject.name={name}"
    )
