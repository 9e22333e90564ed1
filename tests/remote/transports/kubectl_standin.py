"""A stand-in for kubectl, and for its cluster: pods are created, run, entered and deleted, in namespaces of Linux.

What it says and how it ends are kubectl's own words and codes. The pods' first processes really run, so that what ends a pod by
itself does; as in a container, they see no process of another pod. The name of the image says what a node makes of it.
"""

import json
import os
import signal
import sys
from contextlib import suppress
from pathlib import Path
from typing import Any

PROGRAM = """\
#!{python} -IS
import fcntl, json, os, subprocess, sys, time
folder = os.path.dirname(sys.argv[0]) + "/cluster"
words = sys.argv[1:]
with open(folder + "/calls", "a") as calls:
    calls.write(json.dumps(words) + "\\n")
while words[0].startswith("--namespace=") or words[0].startswith("--context="):
    words.pop(0)
verb = words.pop(0)

def fail(text, code=1):
    sys.stderr.write(text)
    sys.stderr.flush()
    sys.exit(code)

def fails(verb):
    path = folder + "/" + verb + ".fails"
    if not os.path.exists(path):
        return
    text = open(path).read()
    if os.path.exists(path + ".left"):
        left = int(open(path + ".left").read()) - 1
        open(path + ".left", "w").write(str(left))
        if not left:
            os.unlink(path)
    fail(text)

fails(verb)

def write(pod, new=False):
    path = folder + "/" + pod["metadata"]["name"] + ".json"
    with open(folder + "/lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not new and not os.path.exists(path):
            sys.exit()  # it was deleted, and what runs it ends
        with open(path + ".new", "w") as file:
            json.dump(pod, file)
        os.rename(path + ".new", path)

def read(name):
    try:
        return json.load(open(folder + "/" + name + ".json"))
    except OSError:
        fail('Error from server (NotFound): pods "%s" not found\\n' % name)

def status(pod, phase, **state):
    pod["status"] = {{"phase": phase, "containerStatuses": [{{"name": "roamlet", "state": state}}] if state else []}}
    write(pod)

def node(pod):
    # What a node makes of it.
    container = pod["spec"]["containers"][0]
    kind = container["image"].partition(":")[0]
    if kind == "huge":
        pod["status"] = {{"phase": "Pending", "conditions": [{{
            "type": "PodScheduled", "status": "False", "reason": "Unschedulable",
            "message": "0/3 nodes are available: 3 Insufficient memory."}}]}}
        return write(pod)
    pod["spec"]["nodeName"] = "node-1"
    status(pod, "Pending", waiting={{"reason": "ContainerCreating"}})
    time.sleep(0.3)
    if kind == "missing":
        status(pod, "Pending", waiting={{"reason": "ErrImagePull", "message": "missing: not found"}})
        time.sleep(1)
        return status(pod, "Pending", waiting={{
            "reason": "ImagePullBackOff", "message": 'Back-off pulling image "missing:1"'}})
    if kind == "unset":
        return status(pod, "Pending", waiting={{
            "reason": "CreateContainerConfigError", "message": 'secret "token" not found'}})
    if kind == "empty":
        return status(pod, "Failed", terminated={{"reason": "StartError", "exitCode": 128, "message":
            'failed to create containerd task: OCI runtime create failed: exec: "sh": executable file not found in $PATH'}})
    if kind == "slow":
        return
    words = ["unshare", "--pid", "--fork", "--kill-child", "--mount", "--mount-proc", "--"] + container["command"]
    process = subprocess.Popen(words, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    pod["first"] = process.pid
    try:
        status(pod, "Running", running={{}})
    except SystemExit:
        process.kill()
        raise
    end = time.monotonic() + pod["spec"]["activeDeadlineSeconds"]
    while process.poll() is None:
        if time.monotonic() > end or not os.path.exists(folder + "/" + pod["metadata"]["name"] + ".json"):
            process.kill()
        time.sleep(0.05)
    if os.path.exists(folder + "/" + pod["metadata"]["name"] + ".json"):
        good = process.returncode == 0
        status(pod, "Succeeded" if good else "Failed", terminated={{
            "reason": "Completed" if good else "Error", "exitCode": process.returncode}})

if verb == "create":
    assert words == ["--filename=-"], words
    pod = json.load(sys.stdin)
    pod["status"] = {{"phase": "Pending"}}
    if pod["spec"]["containers"][0]["image"].startswith("far:"):  # the server is slow
        time.sleep(1.5)
    write(pod, new=True)
    with open(folder + "/created", "a") as created:
        created.write(pod["metadata"]["name"] + "\\n")
    fails("answer")
    if os.fork() == 0:
        os.setsid()
        if os.fork() == 0:
            null = os.open(os.devnull, os.O_RDWR)
            for number in range(3):
                os.dup2(null, number)
            with open(folder + "/nodes", "a") as nodes:
                nodes.write("%d\\n" % os.getpid())
            node(pod)
        os._exit(0)
    print("pod/%s created" % pod["metadata"]["name"])
elif verb == "get":
    assert words[0] == "pod" and words[2:] == ["--output=json"], words
    print(json.dumps(read(words[1])))
elif verb == "delete":
    assert words[0] == "pod" and words[2:4] == ["--ignore-not-found", "--wait=false"], words
    lock = open(folder + "/lock", "w")
    fcntl.flock(lock, fcntl.LOCK_EX)
    try:
        os.unlink(folder + "/" + words[1] + ".json")
        print('pod "%s" deleted' % words[1])
    except OSError:
        pass
elif verb == "exec":
    assert words[:2] == ["--stdin", "--container=roamlet"] and words[3] == "--", words
    pod = read(words[2])
    if pod["status"]["phase"] != "Running":
        fail('error: cannot exec into a container in a completed pod; current phase is %s\\n' % pod["status"]["phase"])
    if pod["spec"]["containers"][0]["image"].startswith("late:"):  # it has ended, and the cluster has not heard of it
        node(dict(pod, spec=dict(pod["spec"], containers=[dict(pod["spec"]["containers"][0], image="empty:1")])))
        fail('error: Internal error occurred: unable to upgrade connection: container not found ("roamlet")\\n')
    first = []
    while not first:
        try:
            first = open("/proc/%d/task/%d/children" % (pod["first"], pod["first"])).read().split()
        except OSError:
            fail('error: Internal error occurred: unable to upgrade connection: container not found ("roamlet")\\n')
        time.sleep(0.02)
    done = subprocess.call(["nsenter", "--target", first[0], "--pid", "--mount", "--"] + words[4:])
    if done and read(words[2])["status"]["phase"] != "Running":
        fail('error: Internal error occurred: unable to upgrade connection: container not found ("roamlet")\\n')
    if done:
        fail("command terminated with exit code %d\\n" % (done if done > 0 else 128 - done), done if done > 0 else 128 - done)
else:
    fail("error: unknown command %r\\n" % verb)
"""


class Cluster:
    """kubectl in `folder`, and the pods that it has made."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder / "cluster"
        self.folder.mkdir()
        path = folder / "kubectl"
        path.write_text(PROGRAM.format(python=sys.executable))
        path.chmod(0o755)

    def fails(self, verb: str, text: str, times: int | None = None) -> None:
        """From now on kubectl says this when it is called with the verb, or has created ("answer"); at most `times` times."""
        if times is not None:
            (self.folder / f"{verb}.fails.left").write_text(str(times))
        (self.folder / f"{verb}.fails").write_text(text)

    @property
    def created(self) -> list[str]:
        """The names of all pods that were created."""
        path = self.folder / "created"
        return path.read_text().split() if path.exists() else []

    def pauses(self, name: str) -> int:
        """How often the pod's first process has slept."""
        first = json.loads((self.folder / f"{name}.json").read_text())["first"]
        number = Path(f"/proc/{first}/task/{first}/children").read_text().split()[0]
        return int(Path(f"/proc/{number}/status").read_text().partition("\nvoluntary_ctxt_switches:")[2].split()[0])

    @property
    def calls(self) -> list[list[str]]:
        """The words of each call so far."""
        path = self.folder / "calls"
        return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []

    @property
    def pods(self) -> list[dict[str, Any]]:
        """The pods that are there."""
        return [json.loads(path.read_text()) for path in sorted(self.folder.glob("*.json"))]

    def phase(self, name: str) -> str:
        return str(json.loads((self.folder / f"{name}.json").read_text())["status"]["phase"])

    def end(self) -> None:
        """Kill what still runs. What a node had started ends with it."""
        path = self.folder / "nodes"
        for line in path.read_text().split() if path.exists() else ():
            with suppress(OSError):
                if "kubectl" in Path(f"/proc/{line}/cmdline").read_text():
                    os.killpg(os.getsid(int(line)), signal.SIGKILL)
