"""`make wheels`: the sdist, and a wheel for each CPython of the machine, of roamlet; a wheel and an sdist of each app; in dist/.

    python -m tools.wheels                    all Pythons that roamlet is for and that are found
    python -m tools.wheels 3.12 3.13          these
    python -m tools.wheels --once 3.12        built once; else twice, and both must be the same bit for bit
    python -m tools.wheels --debian           those of a newer Debian too, in a system that is made for it (root)
    python -m tools.wheels --aarch64          for aarch64 too, cross-compiled, and tried with an emulator (root before Linux 6.7)

The wheels of roamlet are for Linux with the glibc of manylinux2014 and newer ones, wherever they are built: setup.py takes the
older of two versions of what glibc has twice (core/c/portable.h), and auditwheel refuses what would need a newer one. Each is
installed into an environment of its own, without a compiler in PATH, and tried. Nothing is uploaded.

What has been built is listed in dist/SHA256SUMS; roamlet-VERSION.cdx.json lists the packages of an installation.
"""

import argparse
import platform
import shutil
import sys
from collections.abc import Sequence

from tools.commands import ROOT, Failed, say
from tools.pythons import VERSIONS
from tools.wheels import crossing
from tools.wheels.building import build, clean_copy, programs, settings
from tools.wheels.interpreters import DEBIAN, WORK, in_debian, interpreters
from tools.wheels.judging import bill_of_materials, check, compare, sums, try_out

DIST = ROOT / "dist"


def main(words: Sequence[str]) -> int:
    """Build, compare, check, try, and put everything into dist/. Returns the exit status."""
    parser = argparse.ArgumentParser(prog="python -m tools.wheels", description=__doc__.partition("\n")[0])
    parser.add_argument("version", nargs="*", choices=[*VERSIONS, []], help="of CPython, such as 3.12; all by default")
    parser.add_argument("--once", action="store_true", help="do not build a second time to compare")
    parser.add_argument("--debian", action="store_true", help=f"{' and '.join(DEBIAN)} too, of a newer Debian")
    parser.add_argument("--aarch64", action="store_true", help="for aarch64 too, cross-compiled")
    options = parser.parse_args(words)
    if sys.platform != "linux":
        print("make wheels: wheels are built on Linux", file=sys.stderr)
        return 2
    try:
        WORK.mkdir(parents=True, exist_ok=True)
        found = interpreters([each for each in options.version if not (options.debian and each in DEBIAN)])
        here = {interpreter.version for interpreter in found}
        if options.debian:
            found += [in_debian(each) for each in options.version or DEBIAN if each in DEBIAN and each not in here]
        crossed = crossing.prepare(found) if options.aarch64 else []
        tools = programs()
        shutil.rmtree(WORK / "sources", ignore_errors=True)
        # Both once: the work tree may change meanwhile.
        sources, environment = clean_copy(WORK / "sources"), settings()
        runs = [WORK / "first", *([] if options.once else [WORK / "second"])]
        for run in runs:
            shutil.rmtree(run, ignore_errors=True)
            build(tools, sources, environment, run, found, crossed)
        if not options.once:
            compare(*runs)
            say("Built twice: the same bit for bit")
        check(tools, runs[0])
        for interpreter in found:
            (wheel,) = runs[0].glob(f"roamlet-*-{interpreter.tag}-*_{platform.machine()}.whl")
            say(f"CPython {interpreter.version}: {wheel.name}: {try_out(wheel, interpreter)}")
        for cross in crossed:
            (wheel,) = runs[0].glob(f"roamlet-*-{cross.tag}-*_aarch64.whl")
            say(f"CPython {cross.version}: {wheel.name}: {crossing.try_out(wheel, cross)}")
        bill_of_materials(tools, found[0], runs[0])
        shutil.rmtree(DIST, ignore_errors=True)
        shutil.copytree(runs[0], DIST)
        listed = sums(DIST)
        (DIST / "SHA256SUMS").write_text("".join(f"{digest}  {name}\n" for name, digest in listed.items()))
    except Failed as failure:
        print(f"make wheels: {failure}", file=sys.stderr)
        return 1
    say(f"{len(listed)} files in {DIST.relative_to(ROOT)}")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
