"""docker, podman, buildah, kubectl, lxc, incus and jexec against stand-ins of their commands, which say what the real ones say."""

import sys

import pytest
import roamlet_sent

import roamlet
from roamlet import remote
from roamlet.remote.link.sender import Sender
from tests.remote.raising import raises
from tests.remote.transports import standin

OPEN = {
    "docker": (standin.DOCKER, remote.docker),
    "podman": (standin.PODMAN, remote.podman),
    "buildah": (standin.BUILDAH, remote.buildah),
    "jail": (standin.JAIL, remote.jail),
    "kubectl": (standin.KUBECTL, remote.kubectl),
    "lxc": (standin.LXC, remote.lxc),
    "incus": (standin.INCUS, remote.incus),
    "lxd": (standin.LXD, lambda name, **options: remote.incus(name, client="lxc", **options)),
}
CALLED = {
    "docker": ["exec", "--interactive", "--", "web"],
    "podman": ["exec", "--interactive", "--", "web"],
    "buildah": ["run", "--", "web"],
    "jail": ["web"],
    "kubectl": ["exec", "--stdin", "web", "--"],
    "lxc": ["--clear-env", "--name", "web", "--"],
    "incus": ["exec", "--mode=non-interactive", "web", "--"],
    "lxd": ["exec", "--mode=non-interactive", "web", "--"],
}


@pytest.mark.parametrize("kind", OPEN)
def test_a_context_is_opened_with_the_words_that_the_command_knows(kind, commands):
    what, function = OPEN[kind]
    command = what.install(commands)
    with function("web", python=sys.executable) as context:
        assert context.call(roamlet_sent.add, (1, 2)) == 3
        assert context.name == "web"
    (words,) = command.calls
    before = len(CALLED[kind])
    assert words[:before] == CALLED[kind]
    assert words[before : before + 3] == [sys.executable, "-BEs", "-c"]


def test_each_opens_contexts_behind_another(commands):
    """The command runs on the target, with the PATH there."""
    installed = {kind: what.install(commands) for kind, (what, _) in OPEN.items()}
    with remote.local(name="hop") as hop:
        for kind, (_, function) in OPEN.items():
            with function("web", python=sys.executable, via=hop) as context:
                assert context.call(roamlet_sent.add, (1, 2)) == 3
                assert context.name == "hop/web"
            (words,) = installed[kind].calls
            assert words[: len(CALLED[kind])] == CALLED[kind]


@pytest.mark.parametrize("kind", ["docker", "lxc"])
def test_without_python_a_shell_in_the_container_looks_for_one(kind, commands):
    what, function = OPEN[kind]
    command = what.install(commands)
    with function("web") as context:
        assert context.facts.python[0] in (2, 3)
    words = command.calls[0][len(CALLED[kind]) :]
    assert words[:2] == ["/bin/sh", "-c"]
    assert f'for p in "python{sys.version_info[0]}.{sys.version_info[1]}" "python3" "python"; do' in words[2]
    assert len(words) == 3


@pytest.mark.parametrize("kind", OPEN)
def test_an_interpreter_that_the_container_lacks_is_named(kind, commands):
    what, function = OPEN[kind]
    what.install(commands)
    with raises(remote.NoPython, match=r"Give the path of one.*as python=.*2\.7, or 3\.6"):
        function("web", python="/no/such/python")


@pytest.mark.parametrize("kind", OPEN)
@pytest.mark.parametrize("name", ["-it", "--privileged", "", "a b", "a;b", "a\nb", "$(id)", "../x", "web\0"])
def test_a_name_that_cannot_be_one_is_refused_before_anything_is_started(kind, name, monkeypatch):
    monkeypatch.setattr("subprocess.Popen", None)
    with raises(remote.BadHostName, match="cannot be the name of .*, so nothing was started") as caught:
        OPEN[kind][1](name)
    assert isinstance(caught.value, ValueError)


@pytest.mark.parametrize("kind", OPEN)
def test_a_client_that_is_not_installed_is_named_with_where_it_comes_from(kind, tmp_path, monkeypatch):
    monkeypatch.setenv("PATH", str(tmp_path))
    program = OPEN[kind][0].program
    with raises(remote.ConnectError, match=f"there is no program `{program}` on PATH. It comes with "):
        OPEN[kind][1]("web")


@pytest.mark.parametrize(
    ("kind", "options", "words"),
    [
        ("docker", {"user": "alice", "docker_args": ["--context", "lab"]},
         ["--context", "lab", "exec", "--interactive", "--user", "alice", "--", "web"]),
        ("docker", {"user": "#1000"}, ["exec", "--interactive", "--user", "1000", "--", "web"]),
        ("podman", {"podman_args": ["--remote"]}, ["--remote", "exec", "--interactive", "--", "web"]),
        ("buildah", {"user": "#1000", "buildah_args": ["--isolation", "chroot"]},
         ["run", "--isolation", "chroot", "--user", "1000", "--", "web"]),
        ("jail", {"user": "alice", "jexec_args": ["-l"]}, ["-l", "-U", "alice", "web"]),
        ("kubectl", {"container": "app", "namespace": "shop", "kubectl_args": ["--context=lab"]},
         ["--context=lab", "--namespace=shop", "exec", "--stdin", "--container=app", "web", "--"]),
        ("lxc", {"lxc_args": ["--lxcpath", "/srv"]}, ["--clear-env", "--lxcpath", "/srv", "--name", "web", "--"]),
        ("incus", {"incus_args": ["--project", "lab"]}, ["--project", "lab", "exec", "--mode=non-interactive", "web", "--"]),
    ],
)  # fmt: skip
def test_options_stand_where_the_command_takes_them(kind, options, words, commands):
    what, function = OPEN[kind]
    command = what.install(commands)
    with function("web", python=sys.executable, **options) as context:
        assert context.call(roamlet_sent.add, (1, 2)) == 3
    assert command.calls[0][: len(words)] == words


@pytest.mark.parametrize(
    ("kind", "options", "error", "says"),
    [
        ("docker", {"user": "-x"}, ValueError, "cannot be the name of a user"),
        ("docker", {"user": 7}, TypeError, "a user must be a str, not 7"),
        ("docker", {"docker_args": "--debug"}, TypeError, "docker_args takes a list of single arguments"),
        ("podman", {"podman_args": "--debug"}, TypeError, "podman_args takes a list of single arguments"),
        ("buildah", {"buildah_args": "--debug"}, TypeError, "buildah_args takes a list of single arguments"),
        ("jail", {"jexec_args": "-l"}, TypeError, "jexec_args takes a list of single arguments"),
        ("jail", {"user": "-x"}, ValueError, "cannot be the name of a user"),
        ("kubectl", {"container": "--all"}, ValueError, "cannot be the name of a container of a pod"),
        ("kubectl", {"namespace": "A_B"}, ValueError, "cannot be the name of a namespace"),
        ("incus", {"client": "sh"}, ValueError, 'client must be "incus", or "lxc" for LXD'),
        ("lxc", {"lxc_args": [7]}, TypeError, "lxc_args takes a list of single arguments"),
        ("lxc", {"python": "-c"}, ValueError, "python='-c' cannot be an interpreter"),
    ],
)
def test_options_that_cannot_be_are_refused_before_anything_is_started(kind, options, error, says, monkeypatch):
    monkeypatch.setattr("subprocess.Popen", None)
    with raises(error, match=says):
        OPEN[kind][1]("web", **options)


# What the commands say, taken from their sources and from what their users report.
DOCKER_SOCKET = (
    "permission denied while trying to connect to the Docker daemon socket at unix:///var/run/docker.sock: Get "
    '"http://%2Fvar%2Frun%2Fdocker.sock/v1.51/containers/web/json": dial unix /var/run/docker.sock: connect: permission denied\n'
)
FORBIDDEN = (
    'Error from server (Forbidden): pods "web" is forbidden: User "me" cannot create resource "pods/exec" in API group "" in '
    'the namespace "shop"\n'
)
INCUS_SOCKET = 'Error: Get "http://unix.socket/1.0": dial unix /var/lib/incus/unix.socket: connect: permission denied\n'
ATTACH = "lxc-attach: web: ../src/lxc/attach.c: get_attach_context: 403 Failed to get init pid\n"


@pytest.mark.parametrize(
    ("kind", "code", "said", "error", "says"),
    [
        ("docker", 1, "Error response from daemon: No such container: web\n", remote.TargetNotFound,
         "no container web.*docker ps --all"),
        ("docker", 1, "Error response from daemon: Container 0f5e is not running\n", remote.TargetNotRunning, "docker start web"),
        ("docker", 1, "Error response from daemon: container web is not running\n", remote.TargetNotRunning, "docker start web"),
        ("docker", 1, "Error response from daemon: Container web is paused, unpause the container before exec\n",
         remote.TargetNotRunning, "does not run"),
        ("docker", 1, DOCKER_SOCKET, remote.NotAllowed, "may not talk to Docker's daemon.*group docker"),
        ("docker", 1, "Cannot connect to the Docker daemon at unix:///var/run/docker.sock. Is the docker daemon running?\n",
         remote.ConnectError, "does not answer.*DOCKER_HOST"),
        ("docker", 126, "unable to find user zoe: no matching entries in passwd file\n", remote.TargetNotFound, "no user zoe"),
        ("docker", 3, "an unknown message\n", remote.ConnectError,
         "ended with exit code 3 before a Python answered.*an unknown message.*docker exec --interactive -- web echo hello"),
        ("podman", 125, 'Error: no container with name or ID "web" found: no such container\n', remote.TargetNotFound, "podman ps"),
        ("podman", 255, "Error: can only create exec sessions on running containers: container state improper\n",
         remote.TargetNotRunning, "podman start web"),
        ("podman", 125, "Cannot connect to Podman. Please verify your connection to the Linux system\n", remote.ConnectError,
         "podman system connection list"),
        ("podman", 125, 'Error: cannot set up namespace using "/usr/bin/newuidmap": exit status 1\n', remote.NotAllowed, "subuid"),
        ("buildah", 125, 'Error: reading build container "web": container not known\n', remote.TargetNotFound,
         "buildah containers"),
        ("buildah", 125, 'Error: determining run uid: user: unknown user error looking up user "zoe"\n', remote.TargetNotFound,
         "no user zoe"),
        ("buildah", 125, 'Error: cannot set up namespace using "/usr/bin/newuidmap": exit status 1\n', remote.NotAllowed, "subuid"),
        ("jail", 1, 'jexec: jail "web" not found\n', remote.TargetNotFound, "no jail web.*jls"),
        ("jail", 1, "jexec: jail_attach(3): Operation not permitted\n", remote.NotAllowed, "takes root"),
        ("jail", 1, "jexec: zoe: no such user\n", remote.TargetNotFound, "no user zoe"),
        ("kubectl", 1, 'Error from server (NotFound): pods "web" not found\n', remote.TargetNotFound, "no web among its pods"),
        ("kubectl", 1, 'Error from server (NotFound): deployments.apps "web" not found\n', remote.TargetNotFound,
         "no web among its deployments.apps"),
        ("kubectl", 1, FORBIDDEN, remote.NotAllowed, "kubectl auth can-i create pods/exec"),
        ("kubectl", 1, 'error: unable to upgrade connection: container not found ("app")\n', remote.TargetNotRunning,
         "kubectl describe pod web"),
        ("kubectl", 1, "Error from server (BadRequest): container app is not valid for pod web\n", remote.TargetNotRunning,
         "no such container"),
        ("kubectl", 1, "error: cannot exec into a container in a completed pod; current phase is Succeeded\n",
         remote.TargetNotRunning, "the pod does not run"),
        ("kubectl", 1, "error: You must be logged in to the server (Unauthorized)\n", remote.AuthenticationFailed, "Log in anew"),
        ("kubectl", 1, "The connection to the server localhost:8080 was refused - did you specify the right host or port?\n",
         remote.HostUnreachable, "kubectl cluster-info"),
        ("kubectl", 1, 'error: context "lab" does not exist\n', remote.TargetNotFound, "get-contexts"),
        ("lxc", 1, ATTACH, remote.TargetNotRunning, "lxc-start --name web"),
        ("lxc", 1, "Error: container web is not defined\n", remote.TargetNotFound, "lxc-ls --fancy"),
        ("lxc", 1, "Insufficent privileges to control web\n", remote.NotAllowed, "may not control"),
        ("incus", 1, 'Error: Failed to fetch instance "web" in project "default": Instance not found\n', remote.TargetNotFound,
         "incus list"),
        ("incus", 1, "Error: Instance is not running\n", remote.TargetNotRunning, "incus start web"),
        ("incus", 1, INCUS_SOCKET, remote.NotAllowed, "incus-admin"),
        ("lxd", 1, "Error: Instance not found\n", remote.TargetNotFound, "lxc to 'web' failed"),
    ],
)  # fmt: skip
def test_what_the_command_says_becomes_a_named_error_with_the_next_step(kind, code, said, error, says, commands):
    what, function = OPEN[kind]
    what.install(commands).fails(said, code)
    with raises(remote.ConnectError, match=says) as caught:
        function("web", python=sys.executable)
    assert type(caught.value) is error
    assert said.strip().splitlines()[0] in str(caught.value)


def test_a_command_that_has_failed_before_anything_is_sent_to_it_says_why_as_well(commands, monkeypatch):
    def send_too_late(sender, *args):
        while sender.end is None:
            roamlet.sleep(0.001)
        send(sender, *args)

    send = Sender.send
    monkeypatch.setattr(Sender, "send", send_too_late)
    standin.DOCKER.install(commands).fails("Error response from daemon: No such container: web\n", 1)
    with raises(remote.TargetNotFound, match="no container web"):
        remote.docker("web", python=sys.executable)


@pytest.mark.parametrize(
    ("end", "says"),
    [
        ((roamlet_sent.die_with, (137,)), "its process ended with exit code 137; it was killed"),
        ((roamlet_sent.kill_self, (9,)), r"the docker to it was ended by signal 9 \(SIGKILL\)"),
    ],
)
def test_a_container_that_is_stopped_under_a_context_is_told_from_a_client_that_is_killed(end, says, commands):
    standin.DOCKER.install(commands)
    with remote.docker("web", python=sys.executable) as context:
        with raises(remote.ContextDied, match=f"'web' died while .*: {says}"):
            context.call(*end)
