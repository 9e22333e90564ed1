"""What is traced: run as `program.py NAME`, it prints its PID when it may be asked."""

import ctypes
import json
import os
import re
import signal
import sys
import time

import roamlet
from roamlet import diagnose, io


def says(**facts):
    os.write(1, (json.dumps({"pid": os.getpid(), **facts}) + "\n").encode())  # at once: two processes may say something


def exchange():
    """Messages without end."""

    def sends():
        while True:
            channel.send(1)
            roamlet.sleep(0.002)

    def receives():
        while True:
            channel.receive()

    channel = roamlet.channel()
    roamlet.spawn(sends)
    roamlet.spawn(receives)


def works():
    exchange()
    says()
    roamlet.sleep(100)


def sigpipe_ends_it():
    signal.signal(signal.SIGPIPE, signal.SIG_DFL)
    works()


def forks():
    """For each byte of standard input it forks a child that says its PID and lives on."""
    exchange()
    says()
    while True:
        roamlet.sleep(0.02)
        io.wait_readable(0)
        os.read(0, 1)
        pid = os.fork()
        if pid == 0:
            says(child=True)
            roamlet.sleep(100)
            os._exit(0)
        says(forked=pid)


def keeps_the_gil():
    """From before it says so: that is written without releasing the GIL, and no request of another thread for it is heard."""
    pattern, line = re.compile(r"(a+)+$"), json.dumps({"pid": os.getpid()}).encode() + b"\n"
    write = ctypes.PyDLL(None).write
    sys.setswitchinterval(1000)
    write(1, line, len(line))
    pattern.match("a" * 60 + "b")


def ends_when_told():
    says()
    sys.stdin.readline()
    os._exit(0)


if __name__ == "__main__":
    if sys.argv[2:] != ["unprepared"]:
        diagnose.enable(signal.SIGUSR2)
    time.sleep(0)
    globals()[sys.argv[1]]()
