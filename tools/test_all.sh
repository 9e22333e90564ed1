#!/bin/sh
# The core, io, sync, threads and remote tests with every Python >= 3.11 of a different minor version found on this machine;
# C asserts on.
#
# Looks at PATH and at folders of versions as pyenv keeps them ($PYENV_ROOT or ~/.pyenv). Each gets build/venv-X.Y.
#   tools/test_all.sh                    everything
#   FOLDERS='tests/core' tools/test_all.sh -x      these folders; further words go to pytest
#   PYTHON=/path/to/python3.14 tools/test_all.sh   with this one alone
#   ROAMLET_TESTS=telling tools/test_all.sh        without the tests that repeat what others show, as make test runs them
#   WITHOUT='3.11' tools/test_all.sh               with every version but these
#   BACKENDS=greenlet tools/test_all.sh            on this backend alone
set -u
ROAMLET_TESTS=${ROAMLET_TESTS:-all}
export ROAMLET_TESTS
cd "$(dirname "$0")/.." || exit

candidates() {
    if [ -n "${PYTHON:-}" ]; then
        echo "$PYTHON"
        return
    fi
    for minor in 11 12 13 14 15; do
        command -v "python3.$minor"
        ls -d "${PYENV_ROOT:-$HOME/.pyenv}"/versions/3."$minor".*/bin/python 2>/dev/null
    done
    command -v python3
}

# The version of `$1`; fails when it is too old or free-threaded, or has no headers or venv and so cannot build what would be
# tested.
version_of() {
    "$1" -I -c '
import ensurepip, os, sys, sysconfig, venv
assert sys.version_info >= (3, 11) and "t" not in sys.abiflags and os.path.exists(os.path.join(sysconfig.get_path("include"), "Python.h"))
print("%d.%d" % sys.version_info[:2])
' 2>/dev/null
}

if [ -z "${FOLDERS:-}" ]; then
    FOLDERS=
    for folder in tests/core tests/io tests/sync tests/threads tests/snapshot tests/remote; do
        if [ -n "$(find "$folder" -name 'test_*.py' 2>/dev/null)" ]; then FOLDERS="$FOLDERS $folder"; fi
    done
fi

status=0
seen=
report=
mkdir -p build
# Two of these may run side by side, and setuptools writes what it finds out beside the sources.
one_at_a_time=
if command -v flock >/dev/null; then one_at_a_time='flock build/.installing'; fi
for python in $(candidates); do
    version=$(version_of "$python") || continue
    case " $seen ${WITHOUT:-} " in *" $version "*) continue ;; esac
    seen="$seen $version"
    venv=build/venv-$version
    echo "== Python $version ($python)"
    if ! [ -x "$venv/bin/python" ]; then "$python" -m venv "$venv" || { status=1; continue; }; fi
    # Built into the environment and not into src, with a build folder of its own: neither the figures of .venv nor a later
    # `pip install .` must get anything that was built with asserts.
    printf '[build]\nbuild_base = build/asserts-%s\n' "$version" >"$venv/build.cfg"
    if ! { "$venv/bin/python" -m pip install -q --disable-pip-version-check 'setuptools>=77' &&
        DIST_EXTRA_CONFIG="$PWD/$venv/build.cfg" ROAMLET_ASSERTS=1 \
            $one_at_a_time "$venv/bin/python" -m pip install -q --disable-pip-version-check --no-build-isolation '.[test]'; }; then
        report="$report
Python $version: does not build"
        status=1
        continue
    fi
    for backend in ${BACKENDS:-native greenlet}; do
        if ! "$venv/bin/python" -c "import roamlet.core._$backend" 2>/dev/null; then
            report="$report
Python $version, $backend: not for this Python or this machine"
            continue
        fi
        folders=$FOLDERS
        # The remote tests, and those of threads, do not depend on how tasklets switch: once is enough.
        if [ "$backend" != native ]; then folders=$(echo "$FOLDERS" | sed "s#tests/remote##; s#tests/threads##"); fi
        # shellcheck disable=SC2086,SC2116 # nothing but spaces is nothing
        if [ -z "$(echo $folders)" ]; then continue; fi
        # shellcheck disable=SC2086 # words
        ROAMLET_SWITCH=$backend "$venv/bin/python" tools/pytest_run.py "Python $version, $backend" $folders "$@" \
            >"build/test-all-$version.log" 2>&1
        code=$?
        cat "build/test-all-$version.log"
        if [ $code != 0 ]; then status=1; fi
        report="$report
Python $version, $backend: $(tail -n 1 "build/test-all-$version.log" | tr -d '=')"
    done
done
if [ -z "$seen" ] && [ -n "${WITHOUT:-}" ]; then
    report="
Python: no other version >= 3.11 with venv and headers was found here than $WITHOUT"
elif [ -z "$seen" ]; then
    echo "make test-all: no Python >= 3.11 with venv and headers was found here${PYTHON:+, and $PYTHON is not one}" >&2
    status=1
fi
echo "== make test-all$report"
exit $status
