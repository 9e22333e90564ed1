"""One command of the target, with what it is to read, and all that it says: for roamlet's own, which starts jobs and pods there."""

import os
import subprocess
import sys
import threading

MOST = 1 << 24  # bytes that are passed on of what a command says


def run(argv, data, seconds):
    """Run it without a shell, with `data` on its stdin and English messages; return [exit code, stdout, stderr].

    Its own group of processes is killed after `seconds`; the exit code is then None. [errno] where it cannot be started.
    """
    environment = dict(os.environ)
    environment["LC_ALL"] = "C"
    options = {"preexec_fn": os.setsid} if sys.version_info < (3, 2) else {"start_new_session": True}
    options.update(close_fds=True, env=environment)
    pipe = subprocess.PIPE
    try:
        process = subprocess.Popen(list(argv), stdin=pipe, stdout=pipe, stderr=pipe, **options)
    except EnvironmentError as error:
        return [error.errno]
    late = []

    def end():
        late.append(True)
        try:
            os.killpg(process.pid, 9)
        except EnvironmentError:  # it has just ended
            pass

    timer = threading.Timer(seconds, end)
    timer.daemon = True
    timer.start()
    try:
        said, errors = process.communicate(data)
    finally:
        timer.cancel()
    return [None if late else process.returncode, said[:MOST], errors[:MOST]]


def place():
    """Where this process runs, for owners of pods: [the cluster's host, this host's name, the namespace], empty if unknown."""
    import socket

    namespace = ""
    try:
        with open("/var/run/secrets/kubernetes.io/serviceaccount/namespace") as file:
            namespace = file.read().strip()
    except EnvironmentError:  # it is no pod, or one without an account
        pass
    return [os.environ.get("KUBERNETES_SERVICE_HOST", ""), socket.gethostname(), namespace]
