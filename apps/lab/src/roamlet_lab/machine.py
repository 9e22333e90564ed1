"""One machine of a lab, seen from this one: runs commands in it. How it was made is not known here."""

import io
import itertools
import subprocess
import tarfile
from collections.abc import Iterable, Sequence
from typing import Any

from roamlet_lab.errors import CommandFailed
from roamlet_lab.spaces import Keeper


class Machine:
    """A client, a server, a gateway or the admin's machine of a lab.

    Commands run as root in its own network, mounts, processes and host name, on the lab's Debian (bookworm: python3, ip, nft,
    wg, iperf3, tcpdump, nc, conntrack). All methods may be called from several threads at once.
    """

    def __init__(self, keeper: Keeper, name: str, pid: int, address: str) -> None:
        self.name = name
        self.address = address
        """In its LAN; the admin's is on the internet."""
        self._pid = pid
        self._keeper = keeper

    def __repr__(self) -> str:
        return f"<machine {self.name} {self.address}>"

    @property
    def pid(self) -> int:
        """Of its process 1, inside the lab."""
        return self._pid

    def argv(self, *words: str) -> list[str]:
        """The command line that runs `words` there, for callers that start it in another way (root only)."""
        return self._keeper.enter(self.pid, words)

    def run(
        self, argv: Sequence[str], *, check: bool = True, data: str | None = None, timeout: float = 60
    ) -> subprocess.CompletedProcess[str]:
        """Run a command there and wait for it; `data` is its input. Returns what it wrote, as text, and its status.

        Blocks the thread. Raises CommandFailed, with what it said, when `check` is set and it does not end with 0; and
        subprocess.TimeoutExpired after `timeout` seconds, when it has been killed.
        """
        done = subprocess.run(
            self.argv(*argv),
            stdin=subprocess.DEVNULL if data is None else None,
            input=data,
            capture_output=True,
            text=True,
            check=False,
            timeout=timeout,
        )
        if check and done.returncode:
            raise CommandFailed(self.name, list(argv), done.returncode, done.stdout + done.stderr)
        return done

    def shell(self, script: str, *, check: bool = True, timeout: float = 60) -> str:
        """Run a shell script there (sh -eu) and return what it wrote. Raises as `run` does."""
        return self.run(["sh", "-euc", script], check=check, timeout=timeout).stdout

    def popen(self, argv: Sequence[str], **settings: Any) -> "subprocess.Popen[Any]":
        """Start a command there; `settings` are those of subprocess.Popen. It is killed when the Popen's process is."""
        return subprocess.Popen(self.argv(*argv), **settings)

    def write(self, path: str, text: str, mode: int = 0o644) -> None:
        """Write a file there, whole or not at all."""
        script = 'umask 077; cat >"$1.lab"; chmod "$2" "$1.lab"; mv "$1.lab" "$1"'
        self.run(["sh", "-euc", script, "sh", path, f"{mode:o}"], data=text)

    def read(self, path: str) -> str:
        """The text of a file there."""
        return self.run(["cat", path]).stdout

    def ping(self, address: object, *, source: object = None, timeout: float = 2, size: int | None = None) -> bool:
        """Whether `address` answers one ping within `timeout` seconds. With `size`, of so many bytes in all, uncut (DF)."""
        words = ["ping", "-n", "-c", "1", "-W", f"{timeout:g}"]
        if source is not None:
            words += ["-I", str(source)]
        if size is not None:
            words += ["-M", "do", "-s", str(size - 28)]
        return self.run([*words, str(address)], check=False, timeout=timeout + 20).returncode == 0

    def pings(self, address: object, *, every: float = 0.1, source: object = None) -> "Pings":
        """Ping `address` all the time, to count afterwards what was lost: `with client.pings(...) as pings: ...; pings.lost`."""
        return Pings(self, str(address), every, None if source is None else str(source))


class Pings:
    """Pings that go on while the block runs. Read the numbers when it has ended."""

    def __init__(self, machine: Machine, address: str, every: float, source: str | None) -> None:
        self.sent = 0
        self.answered: list[int] = []
        """The numbers of the pings that were answered, from 1, in order."""
        self.every = every
        self._words = ["ping", "-n", "-i", f"{every:g}", *(["-I", source] if source else []), address]
        self._machine = machine

    def __enter__(self) -> "Pings":
        self._process = self._machine.popen(
            self._words, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
        )
        return self

    def __exit__(self, *error: object) -> None:
        self._process.send_signal(2)  # ping then waits for no more answers, and says how many it has sent
        said, _ = self._process.communicate(timeout=30)
        self.said = said
        for line in said.splitlines():
            if "icmp_seq=" in line and "bytes from" in line:
                self.answered.append(int(line.split("icmp_seq=")[1].split()[0]))
            elif "packets transmitted" in line:
                self.sent = int(line.split()[0])

    @property
    def lost(self) -> int:
        """How many were not answered, up to the last one that was: later ones may have been on their way."""
        return self.answered[-1] - len(set(self.answered)) if self.answered else self.sent

    @property
    def longest_gap(self) -> float:
        """Seconds between the two answers that are furthest apart; all the time that it ran when there was none."""
        if not self.answered:
            return self.sent * self.every
        numbers = [0, *self.answered]
        return max(later - earlier for earlier, later in itertools.pairwise(numbers)) * self.every


def packed(files: Iterable[tuple[str, str | bytes, int]]) -> bytes:
    """A tar of (path, contents, mode), all owned by root, with the folders above each; only root may enter a .ssh."""
    stream = io.BytesIO()
    with tarfile.open(fileobj=stream, mode="w") as archive:
        known: set[str] = set()
        for path, contents, mode in files:
            parts = path.strip("/").split("/")
            for depth in range(1, len(parts)):
                folder = "/".join(parts[:depth])
                if folder not in known:
                    known.add(folder)
                    entry = tarfile.TarInfo(folder)
                    entry.type = tarfile.DIRTYPE
                    entry.mode = 0o700 if parts[depth - 1] in (".ssh", "root") else 0o755
                    archive.addfile(entry)
            entry = tarfile.TarInfo("/".join(parts))
            raw = contents.encode() if isinstance(contents, str) else contents
            entry.size = len(raw)
            entry.mode = mode
            archive.addfile(entry, io.BytesIO(raw))
    return stream.getvalue()
