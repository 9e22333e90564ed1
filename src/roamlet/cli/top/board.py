"""What is known of all processes that `roamlet top` looks at: the newest rates of each, and what could not be read."""

from dataclasses import dataclass

from roamlet.diagnose.model import Process
from roamlet.diagnose.rates import History, Rates

Key = tuple[str | None, int]  # the host's name, None for this machine; the PID


@dataclass(slots=True)
class Seen:
    """One process. `pause`: seconds between two looks at its tasklets. `ended`: why there will be no other look."""

    history: History
    rates: Rates
    pause: float = 0.0
    ended: str | None = None


class Board:
    """What the looks at processes have found.

    `refused`: why a process could not be read; `hosts`: why a host gives nothing; `connecting`: the hosts that have not answered.
    """

    def __init__(self) -> None:
        self.seen: dict[Key, Seen] = {}
        self.refused: dict[Key, str] = {}
        self.hosts: dict[str, str] = {}
        self.unreachable: set[str] = set()  # those of them that no context could be opened on
        self.connecting: set[str] = set()

    def take(self, host: str | None, pid: int, counters: Process, full: Process | None, pause: float) -> Seen:
        """A look at a process. Raises ValueError for one that is not what it says."""
        if counters.pid != pid or (full is not None and full.pid != pid):
            raise ValueError(f"a look at process {pid} was asked for, and {counters.pid} was found")
        key = host, pid
        self.refused.pop(key, None)
        known = self.seen.get(key)
        if known is None:
            history = History(host)
            known = self.seen[key] = Seen(history, history.add(counters, full), pause)
        else:
            known.rates, known.pause = known.history.add(counters, full), pause
        return known

    def refuse(self, host: str | None, pid: int, why: str, *, keep: bool) -> None:
        """A look has failed. `keep`: the process was asked for by its number, so what was seen of it last stays."""
        key = host, pid
        known = self.seen.get(key)
        if known is not None and keep:
            known.ended = why
        elif known is not None:
            del self.seen[key]
        else:
            self.refused[key] = why

    def goes_on(self, host: str | None, pid: int) -> bool:
        """Whether this process is seen, and has not ended."""
        known = self.seen.get((host, pid))
        return known is not None and known.ended is None

    def keep_only(self, host: str | None, pids: set[int]) -> None:
        """Forget the processes of a host that are no longer found."""
        for known in (self.seen, self.refused):
            for key in [key for key in known if key[0] == host and key[1] not in pids]:
                del known[key]
