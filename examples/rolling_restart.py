"""Restart a service on many hosts, a few at a time; stop at the first host that is not healthy afterwards.

    python examples/rolling_restart.py --restart 'sudo systemctl restart web' --check 'curl -sf localhost/health' HOST...

    --at-once 2      so many hosts at a time, 1 unless you say so
    --within 30      seconds that a host has to become healthy

Both commands run in the shell of each host. All hosts are reached and must be healthy before the first one is touched. The exit
code is 0 when all are restarted and healthy, else 1; the last lines say which hosts were not touched.
"""

import argparse
import contextlib
import subprocess
import sys
import time

import roamlet
from roamlet import remote


def shell(command):
    """Runs on a host: the command's exit code and the end of what it has printed."""
    process = subprocess.Popen(command, shell=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    output = process.communicate()[0].decode("utf-8", "replace").strip()
    return process.returncode, output[-500:]


def healthy(context, check, within):
    """Ask once a second, until it is; else what the last answer was."""
    deadline = time.monotonic() + within
    while True:
        code, output = context.call(shell, (check,), timeout=max(within, 1))
        if code == 0:
            return None
        if time.monotonic() >= deadline:
            return f"not healthy after {within:g} s: exit code {code} {output}".rstrip()
        roamlet.sleep(1)


def restart(context, options):
    """Restart the service on one host; what is wrong then, or None."""
    try:
        code, output = context.call(shell, (options.restart,))
        if code != 0:
            return f"the restart failed: exit code {code} {output}".rstrip()
        return healthy(context, options.check, options.within)
    except roamlet.RoamletError as error:
        return str(error)


def arguments():
    parser = argparse.ArgumentParser(description="Restart a service on many hosts, a few at a time.")
    parser.add_argument("--restart", required=True, metavar="COMMAND")
    parser.add_argument("--check", required=True, metavar="COMMAND")
    parser.add_argument("--at-once", type=int, default=1, metavar="COUNT")
    parser.add_argument("--within", type=float, default=30, metavar="SECONDS")
    parser.add_argument(
        "--local", type=int, default=0, metavar="COUNT", help="so many interpreters of this machine as well"
    )
    parser.add_argument("hosts", nargs="*", metavar="HOST")
    return parser.parse_args()


def main():
    options = arguments()
    opened = remote.open_all([*options.hosts, *[remote.local] * options.local])
    with contextlib.ExitStack() as stack:
        for context in opened.contexts:
            stack.enter_context(context)
        wrong = {result.host: str(result.error) for result in opened.failed}
        for context in opened.contexts:
            if said := healthy(context, options.check, 0):
                wrong[context.name] = said
        if wrong or not opened.contexts:
            print(
                "nothing was touched:",
                *(f"{host}: {said}" for host, said in wrong.items()),
                sep="\n    ",
                file=sys.stderr,
            )
            return 1
        waiting = list(opened.contexts)
        while waiting and not wrong:
            batch, waiting = waiting[: options.at_once], waiting[options.at_once :]
            with roamlet.scope() as s:
                restarts = [(context.name, s.spawn(restart, (context, options))) for context in batch]
            for name, done in restarts:
                print(f"{name}: {done.result or 'restarted, and healthy'}", flush=True)
                if done.result:
                    wrong[name] = done.result
        for context in waiting:
            print(f"{context.name}: not touched", file=sys.stderr)
        return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
