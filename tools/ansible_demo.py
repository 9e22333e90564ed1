"""`sudo make ansible-demo`: one playbook over ten hosts of a lab, with stock ssh, with Mitogen and with roamlet, and a table.

Each time the hosts are as before, 30 ms away, and have the same playbook, apps/ansible/demo/playbook.yml. The figures are of one
run: `python -m bench ansible` takes those to compare. Nothing stays but what is installed, in build/.
"""

import sys
import tempfile
from contextlib import ExitStack
from pathlib import Path

from bench.ansible import cgroups, peers
from bench.ansible.results import Results, differences, parse
from bench.ansible.runs import Controller, RunFailed, Taken
from bench.ansible.targets import Targets, targets
from roamlet_bench.show import Table, number, show
from roamlet_lab import LabError

PLAYBOOK = Path(__file__).resolve().parent.parent / "apps" / "ansible" / "demo" / "playbook.yml"
HOSTS = 10
RTT = 0.030
SIDES = ("stock", "mitogen", "roamlet")
SHOWN = 3
UNDO = """\
if id demo >/dev/null 2>&1; then userdel --remove demo; fi
rm -f /etc/hosts.demo
[ -e /etc/login.defs.before ] || cp /etc/login.defs /etc/login.defs.before
cp /etc/login.defs.before /etc/login.defs
"""


def row(side: peers.Side, taken: Taken, unlike: list[str] | None) -> list[str]:
    lines = parse(taken.results).values()
    counted = [str(sum(line["status"] == status for line in lines)) for status in ("ok", "failed")]
    figures = (number(taken.wall), number(taken.controller), number(taken.target), number(taken.packets, 0))
    return [side.title, *figures, *counted, "-" if unlike is None else str(len(unlike))]


def demo(made: Controller, up: Targets, sides: dict[str, peers.Side]) -> Table:
    heads = ["", "seconds", "CPU, controller", "CPU, hosts", "packets of one host", "ok", "failed", "unlike stock's"]
    table = Table(f"{PLAYBOOK.name} on {HOSTS} hosts, {RTT * 1000:.0f} ms away", heads, notes=(notes := []))
    up.distance(RTT)
    stock: Results | None = None
    for name in SIDES:
        if name not in sides:
            notes.append(f"{name} is not installed")
            continue
        up.reset(UNDO)
        print(f"{sides[name].title}: the playbook runs", flush=True)
        taken = made.run(sides[name], PLAYBOOK, HOSTS, made.new_home())
        results = parse(taken.results)
        unlike = None if stock is None else differences(stock, results)
        table.rows.append(row(sides[name], taken, unlike))
        notes += [f"{sides[name].title}: {text:.200}" for text in (unlike or [])[:SHOWN]]
        stock = stock or results
    return table


def main() -> int:
    try:
        with ExitStack() as stack:
            venv = peers.installed(print)
            base = stack.enter_context(cgroups.folder())
            up = stack.enter_context(targets(HOSTS, cgroups.group(base, "targets"), print))
            print(f"{HOSTS} hosts are up")
            scratch = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="roamlet-demo-")))
            table = demo(Controller(venv, up, cgroups.group(base, "controller"), scratch), up, peers.sides(venv))
    except (LabError, RunFailed) as error:
        print(f"ansible-demo: {error}", file=sys.stderr)
        return 1
    show(table)
    return 0


if __name__ == "__main__":
    sys.exit(main())
