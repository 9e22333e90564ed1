"""What a role has left on a host, to compare two hosts: files of the system's configuration, packages, units and accounts."""

import json

# Runs on the host, by its Python. What each installation makes anew is left out: keys, salts, identifiers, caches, times.
SCRIPT = r"""
import hashlib, json, os, re, stat, subprocess, sys
ROOTS = ("/etc", "/home", "/root", "/srv", "/opt", "/usr/local", "/var/www", "/var/spool/cron", "/var/cache/bind")
VOLATILE = re.compile(
    r"/etc/(machine-id|ld\.so\.cache|resolv\.conf|hosts|adjtime|mtab|ssh/ssh_host_.*|ssh/moduli.*|ssh/keys_of_admin|ssl/(private|certs)/.*|"
    r"aliases\.db|bind/rndc\.key|[a-z]?shadow-?|.*-|alternatives/.*)$|/root/\.ssh(/.*)?$|.*/\.ansible(/.*)?$|.*/__pycache__(/.*)?$"
)
found = {}
def look(path):
    if VOLATILE.match(path):
        return
    info = os.lstat(path)
    facts = [stat.filemode(info.st_mode), info.st_uid, info.st_gid]
    if stat.S_ISREG(info.st_mode):
        with open(path, "rb") as file:
            facts.append(hashlib.sha256(re.sub(rb"\.\d{4}-\d\d-\d\d@[\d:]+~", b"", file.read())).hexdigest())
    elif stat.S_ISLNK(info.st_mode):
        facts.append(os.readlink(path))
    found[re.sub(r"\.\d+\.\d{4}-\d\d-\d\d@[\d:]+~$", ".BACKUP", path)] = facts
for root in ROOTS:
    if os.path.isdir(root):
        for folder, folders, files in os.walk(root):
            for name in folders + files:
                look(os.path.join(folder, name))
def said(*words):
    return subprocess.run(words, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL).stdout.decode().splitlines()
for line in said("dpkg-query", "-W", "-f", "${Package} ${Version} ${Status}\n"):
    found["package " + line.split()[0]] = line
for line in said("systemctl", "list-unit-files", "--no-legend", "--no-pager"):
    found["unit " + line.split()[0]] = line.split()
for line in said("systemctl", "list-units", "--type=service", "--state=active,failed", "--no-legend", "--no-pager", "--plain"):
    found["service " + line.split()[0]] = line.split()[:4]
json.dump(found, sys.stdout)
"""


def parse(text: str) -> dict[str, object]:
    """What SCRIPT wrote: by path, or by "package NAME", "unit NAME", "service NAME"."""
    return dict(json.loads(text))


def unlike(stock: dict[str, object], other: dict[str, object]) -> list[str]:
    """What is not the same on both hosts, one line each."""
    return [
        f"{name}: {other.get(name, 'missing')}, with stock {stock.get(name, 'missing')}"
        for name in sorted(stock.keys() | other.keys())
        if stock.get(name) != other.get(name)
    ]
