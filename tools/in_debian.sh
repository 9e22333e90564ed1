#!/bin/sh
# Runs a command of the shell in a system of a Debian release that has python3.X, headers and a compiler; the folder build/ has the same
# name there as here. Needs root. The system is made the first time, and stays in build/pythons.
#
#   tools/in_debian.sh forky 3.14 'python3.14 --version'
set -eu
cd "$(dirname "$0")/.."
# shellcheck source=tools/chroot.sh
. tools/chroot.sh
# shellcheck source=tools/debian_systems.sh
. tools/debian_systems.sh
if [ $# != 3 ]; then
    echo "name a release, a version and a command: tools/in_debian.sh forky 3.14 'python3.14 --version'" >&2
    exit 2
fi
need_chroots 'Another Debian release' "tools/in_debian.sh $1 $2 '$3'"
with_mounts_of_its_own "$@"
make_debian "$1" "$2"
mkdir -p "$root$PWD/build"
mount --bind "$PWD/build" "$root$PWD/build"
inside "$root" root "$3"
