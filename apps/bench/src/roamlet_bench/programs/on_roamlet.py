"""The same service on roamlet: a tasklet for each connection. --responsive shortens the switch interval while threads compete."""

import contextlib

import roamlet
from serving import BACKLOG, announce, answer, options
from roamlet import io


if __name__ == "__main__":
    given = options("responsive")
    listening = io.create_server(("127.0.0.1", 0), backlog=BACKLOG)
    announce(listening.getsockname()[1], given)
    with roamlet.responsive() if given.responsive else contextlib.nullcontext():
        while True:
            roamlet.tasklet(answer)(listening.accept()[0])
