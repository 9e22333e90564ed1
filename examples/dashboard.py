"""The load and the memory of hosts, live: a line for each host, drawn anew when a host has something new.

    python examples/dashboard.py [--every SECONDS] [--for SECONDS] [HOST...]

A generator runs on each host and sends its figures until the dashboard ends, by Ctrl-C or after `--for`. A host is a name for
ssh; without one, this machine is watched. Where the output is no terminal, each line is printed as it comes.
"""

import argparse
import os
import sys
import time

import roamlet
from roamlet import remote

BAR = 30


def samples(every):
    """Runs on a host: (load per core, part of the memory in use), again and again."""
    while True:
        with open("/proc/meminfo") as file:
            sizes = {line.split(":")[0]: int(line.split()[1]) for line in file}
        load = os.getloadavg()[0] / os.sysconf("SC_NPROCESSORS_ONLN")
        yield load, 1 - float(sizes["MemAvailable"]) / sizes["MemTotal"]
        time.sleep(every)


def watch(host, every, news):
    """Send what is new of one host, until it is gone."""
    name = host or "local"
    try:
        with remote.ssh(host) if host else remote.local() as context:
            name = context.name
            for sample in context.iterate(samples, (every,)):
                news.send((name, sample))
    except roamlet.RoamletError as error:
        news.send((name, error))


def in_words(name, width, state):
    if isinstance(state, Exception):
        return f"{name:{width}}  {str(state).splitlines()[0]}"
    load, memory = state
    bars = [("#" * round(min(part, 1) * BAR)).ljust(BAR, ".") for part in state]
    return f"{name:{width}}  load {bars[0]} {load:5.2f}  memory {bars[1]} {memory:4.0%}"


def show(news):
    """Draw what comes, in the order of the names."""
    states, drawn, terminal = {}, 0, sys.stdout.isatty()
    for name, state in news:
        states[name] = state
        width = max(map(len, states))
        names = sorted(states) if terminal else [name]
        text = "".join(f"{in_words(each, width, states[each])}{chr(27) + '[K' if terminal else ''}\n" for each in names)
        sys.stdout.write(f"\x1b[{drawn}A{text}" if terminal and drawn else text)
        sys.stdout.flush()
        drawn = len(states)


def main():
    parser = argparse.ArgumentParser(description="The load and the memory of hosts, live.")
    parser.add_argument("--every", type=float, default=1, metavar="SECONDS")
    parser.add_argument("--for", type=float, dest="seconds", metavar="SECONDS")
    parser.add_argument("hosts", nargs="*", metavar="HOST")
    options = parser.parse_args()
    news = roamlet.channel()
    try:
        with roamlet.scope() as s:
            for host in options.hosts or [None]:
                s.service(watch, (host, options.every, news))
            s.service(show, (news,))
            roamlet.sleep(options.seconds if options.seconds is not None else 10**9)
    except KeyboardInterrupt:
        return 130
    return 0


if __name__ == "__main__":
    sys.exit(main())
