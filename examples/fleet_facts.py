"""What each host of a fleet is: system, cores, memory, load, free disk. A table, or JSON for programs.

    python examples/fleet_facts.py [--json] [HOST...]

A host is a name for ssh, as in `ssh alpha`; without one, this machine is asked. Nothing is installed on the hosts: a Python,
2.7 or 3.6 and later, is enough. The exit code is 1 when a host did not answer.
"""

import json
import os
import platform
import sys

from roamlet import remote

COLUMNS = ("host", "system", "python", "cores", "memory", "load", "disk free")


def facts():
    """Runs on each host."""
    disk = os.statvfs("/")
    return {
        "system": platform.system() + " " + platform.release(),
        "python": platform.python_version(),
        "cores": os.sysconf("SC_NPROCESSORS_ONLN"),
        "memory": os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"),
        "load": round(os.getloadavg()[0], 2),
        "disk free": disk.f_bavail * disk.f_frsize,
    }


def in_words(row):
    """The cells of a row, bytes as GB."""
    sizes = {name: f"{row[name] / 1e9:.1f} GB" for name in ("memory", "disk free")}
    return [str({**row, **sizes}[name]) for name in COLUMNS]


def main():
    as_json = "--json" in sys.argv[1:]
    hosts = [word for word in sys.argv[1:] if word != "--json"] or [remote.local]
    rows, failed = [], []
    for result in remote.gather(hosts, facts, timeout=30):  # as they answer, 50 hosts at a time
        if result.error is not None:
            failed.append(result)
        else:
            rows.append({"host": result.host, **result.value})
    rows.sort(key=lambda row: row["host"])
    if as_json:
        print(json.dumps(rows + [{"host": each.host, "error": str(each.error)} for each in failed], indent=2))
    else:
        lines = [COLUMNS, *map(in_words, rows)]
        widths = [max(len(line[column]) for line in lines) for column in range(len(COLUMNS))]
        for line in lines:
            print("  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip())
        for each in failed:
            print(f"{each.host}: {each.error}", file=sys.stderr)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
