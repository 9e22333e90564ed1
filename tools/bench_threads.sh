#!/bin/sh
# docs/reference/threads-and-io.md, taken anew: roamlet bench gil and server on every Python >= 3.11 found here. Under 10 minutes.
#
# The other Pythons get build/bench-X.Y, with roamlet built as users build it; the figures of .venv's Python stand first.
#   tools/bench_threads.sh [--quick]
set -eu
cd "$(dirname "$0")/.."
mkdir -p build

others=$(.venv/bin/python -c '
import sys
from roamlet.cli.programs.interpreters import interpreters
for one in interpreters():
    if one.version >= (3, 11) and one.version[:2] != sys.version_info[:2]:
        print("%d.%d=%s" % (*one.version[:2], one.path))
')
words=
for other in $others; do
    venv=build/bench-${other%%=*}
    if PYTHON=${other#*=} tools/prepare.sh "$venv" '' >build/bench-threads.log 2>&1; then
        words="$words --python $venv/bin/python"
    else
        echo "roamlet does not build on Python ${other%%=*}: measured without it (build/bench-threads.log says why)" >&2
        words="$words --python ${other#*=}"
    fi
done
# shellcheck disable=SC2086 # words
.venv/bin/python -m bench gil server --json build/threads.json $words "$@"
.venv/bin/python -m bench render build/threads.json docs/reference/threads-and-io.md
