"""Functions that are called behind hubs. In the syntax that 2.7 and 3.6+ share."""

import os
import signal
import time


def note_and_kill_parent(folder, root):
    """Leave a file that says that this ran; the first one that runs behind a hub kills the hub."""
    open(os.path.join(folder, "%d-ran" % os.getpid()), "w").close()
    if os.getppid() == root:
        return "at home"
    try:
        os.mkdir(os.path.join(folder, "killed"))
    except OSError:
        return "behind"
    os.kill(os.getppid(), signal.SIGKILL)
    time.sleep(60)
    return "never"
