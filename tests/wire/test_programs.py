"""roamlet.wire.calls.programs in a process of its own: what a forked process keeps of a command. See also cli/test_programs.py."""

import subprocess
import sys

FORK_IN_PIPE = """
import fcntl, os, sys, threading, types
from roamlet.wire.calls import programs

class System(types.ModuleType):
    def __getattr__(self, name):
        return getattr(os, name)

    def pipe(self):
        ends = os.pipe()
        begun.append(threading.Thread(target=fork, args=ends))
        begun[0].start()
        begun[0].join(0.5)  # so that it forks here, if nothing keeps it from that
        return ends

def fork(source, target):
    pid = os.fork()
    if pid == 0:
        try:
            fcntl.fcntl(target, fcntl.F_GETFL)
        except OSError:
            os._exit(0)
        os._exit(1)
    children.append(os.waitpid(pid, 0)[1])

begun, children = [], []
programs.os = System("os")
status = programs.command("exit 3", [], None)
begun[0].join()
print(status, children, programs._pipes)
"""


def test_a_process_that_is_forked_while_a_command_starts_does_not_keep_its_guard_waiting():
    words = [sys.executable, "-W", "ignore", "-c", FORK_IN_PIPE]
    assert subprocess.run(words, stdout=subprocess.PIPE, text=True, check=True).stdout == "3 [0] []\n"
