"""Pods of a real Kubernetes: made, waited for, used, and ended in every way."""

import json
import os
import signal
import subprocess
import sys
import time

import pytest
import roamlet_sent

import roamlet
from roamlet import remote
from tests.remote.raising import raises
from tests.soak.kubernetes import HOST, CannotBeMade, running_kubernetes

pytestmark = [pytest.mark.soak, pytest.mark.timeout(300)]

IMAGE = "localhost/python:1"


@pytest.fixture(scope="module")
def kubernetes(tmp_path_factory):
    try:
        with running_kubernetes(tmp_path_factory.mktemp("kubernetes")) as cluster:
            yield cluster
    except CannotBeMade as reason:
        pytest.skip(f"no Kubernetes: {reason}")


@pytest.fixture
def cluster(kubernetes, tmp_path, monkeypatch):
    """kubectl is on PATH. No pod is left after the test."""
    kubernetes.install(tmp_path)
    monkeypatch.setenv("PATH", f"{tmp_path}{os.pathsep}{os.environ['PATH']}")
    monkeypatch.delenv("KUBERNETES_SERVICE_HOST", raising=False)
    yield kubernetes
    until(lambda: pods(kubernetes) == [])


def pods(cluster):
    return [
        pod["metadata"]["name"] for pod in json.loads(cluster.kubectl("get", "pods", "--output=json").stdout)["items"]
    ]


def status(cluster, name):
    return json.loads(cluster.kubectl("get", "pod", name, "--output=json").stdout)["status"]


def until(condition, seconds=60):
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end
        roamlet.sleep(0.3)


def test_a_pod_is_made_used_and_deleted(cluster):
    states = []
    with remote.pod(IMAGE, spec=HOST, resources={"cpu": "100m", "memory": "200Mi"}, progress=states.append) as context:
        data = os.urandom(3 << 20)
        assert context.call(roamlet_sent.echo, (data,)) == data  # no byte is changed on the way
        assert context.call(os.path.exists, ("/pause",)) is False
        assert pods(cluster) == [context.name]
        assert cluster.kubectl("logs", context.name).stdout == ""  # nothing of what travels is in its log
    assert states[-1].endswith("running")


def test_an_image_needs_no_shell(cluster):
    with remote.pod("localhost/no-shell:1", spec=HOST, python="/usr/bin/python3") as context:
        assert context.call(roamlet_sent.add, (1, 2)) == 3
    with raises(remote.NoPython, match='exec: "sh".*without python= the image needs a shell'):
        remote.pod("localhost/no-shell:1", spec=HOST)


@pytest.mark.parametrize("options", [{}, {"python": "/usr/bin/python3"}], ids=str)
def test_an_image_without_python_is_named_so(options, cluster):
    with raises(remote.NoPython, match="has no Python that was found"):
        remote.pod("localhost/no-python:1", spec=HOST, **options)


@pytest.mark.parametrize("image", ["localhost/missing:1", "Upper/case:1"])
def test_an_image_that_does_not_come_is_named_so(image, cluster):
    with raises(remote.ImagePullFailed, match="ImagePullBackOff|InvalidImageName"):
        remote.pod(image, spec=HOST)


def test_what_the_cluster_refuses_is_named(cluster):
    with raises(remote.NotScheduled, match="Insufficient cpu"):
        remote.pod(IMAGE, spec=HOST, resources={"cpu": "1000"}, timeout=5)
    with raises(remote.NotAllowed, match='let this user create pods.*User "bob"'):
        remote.pod(IMAGE, spec=HOST, kubectl_args=["--context", "bob"])
    with raises(remote.RequestRefused, match="must be less than or equal to cpu limit"):
        remote.pod(IMAGE, resources={"requests": {"cpu": "4"}, "limits": {"cpu": "1"}})
    with raises(remote.RequestRefused, match=r"unknown field \"spec\.nodeSelectr\""):
        remote.pod(IMAGE, spec={"nodeSelectr": {"disk": "ssd"}})
    with raises(remote.TargetNotFound, match="no lab among its namespaces"):
        remote.pod(IMAGE, namespace="lab")
    with raises(remote.AuthenticationFailed, match="does not know this user"):
        remote.pod(IMAGE, kubectl_args=["--token=nope", "--context", "bob"])
    with raises(remote.HostUnreachable, match="does not answer"):
        remote.pod(IMAGE, kubectl_args=["--server=https://127.0.0.1:1"])


PARENT = """
import time
from roamlet import remote
context = remote.pod({image!r}, spec={spec!r})
print(context.name, flush=True)
time.sleep(1000)
"""


def test_a_pod_ends_by_itself_when_its_parent_is_killed(cluster):
    words = [sys.executable, "-c", PARENT.format(image=IMAGE, spec=HOST)]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    with subprocess.Popen(words, stdout=subprocess.PIPE, text=True, env=environment) as parent:
        name = parent.stdout.readline().strip()
        assert status(cluster, name)["phase"] == "Running"
        parent.send_signal(signal.SIGKILL)
    until(lambda: status(cluster, name)["phase"] == "Succeeded")
    cluster.kubectl("delete", "pod", name)


def test_the_cluster_ends_it_after_its_time(cluster):
    with remote.pod(IMAGE, spec=HOST, active_deadline_seconds=10) as context:
        with raises(remote.ContextDied, match="had lived for its 10 seconds"):
            context.call(roamlet_sent.never_return)
        until(lambda: status(cluster, context.name).get("reason") == "DeadlineExceeded")


def test_a_pod_that_takes_too_much_memory_is_named_so(cluster):
    with remote.pod(IMAGE, spec=HOST, resources={"memory": "60Mi"}) as context:
        with raises(remote.ContextDied, match="more memory than the pod may have"):
            context.call(bytearray, (300 << 20,))


def test_a_pod_ends_with_the_pod_that_owns_it(cluster, monkeypatch):
    pod = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "runner"},
        "spec": {**HOST, "containers": [{"name": "main", "image": IMAGE, "command": ["sleep", "1000"]}]},
    }
    subprocess.run(
        ["kubectl", "create", "--filename=-"], input=json.dumps(pod), text=True, check=True, capture_output=True
    )
    monkeypatch.setattr("roamlet.wire.calls.commands.place", lambda: ["203.0.113.1", "runner", "default"])
    with remote.pod(IMAGE, spec=HOST):
        cluster.kubectl("delete", "pod", "runner", "--grace-period=1")
        until(lambda: pods(cluster) == [])
