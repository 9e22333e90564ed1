"""Pods of a Kubernetes cluster that are made for one context each, and end with it.

A context in a pod that runs anyway is remote.kubectl. What a pod is made of is in transports/pod.py.
"""

import atexit
import json
import logging
import os
import re
import secrets
import shlex
import time
import weakref
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from typing import Any, Unpack

import roamlet
from roamlet._escapes import escaped
from roamlet.remote.base.deadlines import deadline_of, remaining
from roamlet.remote.calls.engine import Calls, calls_of
from roamlet.remote.context import Context
from roamlet.remote.errors import (
    AuthenticationFailed,
    BadHostName,
    ConnectError,
    NotAllowed,
    RemoteError,
    RequestRefused,
    TargetNotFound,
    TargetNotRunning,
)
from roamlet.remote.open import Options
from roamlet.remote.opening.commands import Said, ask
from roamlet.remote.opening.connect import connect
from roamlet.remote.transports import quoted
from roamlet.remote.transports.command import checked_arguments, checked_name
from roamlet.remote.transports.kubectl import LABEL, Kubectl
from roamlet.remote.transports.pod import GRACE, IMAGE, CreateMeanings, Pod, State, manifest, state_of, too_late
from roamlet.wire.calls import commands as wire

__all__ = ["pod"]

TIMEOUT = 300.0  # seconds: a node may have to get the image first
DEADLINE = 86_400  # seconds that a pod lives at most
ANSWER = 30.0  # seconds for an answer of the cluster
LOOKS = (0.2, 0.3, 0.5, 1.0)  # seconds between looks at the pod; the last for all that follow
FAILURES = 5  # looks in a row, after which no more are taken
REFUSALS = (RequestRefused, NotAllowed, AuthenticationFailed, TargetNotFound)  # after these no pod was created
LAG = 5.0  # seconds until the cluster says that a pod has ended
SPARE = 60.0  # seconds beyond the time limit, after which a pod without a context ends by itself

_log = logging.getLogger("roamlet.remote")


class _PodContext(Context):
    """A context whose pod is deleted when it ends."""

    def __init__(self, calls: Calls, via: Context | None, cluster: "_Cluster", name: str) -> None:
        super().__init__(calls, via)
        self._cluster = cluster
        self._pod: str | None = name
        self._process = os.getpid()
        _open.add(self)

    def close(self) -> None:
        try:
            super().close()
        finally:  # also where it is cancelled while it waits
            name, self._pod = self._pod, None
            if name is not None and self._process == os.getpid():  # in a forked child it is the parent's
                self._cluster.delete(name)


_open: "weakref.WeakSet[_PodContext]" = weakref.WeakSet()


@atexit.register
def _close_all() -> None:
    """Before the engine closes what is open: it knows nothing of pods."""
    for closed in [roamlet.spawn(context.close) for context in list(_open)]:
        closed.join()


def pod(
    image: str,
    *,
    resources: Mapping[str, Any] | None = None,
    namespace: str | None = None,
    python: str | None = None,
    spec: Mapping[str, Any] | None = None,
    active_deadline_seconds: int = DEADLINE,
    progress: Callable[[str], object] | None = None,
    kubectl_args: Sequence[str] = (),
    **options: Unpack[Options],
) -> Context:
    """Open a context in a pod of its own, which is made of `image`, waited for, and deleted when the context is closed.

    `resources` is what a container's field of that name has, {"requests": {"cpu": "2"}, "limits": {"memory": "4Gi"}}; or
    {"cpu": "2", "memory": "4Gi"} for both. `spec` has further fields of the pod's, laid over roamlet's; its container is called
    "roamlet". `progress` is called with a line whenever the pod's state changes. `python`, a path in the image, needs no shell
    there; without it one looks for an interpreter. `kubectl_args` are options of kubectl itself, such as ["--context", "lab"].
    `timeout` is 300 seconds, and everything else as for `ssh`; with `via`, kubectl runs there.

    A pod of one container also ends when this process does, a SIGKILL included: its first process ends with the context's, and
    about a minute after `timeout` where none has come. One that no node has started yet stays. A node ends a pod
    `active_deadline_seconds` after it took it up; where this process runs in a pod of the same namespace, it ends with that one.

    Blocks this tasklet only; when it is killed, the pod is deleted. Raises NotScheduled when no node had room in time,
    ImagePullFailed, NoPython for an image without Python, RequestRefused for what the cluster does not take, NotAllowed,
    AuthenticationFailed, HostUnreachable, ConnectTimeout; the pod is deleted then.
    """
    limit = _checked(image, resources, spec, active_deadline_seconds, progress, options)
    via = options.get("via")
    cluster = _Cluster(None if via is None else calls_of(via), namespace, kubectl_args, limit)
    name = f"roamlet-{secrets.token_hex(6)}"
    transport = Pod(name, python=python, kubectl_args=kubectl_args, deadline=active_deadline_seconds)
    asked = manifest(
        name,
        image,
        pythons=transport.pythons,
        shell=python is None,
        resources=resources,
        owner=cluster.owner(),
        spec=spec,
        deadline=active_deadline_seconds,
        patience=limit + SPARE,
    )
    transport.namespace = cluster.namespace
    try:
        refused = cluster.create(name, asked)
    except BaseException:  # whether it was created is not known
        cluster.delete(name)
        raise
    if refused is not None:
        try:
            raise refused
        finally:
            del refused  # its traceback holds this frame
    try:
        cluster.wait(name, progress)
        calls, problem = _entered(transport, cluster, cluster.left, options)
        try:
            if problem is not None:
                raise problem
        finally:
            del problem  # its traceback holds this frame
    except BaseException:
        cluster.delete(name)
        raise
    assert calls is not None
    return _PodContext(calls, via, cluster, name)


def _entered(
    transport: Pod, cluster: "_Cluster", timeout: float, options: Options
) -> tuple[Calls | None, ConnectError | None]:
    """The calls of a context in the pod; or why it did not come about, where its first process ran, and has ended since."""
    try:
        calls = connect(
            transport,
            name=options.get("name"),
            timeout=timeout,
            output=options.get("output"),
            policy=options.get("modules"),
            tasklets=options.get("tasklets", False),
            via=cluster.place,
        )
    except TargetNotRunning as error:
        problem = error.with_traceback(None)
    else:
        return calls, None
    return None, cluster.why_ended(transport.target) or problem


def _checked(
    image: str,
    resources: Mapping[str, Any] | None,
    spec: Mapping[str, Any] | None,
    deadline: int,
    progress: object,
    options: Options,
) -> float:
    """The time limit. Raises TypeError or ValueError for arguments that cannot be."""
    for option in options:
        if option not in Options.__annotations__:
            raise TypeError(
                f"remote.pod() takes no argument {option!r}; beside its own: {', '.join(Options.__annotations__)}"
            )
    if not isinstance(image, str):
        raise TypeError(f"image must be the name of an image, such as 'python:3.11-slim', not {image!r}")
    if not IMAGE.fullmatch(image):
        raise BadHostName(f"{image!r} cannot be the name of an image, so nothing was started")
    for name, given in (("resources", resources), ("spec", spec)):
        if given is not None and not isinstance(given, Mapping):
            raise TypeError(f"{name} must be a dict, with the words of a manifest, not {given!r:.80}")
        try:
            json.dumps(given)
        except (TypeError, ValueError):
            raise TypeError(f"{name} must hold what JSON has, as a manifest does, not {given!r:.80}") from None
    if isinstance(deadline, bool) or not isinstance(deadline, int) or deadline < 1:
        raise ValueError(f"active_deadline_seconds must be a whole number, 1 or more, not {deadline!r}")
    if progress is not None and not callable(progress):
        raise TypeError(f"progress must be a function of one text, or None, not {progress!r}")
    if not isinstance(options.get("via"), Context | None):
        raise TypeError(
            f"via= takes a context where kubectl is, such as remote.ssh('admin'), not {options.get('via')!r}"
        )
    limit = options.get("timeout", TIMEOUT)
    if isinstance(limit, bool) or not isinstance(limit, (int, float)) or not limit > 0:
        raise ValueError(f"timeout must be a number of seconds above 0, not {limit!r}")
    return limit


class _Cluster:
    """The cluster that kubectl talks to, in this process's place or in that of `place`; for `limit` seconds from now."""

    def __init__(self, place: Calls | None, namespace: str | None, arguments: Sequence[str], limit: float) -> None:
        self.place = place
        self.namespace = None if namespace is None else checked_name(namespace, "a namespace", LABEL)
        self._arguments = checked_arguments(arguments, "kubectl_args")
        self._limit = limit
        self._deadline = time.monotonic() + limit

    @property
    def left(self) -> float:
        """Seconds until the time limit, for what is tried at all: one at least."""
        return max(1.0, self._deadline - time.monotonic())

    def owner(self) -> dict[str, Any] | None:
        """The pod that kubectl runs in, as the owner of those that are made; None where it runs in no pod or may not ask."""
        try:
            if self.place is None:
                found: Any = wire.place()
            else:
                deadline = deadline_of(min(ANSWER, self.left))
                self.place.shipping.need("calls.commands", deadline)
                found = self.place.call(wire.place, timeout=remaining(deadline))
            host, name, namespace = map(str, found)
        except (RemoteError, OSError, TypeError, ValueError):
            return None
        if not host or not namespace or self.namespace not in (None, namespace) or not LABEL.fullmatch(name):
            return None  # owners are of the same namespace
        with suppress(ConnectError):
            said = self._kubectl("get", "pod", name, "--output=json")
            metadata = _object(said).get("metadata") if said.exit_code == 0 else None
            if isinstance(metadata, dict) and isinstance(metadata.get("uid"), str):
                if metadata.get("namespace") != namespace:
                    return None  # kubectl asks in another one, or another cluster
                if re.fullmatch(r"[\w-]{1,64}", metadata["uid"]):
                    return {"apiVersion": "v1", "kind": "Pod", "name": name, "uid": metadata["uid"]}
        _log.info(
            "this pod may not ask for itself, so that pods which it makes have no owner: that takes the verb get on pods"
        )
        return None

    def create(self, name: str, asked: Mapping[str, Any]) -> ConnectError | None:
        """Create the pod; return why the cluster refuses to. Where it raises, the pod may have been created.

        Before it raises, kubectl has ended: no pod comes after it, which a delete would not find.
        """
        asking = roamlet.spawn(self._kubectl, ("create", "--filename=-"), {"data": json.dumps(asked).encode()})
        try:
            said = asking.join()
        except BaseException:
            try:
                with roamlet.shield(), suppress(Exception):
                    asking.join(ANSWER)
            finally:
                asking.kill()
            raise
        if not said.exit_code:
            return None
        error = self._named(CreateMeanings(name, kubectl_args=self._arguments), said)
        if isinstance(error, REFUSALS):
            return error
        try:
            raise error
        finally:
            del error  # its traceback holds this frame

    def wait(self, name: str, progress: Callable[[str], object] | None) -> None:
        """Return when the pod runs. Raises what it comes to else, and after the deadline. Some looks may fail."""
        text = ""
        looks = failed = 0
        while True:
            try:
                state = self._look(name)
            except (TargetNotFound, NotAllowed, AuthenticationFailed):
                raise
            except ConnectError:
                failed += 1
                if failed == FAILURES:
                    raise
            else:
                failed = 0
                if state.text != text:
                    text = state.text
                    _log.info("pod %s: %s", name, text)
                    if progress is not None:
                        progress(f"pod {name}: {text}")
                if state.error is not None:
                    try:
                        raise state.error
                    finally:
                        del state  # its traceback holds this frame
                if state.ready:
                    return
            pause = LOOKS[min(looks, len(LOOKS) - 1)]
            looks += 1
            if time.monotonic() + pause > self._deadline:
                raise too_late(name, text, self._limit)
            roamlet.sleep(pause)

    def _look(self, name: str, limit: float | None = None) -> State:
        said = self._kubectl("get", "pod", name, "--output=json", limit=limit)
        if said.exit_code:
            raise self._named(CreateMeanings(name, kubectl_args=self._arguments), said)
        try:
            return state_of(_object(said), name)
        except (AttributeError, LookupError, TypeError, ValueError, RecursionError):
            raise _no_pod(said) from None

    def why_ended(self, name: str) -> ConnectError | None:
        """The error of a pod that runs no longer; None where the cluster does not say so within some seconds."""
        end = time.monotonic() + LAG
        while time.monotonic() < end:
            try:
                error = self._look(name, LAG).error
            except TargetNotFound:
                return None
            except ConnectError:  # one look of several
                error = None
            if error is not None:
                return error
            roamlet.sleep(LOOKS[-1])
        return None

    def delete(self, name: str) -> None:
        """Have the pod deleted. Blocks until the cluster knows; raises nothing: what it does not hear is logged."""
        words = ("delete", "pod", name, "--ignore-not-found", "--wait=false", f"--grace-period={GRACE}")
        try:
            with roamlet.shield():
                said = self._kubectl(*words, limit=ANSWER)
            problem = "\n".join(said.lines).strip() if said.exit_code else ""
        except ConnectError as error:
            problem = str(error)
        if problem:
            where = [*self._arguments, *self._where]
            by_hand = shlex.join(["kubectl", *where, "delete", "pod", name])
            _log.warning("pod %s was not deleted; delete it with: %s\n%s", name, by_hand, escaped(problem))

    @property
    def _where(self) -> list[str]:
        return [] if self.namespace is None else [f"--namespace={self.namespace}"]

    def _kubectl(self, *words: str, data: bytes = b"", limit: float | None = None) -> Said:
        return ask(
            self.place,
            ["kubectl", *self._arguments, *self._where, *words],
            min(ANSWER, self.left) if limit is None else limit,
            data=data,
            comes_with=Kubectl.comes_with,
        )

    def _named(self, command: Kubectl, said: Said) -> ConnectError:
        error = command.explain(said.exit_code, said.lines)
        if type(error) is ConnectError:
            error = ConnectError(f"`{' '.join(said.argv)}` failed:\n{quoted(said.lines)}\n    Try it by hand.")
        return error


def _object(said: Said) -> Mapping[str, Any]:
    try:
        found = json.loads(said.text)
    except (ValueError, RecursionError):
        found = None
    if not isinstance(found, dict):
        raise _no_pod(said)
    return found


def _no_pod(said: Said) -> ConnectError:
    return ConnectError(f"`{' '.join(said.argv)}` did not answer with a pod: {said.text[:200]!r}")
