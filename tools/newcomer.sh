#!/bin/sh
# The first hour of a newcomer, as a test: in fresh Debian systems, which have a Python with venv and ssh and no compiler, installs the
# wheels of dist/ (make wheels) into virtual environments, runs the programs of README.md and of the tutorial as printed, and
# `roamlet demo`. Each step is timed. Needs root.
#
#   tools/newcomer.sh                  Debian 12 with its own Python, then with each Python of pyenv on this machine that dist/ has a wheel for
#   tools/newcomer.sh trixie forky     the own Python of these releases; in bookworm those of pyenv as well
#   WITHIN=60 tools/newcomer.sh        fail where one Python takes longer than that, in seconds
#   ALONE=1 tools/newcomer.sh          without the Pythons of pyenv
#
# Packages of others come from pip's index; what was downloaded once is kept in $XDG_CACHE_HOME/roamlet or ~/.cache/roamlet.
set -eu
cd "$(dirname "$0")/.."
# shellcheck source=tools/chroot.sh
. tools/chroot.sh
packages=python3,python3-venv,openssh-client,ca-certificates
room=$PWD/build/newcomer
suite=bookworm
# shellcheck source=tools/rooms.sh
. tools/rooms.sh

if ! ls dist/roamlet-*.whl >/dev/null 2>&1; then
    echo 'there are no wheels in dist/. Type: make wheels' >&2
    exit 1
fi
need_chroots 'A fresh Debian' 'make newcomer'
with_mounts_of_its_own "$@"

# Plays as the user `$1` with the interpreter `$2` of the system, where dist/ has a wheel for it. A wheel that is missing is no failure of the newcomer.
play() {
    tag=$(inside "$system" "$1" "$2 -c 'import sys; print(\"cp%d%d\" % sys.version_info[:2])'")
    wheel=$(find dist -name "roamlet-*-$tag-*_$(uname -m).whl" | head -n 1)
    if [ -z "$wheel" ]; then
        echo "$tag: dist/ has no wheel for it"
        return
    fi
    inside "$system" "$1" "$2 /newcomer/newcomer.py play '/newcomer/$(basename "$wheel")' /newcomer ${WITHIN:+--within $WITHIN}" || status=1
}

if [ $# = 0 ]; then set -- bookworm; fi
for suite in "$@"; do
    base=$cache/$suite-$(echo "$packages" | cksum | cut -d' ' -f1)
    archives=$cache/apt-$suite
    make_base
    make_system "$suite" somebody
    mkdir "$system/newcomer"
    cp tools/newcomer.py dist/roamlet-*.whl "$system/newcomer/"
    python3 tools/newcomer.py collect "$system/newcomer" >/dev/null
    echo "== a newcomer in Debian $suite"
    play somebody python3
    if [ "$suite" = bookworm ] && [ -z "${ALONE:-}" ]; then
        lend_other_pythons
        for python in ${lent:+"$lent"/3.1[2-9].*/bin/python}; do
            if [ -e "$python" ]; then play root "${python#"$system"}"; fi # whose folder only root may enter
        done
    fi
    drop_system
done
exit $status
