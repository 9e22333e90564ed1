#!/bin/sh
# Make .venv and install roamlet and its apps into it in editable form, with what `make demo` and `make test` need.
#
# Looks for a Python >= 3.11 with venv and headers, a C compiler and ssh. What is missing is installed when this runs as
# root on Debian; otherwise the one line to type is printed and nothing has been touched.
#
#   tools/prepare.sh [VENV [EXTRAS]]       defaults: .venv  demo,test; '' for no extras
#   PYTHON=/path/to/python                 use this interpreter
set -eu
cd "$(dirname "$0")/.."
venv=${1:-.venv}
extras=${2-demo,test}

# Prints what `$1` lacks, one word each; nothing when it will do. Fails when it is no Python >= 3.11 at all, or a free-threaded
# one, which roamlet refuses.
lacks() {
    "$1" -I -c '
import sys
if sys.version_info < (3, 11) or sys.implementation.name != "cpython" or "t" in sys.abiflags:
    sys.exit(1)
import os, sysconfig
if not os.path.exists(os.path.join(sysconfig.get_path("include"), "Python.h")):
    print("headers")
try:
    import ensurepip, venv
except ImportError:
    print("venv")
' 2>/dev/null
}

# Sets `python` to the newest interpreter that has all it takes, else to the newest one at all, else to nothing; and
# `missing` to what that one lacks.
choose_python() {
    python=
    missing=python
    for candidate in ${PYTHON:-python3.15 python3.14 python3.13 python3.12 python3.11 python3}; do
        path=$(command -v "$candidate" 2>/dev/null) || continue
        found=$(lacks "$path") || continue
        if [ -z "$found" ]; then
            python=$path
            missing=
            return
        fi
        if [ -z "$python" ]; then
            python=$path
            missing=$found
        fi
    done
}

check_tools() {
    if command -v cc >/dev/null 2>&1; then cc=cc; else cc=gcc; fi
    if ! printf '#include <stdlib.h>\n' | "$cc" -E -x c - >/dev/null 2>&1; then
        missing="$missing compiler"
    fi
    if ! command -v ssh >/dev/null 2>&1 || ! command -v ssh-keygen >/dev/null 2>&1; then
        missing="$missing ssh"
    fi
    # shellcheck disable=SC2086,SC2116 # one space between the words, none at the ends
    missing=$(echo $missing)
}

debian_packages() {
    for thing in $missing; do
        case $thing in
            python) echo python3 python3-venv python3-dev ;;
            venv) echo python3-venv ;;
            headers) echo python3-dev ;;
            compiler) echo gcc libc6-dev ;;
            ssh) echo openssh-client ;;
        esac
    done | tr '\n' ' ' | sed 's/ *$//'
}

fail() {
    printf '%s\n' "$@" >&2
    exit 1
}

choose_python
check_tools
if [ -n "$missing" ]; then
    # What somebody asked for by name is not replaced by something else.
    case "${PYTHON:+asked} $missing" in asked*python* | asked*venv* | asked*headers*)
        fail "roamlet cannot be built with PYTHON=$PYTHON: missing: $missing. It needs CPython >= 3.11 with venv and headers." ;;
    esac
    if ! command -v apt-get >/dev/null 2>&1; then
        fail "roamlet needs CPython >= 3.11 with venv and headers, a C compiler and ssh; missing here: $missing."
    fi
    if [ "$(id -u)" != 0 ]; then
        fail "Missing: $missing. Type this, then the same make command again:" \
            "sudo apt-get update && sudo apt-get install -y $(debian_packages)"
    fi
    echo "Missing: $missing. Installing $(debian_packages)"
    apt-get update -qq
    # shellcheck disable=SC2046 # one word a package
    DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends $(debian_packages) >/dev/null
    choose_python
    check_tools
    if [ -n "$missing" ]; then
        fail "Still missing after installing the packages above: $missing." \
            "This release of Debian may have no Python >= 3.11; name one with: make PYTHON=/path/to/python3.12"
    fi
fi

# A virtual environment whose interpreter is gone, too old, or not the one asked for is made anew.
if ! "$venv/bin/python" -c 'import sys, pip; sys.exit(sys.version_info < (3, 11))' 2>/dev/null ||
    { [ -n "${PYTHON:-}" ] && [ "$("$venv/bin/python" -c 'import sys; print(sys.version)')" != "$("$python" -c 'import sys; print(sys.version)')" ]; }; then
    echo "Making $venv with $python"
    "$python" -m venv --clear "$venv"
fi
pip() {
    "$venv/bin/python" -m pip --disable-pip-version-check "$@"
}
# Not isolated: the build then needs setuptools once and not again for every change of the sources.
pip install -q 'setuptools>=77'
echo "Building roamlet and installing it with its apps${extras:+ and what $extras needs}"
set -- --editable ".${extras:+[$extras]}"
for project in apps/*/pyproject.toml; do set -- "$@" --editable "${project%/pyproject.toml}"; done
pip install -q --no-build-isolation "$@"
