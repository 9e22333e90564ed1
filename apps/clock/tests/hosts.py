"""Hosts that are not real: what roamlet clock would find and do there, kept in dicts. Real ones are in tests/lab."""

from dataclasses import dataclass, field
from typing import Any

from roamlet_clock import units
from roamlet_clock.facts import VERSION
from roamlet_clock.host import act as host_act
from roamlet_clock.host import gather as host_gather

NOW = 1_800_000_000


@dataclass
class FakeHost:
    """Stands in for a context: `call` and `put` change `files`, `enabled`, `active` and `state` as the real ones would."""

    name: str
    systemd: int | None = 252
    time_set: bool = True
    is_root: bool = True
    rtc: dict[str, Any] | None = None
    clock_file: dict[str, Any] | None = None
    fails: str = ""
    answer: Any = None
    files: dict[str, tuple[str, int]] = field(default_factory=dict)
    enabled: set[str] = field(default_factory=set)
    active: set[str] = field(default_factory=set)
    state: dict[str, int] = field(default_factory=dict)
    done: list[str] = field(default_factory=list)

    def call(self, function: Any, args: Any = (), kwargs: Any = None, timeout: float | None = None) -> Any:
        if function is host_gather.gather:
            return self.facts(*args)
        assert function is host_act.act
        if self.answer is not None:
            return self.answer
        done = 0
        for action in args[0]:
            words = " ".join(map(str, action.get("words", (action.get("path") or action.get("command"),))))
            if self.fails and self.fails in words:
                return {"done": done, "error": f"{words}: it cannot be", "said": []}
            self.done.append(words)
            getattr(self, f"_{action['do']}")(action)
            done += 1
        return {"done": done, "error": None, "said": [f"said by {self.name}"] if "begin" in self.done else []}

    def put(self, local: str, path: str, *, mode: int, parents: bool, times: bool) -> None:
        with open(local) as file:
            self.files[path] = (file.read(), mode)
        self.done.append(f"put {path}")

    def facts(self, paths: Any, asked: Any, program: str) -> dict[str, Any]:
        links = {
            f"/etc/systemd/system/{'sysinit' if name == 'roamlet-clock.service' else 'timers'}.target.wants/{name}"
            for name in self.enabled
        }
        found = {
            path: {"kind": "file", "mode": mode, "uid": 0, "text": text} for path, (text, mode) in self.files.items()
        }
        found.update({path: {"kind": "link", "mode": 0o777, "uid": 0, "text": "there"} for path in links})
        if self.state:
            found[units.FOLDER] = {"kind": "folder", "mode": 0o755, "uid": 0, "text": "\n".join(self.state)}
        status = {"stamp": str(self.state.get("stamp", "")), "next_boot": "", "synchronised": "yes"}
        return {
            "version": VERSION,
            "hostname": self.name,
            "is_root": self.is_root,
            "systemd": self.systemd,
            "time_set": self.time_set,
            "rtc": self.rtc,
            "clock_file": self.clock_file,
            "synchronised": None,
            "paths": {path: one for path, one in found.items() if path in paths},
            "units": {name: self._unit(name) for name in asked} if self.systemd else {},
            "status": status if program in self.files else None,
            "missing": {},
            "time": NOW,
        }

    def close(self) -> None:
        pass

    def _unit(self, name: str) -> dict[str, str]:
        there = f"/etc/systemd/system/{name}" in self.files
        return {
            "load": "loaded" if there else "not-found",
            "enabled": ("enabled" if name in self.enabled else "disabled") if there else "",
            "active": "active" if name in self.active else "inactive",
            "result": "success",
        }

    def _remove(self, action: dict[str, Any]) -> None:
        if action["folder"]:
            assert action["path"] == units.FOLDER
            self.state.clear()
        else:
            self.files.pop(action["path"], None)

    def _systemctl(self, action: dict[str, Any]) -> None:
        what, *names = action["words"]
        if what in ("start", "restart"):
            self.active.update(names)
        elif what == "stop":
            self.active.difference_update(names)
        elif what == "enable":
            self.enabled.update(names)
        elif what == "disable":
            self.enabled.difference_update(names)

    def _run(self, action: dict[str, Any]) -> None:
        self.state.update({"installed": NOW, "stamp": NOW} if action["command"] == "begin" else {"stamp": NOW})


def facts_of(host: FakeHost) -> Any:
    """The facts of a host, as they arrive."""
    from roamlet_clock.facts import Facts
    from roamlet_clock.plan import ASKED_PATHS, ASKED_UNITS

    return Facts.from_plain(host.facts(ASKED_PATHS, ASKED_UNITS, units.PROGRAM), host.name)
