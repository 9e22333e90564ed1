"""Lazy imports (PEP 810) in the globals that a saved function brings along: they are still lazy where it is restored."""

import subprocess
import sys

import pytest

from roamlet.snapshot import BadSnapshot

pytestmark = pytest.mark.pythons((3, 15), (3, 99), reason="PEP 810 is of CPython 3.15")

SAVES = """
import sys, roamlet
from roamlet import snapshot
lazy import wsgiref.util
lazy import xml.dom as dom
lazy from colorsys import rgb_to_hls

go = roamlet.channel()

def uses():
    go.receive()
    return wsgiref.util.__name__, dom.__name__, rgb_to_hls.__name__

def main():
    done = roamlet.tasklet(lambda: print(uses()))()
    roamlet.run()
    with open(sys.argv[1], "wb") as file:
        file.write(snapshot.dumps((done, go)))
    print([name for name in ("wsgiref.util", "xml.dom", "colorsys") if name in sys.modules])

main()
"""

RESTORES = """
import sys, roamlet
from roamlet import snapshot

def main():
    with open(sys.argv[1], "rb") as file:
        done, go = snapshot.loads(file.read())
    print([type(globals()[name]).__name__ for name in ("wsgiref", "dom", "rgb_to_hls")])
    print([name for name in ("wsgiref.util", "xml.dom", "colorsys") if name in sys.modules])
    go.send(None)
    roamlet.run()

main()
"""


def printed(tmp_path, source):
    script = tmp_path / "script.py"
    script.write_text(source)
    done = subprocess.run(
        [sys.executable, script, tmp_path / "image"], capture_output=True, text=True, timeout=60, check=False
    )
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout.splitlines()


def test_they_stay_lazy_through_a_snapshot_and_are_resolved_when_they_are_needed(tmp_path):
    assert printed(tmp_path, SAVES) == ["[]"]
    assert printed(tmp_path, RESTORES) == [
        "['lazy_import', 'lazy_import', 'lazy_import']",
        "[]",
        "('wsgiref.util', 'xml.dom', 'rgb_to_hls')",
    ]


def test_what_is_no_import_is_refused():
    from roamlet.snapshot.references import lazy_imports

    for module, by_from, names in (
        ("os; print()", False, ()),
        ("os", True, ("path as found, sep",)),
        ("os", True, ("path", "sep")),
        ("", False, ()),
    ):
        with pytest.raises(BadSnapshot, match="a lazy import that no statement can be"):
            lazy_imports.made(module, by_from, names)
