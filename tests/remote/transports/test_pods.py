"""Pods that are made for one context, by a stand-in for kubectl and its cluster."""

import json
import logging
import os
import shutil
import signal
import subprocess
import sys
import time

import pytest
import roamlet_detach_sent
import roamlet_sent

import roamlet
from roamlet import remote
from roamlet.remote.opening.commands import Said, ask
from roamlet.remote.pods import REFUSALS, _Cluster
from roamlet.remote.transports.pod import laid_over, manifest, state_of
from tests.remote.raising import raises
from tests.remote.transports.kubectl_standin import Cluster

IMAGE = "python:3.11-slim"
FORBIDDEN = "Error from server (Forbidden)"


@pytest.fixture
def cluster(commands, monkeypatch):
    if os.geteuid() != 0 or shutil.which("unshare") is None:
        pytest.skip("namespaces of one's own take root and unshare")
    monkeypatch.delenv("KUBERNETES_SERVICE_HOST", raising=False)
    cluster = Cluster(commands)
    yield cluster
    cluster.end()


def until(condition, seconds=30):
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end
        roamlet.sleep(0.1)


def test_a_pod_is_made_waited_for_used_and_deleted(cluster):
    states = []
    asked = {"cpu": "2", "memory": "4Gi"}
    with remote.pod(IMAGE, resources=asked, namespace="lab", python=sys.executable, progress=states.append) as context:
        assert context.call(roamlet_sent.add, (1, 2)) == 3
        (pod,) = cluster.pods
        name = pod["metadata"]["name"]
        assert context.name == name
        assert pod["spec"]["activeDeadlineSeconds"] == 86400
        assert pod["spec"]["restartPolicy"] == "Never"
        assert pod["metadata"]["labels"] == {"app.kubernetes.io/managed-by": "roamlet"}
        assert "ownerReferences" not in pod["metadata"]
        (container,) = pod["spec"]["containers"]
        assert container["resources"] == {"requests": asked, "limits": asked}
    assert cluster.pods == []
    assert states[-1] == f"pod {name}: running"
    assert {words[0] for words in cluster.calls} == {"--namespace=lab"}
    assert cluster.calls[-1][1:] == ["delete", "pod", name, "--ignore-not-found", "--wait=false", "--grace-period=2"]


def test_a_shell_in_the_image_looks_for_a_python(cluster):
    with remote.pod(IMAGE) as context:
        assert context.call(roamlet_sent.add, (1, 2)) == 3
    assert cluster.pods == []


PARENT = """
import sys, time
from roamlet import remote
context = remote.pod("python:3.11-slim", python={python!r})
print(context.name, flush=True)
time.sleep(100)
"""


def test_a_pod_ends_by_itself_when_its_parent_is_killed(cluster):
    words = [sys.executable, "-c", PARENT.format(python=sys.executable)]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    with subprocess.Popen(words, stdout=subprocess.PIPE, text=True, env=environment) as parent:
        name = parent.stdout.readline().strip()
        assert cluster.phase(name) == "Running"
        parent.send_signal(signal.SIGKILL)
    until(lambda: cluster.phase(name) == "Succeeded")


def test_a_pod_is_deleted_at_the_end_of_a_program_that_does_not_close_it(cluster):
    program = (
        f"from roamlet import remote\ncontext = remote.pod('python:3', python={sys.executable!r})\nprint(context.name)"
    )
    done = subprocess.run(
        [sys.executable, "-c", program],
        capture_output=True,
        text=True,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
        check=False,
        timeout=60,
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert cluster.pods == []


def test_a_pod_lives_as_long_as_what_was_detached_in_it(cluster, tmp_path):
    context = remote.pod(IMAGE, python=sys.executable)
    name = context.name
    fifo = tmp_path / "fifo"
    os.mkfifo(fifo)
    context.detach(roamlet_detach_sent.wait_and_write, (str(fifo), str(tmp_path / "done")))
    remote.Context.close(context)  # and not the pod
    before = cluster.pauses(name)
    until(lambda: cluster.pauses(name) > before + 8)  # more looks than it takes to end
    assert cluster.phase(name) == "Running"
    fifo.write_text("go on")
    until((tmp_path / "done").exists)
    until(lambda: cluster.phase(name) == "Succeeded")
    context.close()
    assert cluster.pods == []


def test_a_pod_without_a_context_ends_by_itself(cluster):
    asked = manifest(
        "roamlet-alone",
        IMAGE,
        pythons=[sys.executable],
        shell=False,
        resources=None,
        owner=None,
        spec=None,
        deadline=60,
        patience=1,
    )
    subprocess.run(
        ["kubectl", "create", "--filename=-"], input=json.dumps(asked), text=True, check=True, capture_output=True
    )
    until(lambda: cluster.phase("roamlet-alone") == "Succeeded")


def test_the_cluster_ends_it_after_its_time(cluster):
    with remote.pod(IMAGE, python=sys.executable, active_deadline_seconds=2) as context:
        with raises(remote.ContextDied, match=r"active_deadline_seconds\)"):
            context.call(roamlet_sent.never_return)
    assert cluster.pods == []


@pytest.mark.parametrize(
    ("image", "options", "error", "says"),
    [
        ("huge:1", {"timeout": 4}, remote.NotScheduled, "no room for the pod.*within 4 seconds.*3 Insufficient memory"),
        ("missing:1", {}, remote.ImagePullFailed, "ImagePullBackOff: Back-off pulling image.*imagePullSecrets"),
        ("empty:1", {}, remote.NoPython, "no Python that was found.*python:3.11-slim"),
        ("late:1", {}, remote.NoPython, "no Python that was found"),
        ("unset:1", {}, remote.TargetNotRunning, 'CreateContainerConfigError: secret "token" not found'),
        ("slow:1", {"timeout": 4}, remote.ConnectTimeout, "not ready within 4 seconds.*last seen on node-1: ContainerCreating"),
        (IMAGE, {"python": "/no/such/python"}, remote.NoPython, "exit code 127"),
    ],
)  # fmt: skip
def test_what_keeps_a_pod_from_running_is_named_and_the_pod_deleted(image, options, error, says, cluster):
    with raises(remote.ConnectError, match=says) as caught:
        remote.pod(image, **options)
    assert type(caught.value) is error
    assert cluster.pods == []


@pytest.mark.parametrize(
    ("verb", "said", "error", "says"),
    [
        ("create", f'{FORBIDDEN}: error when creating "STDIN": pods is forbidden: User "bob" cannot create resource "pods" in API '
         'group "" in the namespace "lab"\n', remote.NotAllowed, "let this user create pods.*auth can-i create pods"),
        ("exec", f'{FORBIDDEN}: pods "p" is forbidden: User "bob" cannot create resource "pods/exec" in API group ""\n',
         remote.NotAllowed, "create on pods/exec"),
        ("create", f'{FORBIDDEN}: error when creating "STDIN": pods "p" is forbidden: exceeded quota: compute, requested: cpu=2, '
         "used: cpu=9, limited: cpu=10\n", remote.RequestRefused, "quota compute has no room"),
        ("create", 'The Pod "p" is invalid: spec.containers[0].resources.requests: Invalid value: "9": must be less than or equal '
         "to cpu limit\n", remote.RequestRefused, "takes no such pod"),
        ("create", 'Error from server (NotFound): error when creating "STDIN": namespaces "lab" not found\n',
         remote.TargetNotFound, "no lab among its namespaces"),
        ("create", "The connection to the server localhost:8080 was refused - did you specify the right host or port?\n",
         remote.HostUnreachable, "kubectl cluster-info"),
        ("get", "error: You must be logged in to the server (Unauthorized)\n", remote.AuthenticationFailed, "Log in anew"),
        ("create", 'error: error validating "STDIN": error validating data: failed to download openapi: the server has asked for '
         "the client to provide credentials\n", remote.AuthenticationFailed, "Log in anew"),
        ("create", 'error: error validating "STDIN": error validating data: failed to download openapi: Get '
         '"https://10.0.0.1/openapi/v2": dial tcp 10.0.0.1:443: connect: connection refused\n',
         remote.HostUnreachable, "cluster-info"),
        ("create", f'{FORBIDDEN}: error when creating "STDIN": pods "p" is forbidden: violates PodSecurity "restricted:latest"\n',
         remote.NotAllowed, "a rule of the cluster forbids"),
        ("get", "error: something else\n", remote.ConnectError, "something else.*Try it by hand"),
    ],
)  # fmt: skip
def test_what_kubectl_says_becomes_a_named_error(verb, said, error, says, cluster):
    cluster.fails(verb, said)
    with raises(remote.ConnectError, match=says) as caught:
        remote.pod(IMAGE, python=sys.executable)
    assert type(caught.value) is error
    assert cluster.pods == []
    refused = issubclass(error, REFUSALS) and verb == "create"
    assert any("delete" in words for words in cluster.calls) != refused  # where none was created none is deleted


@pytest.mark.parametrize(
    ("said", "error"),
    [
        ("Unable to connect to the server: net/http: request canceled (i/o timeout)\n", remote.HostUnreachable),
        ('error: error when creating "STDIN": Post "https://10.0.0.1/api/v1/pods": unexpected EOF\n', remote.ConnectError),
        ("Error from server (Timeout): the server was unable to return a response in the time allotted\n", remote.ConnectError),
    ],
)  # fmt: skip
def test_a_pod_that_was_created_although_kubectl_says_no_is_deleted(said, error, cluster):
    cluster.fails("answer", said)
    with raises(remote.ConnectError) as caught:
        remote.pod(IMAGE, python=sys.executable)
    assert type(caught.value) is error
    assert len(cluster.created) == 1
    assert cluster.pods == []


def test_the_time_limit_is_that_of_all_questions_before_the_pod_is_ready(cluster, monkeypatch):
    limits = []

    def noted(place, words, limit, **options):
        if "delete" not in words:
            limits.append(limit)
        return ask(place, words, limit, **options)

    monkeypatch.setattr("roamlet.wire.calls.commands.place", lambda: ["10.0.0.1", "runner-0", "lab"])
    monkeypatch.setattr("roamlet.remote.pods.ask", noted)
    with raises(remote.ConnectTimeout):
        remote.pod("slow:1", timeout=4)
    assert len(limits) > 2  # for the owner, to create it, and a look
    assert limits == sorted(limits, reverse=True)
    assert limits[0] <= 4


def test_some_looks_at_a_pod_may_fail(cluster):
    cluster.fails("get", "Error from server: etcdserver: leader changed\n", times=3)
    with remote.pod(IMAGE, python=sys.executable) as context:
        assert context.call(roamlet_sent.add, (1, 2)) == 3


def test_no_more_looks_are_taken_at_a_pod_that_is_gone(cluster):
    cluster.fails("get", 'Error from server (NotFound): pods "p" not found\n', times=1)
    with raises(remote.TargetNotFound):
        remote.pod(IMAGE, python=sys.executable)


def test_without_kubectl_the_package_is_named(commands, monkeypatch):
    monkeypatch.setenv("PATH", str(commands))
    with raises(remote.ConnectError, match="no program `kubectl` on PATH.*kubernetes-client"):
        remote.pod(IMAGE)


def test_a_killed_opener_deletes_its_pod(cluster):
    opener = roamlet.tasklet(remote.pod)("slow:1")
    until(lambda: cluster.pods)
    opener.kill()
    roamlet.run()
    assert cluster.pods == []


@pytest.mark.parametrize("elsewhere", [False, True])
def test_a_pod_that_is_created_after_its_opener_was_killed_is_deleted(elsewhere, cluster):
    with remote.local(name="admin") as via:
        opener = roamlet.tasklet(remote.pod)("far:1", via=via if elsewhere else None)
        until(lambda: cluster.calls)
        opener.kill()
        roamlet.run()
        until(lambda: cluster.created)
        assert cluster.pods == []


def test_a_pod_is_deleted_where_its_block_is_left_by_an_expired_time_out(cluster):
    context = remote.pod(IMAGE, python=sys.executable)
    with raises(TimeoutError), roamlet.timeout(0.1), context:
        roamlet.sleep(100)
    assert cluster.pods == []


def test_kubectl_runs_in_the_place_of_via(cluster):
    with remote.local(name="admin") as via:
        with remote.pod(IMAGE, python=sys.executable, via=via) as context:
            assert context.name == f"admin/{cluster.pods[0]['metadata']['name']}"
            assert context.call(roamlet_sent.add, (1, 2)) == 3
        assert cluster.pods == []


def test_a_pod_that_cannot_be_deleted_is_logged(cluster, caplog):
    options = {"kubectl_args": ["--context=lab"], "namespace": "jobs"}
    with remote.pod(IMAGE, python=sys.executable, **options) as context:
        cluster.fails("delete", "error: no\x1b[2J\n")
    with caplog.at_level(logging.WARNING):
        until(lambda: cluster.phase(context.name) == "Succeeded")
    by_hand = f"kubectl --context=lab --namespace=jobs delete pod {context.name}"
    assert f"pod {context.name} was not deleted; delete it with: {by_hand}\nerror: no\\x1b[2J" in caplog.text


def test_in_a_pod_of_the_cluster_that_one_is_the_owner(cluster, monkeypatch):
    monkeypatch.setattr("roamlet.wire.calls.commands.place", lambda: ["10.0.0.1", "runner-0", "lab"])
    runner = {"metadata": {"uid": "8d3f-1", "namespace": "lab"}}
    (cluster.folder / "runner-0.json").write_text(json.dumps(runner))
    with remote.pod(IMAGE, python=sys.executable):
        made = next(pod for pod in cluster.pods if "spec" in pod)
        assert made["metadata"]["ownerReferences"] == [
            {"apiVersion": "v1", "kind": "Pod", "name": "runner-0", "uid": "8d3f-1"}
        ]
    with remote.pod(IMAGE, python=sys.executable, namespace="other"):  # an owner is of the same namespace
        assert "ownerReferences" not in next(pod for pod in cluster.pods if "spec" in pod)["metadata"]


def test_a_namespace_or_cluster_of_kubectls_arguments_stays_where_there_is_an_owner(cluster, monkeypatch):
    monkeypatch.setattr("roamlet.wire.calls.commands.place", lambda: ["10.0.0.1", "runner-0", "lab"])
    other = {"metadata": {"uid": "8d3f-1", "namespace": "jobs"}}  # one of the same name
    (cluster.folder / "runner-0.json").write_text(json.dumps(other))
    with remote.pod(IMAGE, python=sys.executable, kubectl_args=["--namespace=jobs"]):
        assert "ownerReferences" not in next(pod for pod in cluster.pods if "spec" in pod)["metadata"]
    assert {tuple(word for word in words if "namespace" in word) for words in cluster.calls} == {("--namespace=jobs",)}


@pytest.mark.parametrize("answer", ["{}", "[]", '{"metadata": []}', '{"metadata": {"uid": {}}}', "[" * 100_000, "}"])
def test_an_owner_is_done_without_whatever_the_cluster_answers(answer, cluster, monkeypatch):
    monkeypatch.setattr("roamlet.wire.calls.commands.place", lambda: ["10.0.0.1", "runner-0", "lab"])
    said = Said(["kubectl"], 0, answer, "")
    monkeypatch.setattr("roamlet.remote.pods.ask", lambda *_, **__: said)
    assert _Cluster(None, None, (), 9).owner() is None


def test_an_answer_that_is_no_pod_is_an_error(cluster, monkeypatch):
    said = Said(["kubectl", "get"], 0, '{"status": {"containerStatuses": [3]}}', "")
    monkeypatch.setattr("roamlet.remote.pods.ask", lambda *_, **__: said)
    with raises(remote.ConnectError, match="`kubectl get` did not answer with a pod: '{"):
        _Cluster(None, None, (), 9).wait("p", None)


def test_an_owner_that_may_not_be_asked_for_is_done_without(cluster, monkeypatch):
    monkeypatch.setattr("roamlet.wire.calls.commands.place", lambda: ["10.0.0.1", "runner-0", "lab"])
    with remote.pod(IMAGE, python=sys.executable):
        assert "ownerReferences" not in cluster.pods[0]["metadata"]


def test_fields_of_the_pods_spec_are_laid_over_ours():
    ours = {
        "restartPolicy": "Never",
        "containers": [{"name": "roamlet", "image": "a", "resources": {"limits": {"cpu": 1}}}],
    }
    theirs = {
        "nodeSelector": {"gpu": "yes"},
        "containers": [
            {"env": [{"name": "A", "value": "1"}], "resources": {"limits": {"memory": "1Gi"}}},
            {"name": "side", "image": "b"},
        ],
    }
    assert laid_over(ours, theirs) == {
        "restartPolicy": "Never",
        "nodeSelector": {"gpu": "yes"},
        "containers": [
            {
                "name": "roamlet",
                "image": "a",
                "env": [{"name": "A", "value": "1"}],
                "resources": {"limits": {"cpu": 1, "memory": "1Gi"}},
            },
            {"name": "side", "image": "b"},
        ],
    }


def test_what_a_cluster_answers_may_lack_anything():
    assert state_of({}, "p").text == "unknown"
    assert state_of({"status": {"phase": "Running", "containerStatuses": None}}, "p").ready is False
    assert state_of({"status": {"phase": "Failed", "reason": "Evicted"}}, "p").error is not None


def test_what_a_cluster_answers_is_escaped_and_cut():
    waiting = {"reason": "ErrImagePull", "message": "\x1b[2J" + "a" * (1 << 20)}
    text = state_of({"status": {"containerStatuses": [{"name": "roamlet", "state": {"waiting": waiting}}]}}, "p").text
    assert text.startswith(r"waiting: ErrImagePull \x1b[2Jaaa")
    assert len(text) < 5000


@pytest.mark.parametrize(
    ("options", "error", "says"),
    [
        ({"image": "-x"}, remote.BadHostName, "name of an image"),
        ({"image": 3}, TypeError, "image must be the name"),
        ({"namespace": "a;b"}, remote.BadHostName, "name of a namespace"),
        ({"resources": "cpu"}, TypeError, "resources must be a dict"),
        ({"spec": {"a": {1, 2}}}, TypeError, "spec must hold what JSON has"),
        ({"active_deadline_seconds": 0}, ValueError, "active_deadline_seconds must be a whole number"),
        ({"timeout": 0}, ValueError, "timeout must be a number of seconds"),
        ({"progress": 3}, TypeError, "progress must be a function"),
        ({"via": "admin"}, TypeError, "via= takes a context where kubectl is"),
        ({"python": "-c"}, ValueError, "cannot be an interpreter"),
        ({"kubectl_args": "--context lab"}, TypeError, "kubectl_args takes a list"),
        ({"cpus": 3}, TypeError, "takes no argument 'cpus'"),
    ],
)  # fmt: skip
def test_wrong_arguments_are_refused_before_anything_is_started(options, error, says, commands):
    cluster = Cluster(commands)
    with raises(error, match=says):
        remote.pod(**{"image": IMAGE, **options})
    assert cluster.calls == []
