"""grep over the logs of many hosts: the lines come as they are found, with the host in front.

    python examples/log_grep.py PATTERN FILE [HOST...]

PATTERN is a regular expression of Python's, FILE may have wildcards ('/var/log/nginx/*.log*') and be compressed by gzip. The
files are read on the hosts, and only lines that match travel. Without a host, this machine's files are read. As with grep, the
exit code is 0 when a line was found, 1 when not, and 2 when a host could not be asked.
"""

import glob
import gzip
import io
import re
import sys

import roamlet
from roamlet import remote


def matching(pattern, files):
    """Runs on each host: the lines that match, as (file, line)."""
    wanted = re.compile(pattern)
    for name in sorted(glob.glob(files)):
        with gzip.open(name) if name.endswith(".gz") else open(name, "rb") as file:
            for line in io.TextIOWrapper(file, "utf-8", "replace"):
                if wanted.search(line):
                    yield name, line.rstrip("\n")


def search(host, pattern, files, found):
    """Send what is found on one host, then how many lines that were, or the error."""
    count = 0
    try:
        with remote.ssh(host) if host else remote.local() as context:
            for name, line in context.iterate(matching, (pattern, files)):
                found.send((context.name, name, line))
                count += 1
        found.send((host, None, count))
    except roamlet.RoamletError as error:
        found.send((host, None, error))


def main():
    if len(sys.argv) < 3:
        print("usage: log_grep.py PATTERN FILE [HOST...]", file=sys.stderr)
        return 2
    pattern, files, *hosts = sys.argv[1:]
    hosts = hosts or [None]
    found = roamlet.channel(buffer=100)
    asked, lines, failed = len(hosts), 0, 0
    with roamlet.scope() as s:
        for host in hosts:
            s.spawn(search, (host, pattern, files, found))
        while asked:
            host, name, text = found.receive()
            if name is not None:
                print(f"{host}:{name}: {text}")
            else:
                asked -= 1
                if isinstance(text, int):
                    lines += text
                else:
                    failed += 1
                    print(f"{host}: {text}", file=sys.stderr)
    return 2 if failed else int(not lines)


if __name__ == "__main__":
    sys.exit(main())
