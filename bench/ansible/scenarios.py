"""What is run: playbooks, on how many hosts, how far away, and which sides take turns."""

import random
from dataclasses import dataclass
from pathlib import Path

from . import playbooks

PAIRED = ("stock", "mitogen", "roamlet")
FLOOR = "core"  # where it costs little to have its answers recorded over ssh


@dataclass(frozen=True)
class Scenario:
    name: str
    title: str
    playbook: str
    hosts: int = 1
    rtt: float = 0.0
    """Seconds to a host and back."""
    each: tuple[str, ...] = PAIRED
    """The sides of every round."""
    once: tuple[str, ...] = ()
    """The sides of the first round alone: for reference, and for their results."""
    again: bool = False
    """Run it a second time each, on what the first run has left."""


@dataclass(frozen=True)
class Sizes:
    pings: int = 100
    rounds: int = 10  # of playbooks.mixed: 83 tasks
    far: int = 3  # 28 tasks
    several: int = 10
    many: int = 50
    files: int = 1000
    few: int = 100
    """Of the files, for stock, which takes more than a second for each."""
    large: int = 100_000_000


def scenarios(sizes: Sizes) -> list[Scenario]:
    far, near = 0.080, 0.026
    against_mitogen = PAIRED[1:]
    with_floor = (*PAIRED, FLOOR)
    return [
        Scenario("first", "a fresh run's first task", playbooks.pings(1), each=with_floor),
        Scenario("first_far", "a fresh run's first task, 80 ms", playbooks.pings(1), rtt=far),
        Scenario(
            "pings", f"{sizes.pings} pings", playbooks.pings(sizes.pings), each=with_floor, once=("plain", "bare")
        ),
        Scenario("tasks", _tasks(sizes.rounds), playbooks.mixed(sizes.rounds), each=with_floor, again=True),
        Scenario(
            "far",
            f"{_tasks(sizes.far)}, 80 ms",
            playbooks.mixed(sizes.far),
            rtt=far,
            each=(*against_mitogen, FLOOR),
            once=("stock",),
            again=True,
        ),
        Scenario(
            "several",
            f"{_tasks(1)}, {sizes.several} hosts",
            playbooks.mixed(1),
            hosts=sizes.several,
            each=(*against_mitogen, FLOOR),
            once=("stock",),
        ),
        Scenario(
            "many",
            f"{_tasks(1)}, {sizes.many} hosts",
            playbooks.mixed(1),
            hosts=sizes.many,
            each=against_mitogen,
            once=("stock",),
        ),
        Scenario("few", f"{sizes.few} files of 1 kB, 26 ms", playbooks.files(sizes.few), rtt=near),
        Scenario(
            "files",
            f"{sizes.files:,} files of 1 kB, 26 ms",
            playbooks.files(sizes.files),
            rtt=near,
            each=against_mitogen,
        ),
        Scenario("large", f"a file of {sizes.large / 1e6:.0f} MB, 26 ms", playbooks.large(), rtt=near),
    ]


def _tasks(rounds: int) -> str:
    return f"{4 + 7 * rounds + 3 * max(1, rounds // 3)} tasks"


def write_files(folder: Path, sizes: Sizes) -> None:
    """What the playbooks copy: random bytes, which do not compress."""
    generator = random.Random(1)
    (folder / "template.j2").write_text(playbooks.TEMPLATE)
    (folder / "small").mkdir()
    for number in range(max(sizes.files, sizes.few)):
        (folder / "small" / f"{number:04}").write_bytes(generator.randbytes(1000))
    with (folder / "large").open("wb") as out:
        for _ in range(sizes.large // 1_000_000):
            out.write(generator.randbytes(1_000_000))
