#!/bin/sh
# Runs a command of the shell in a small Debian for arm64, emulated by qemu; the folder build/ has the same name there as here. The system is
# unpacked the first time, with a compiler for it, and stays in build/aarch64. Takes root before Linux 6.7.
#
#   tools/in_aarch64.sh bookworm 'python3 --version'
set -eu
cd "$(dirname "$0")/.."
if [ $# != 2 ]; then
    echo "name a release and a command: tools/in_aarch64.sh bookworm 'python3 --version'" >&2
    exit 2
fi
suite=$1
# shellcheck source=tools/aarch64_system.sh
. tools/aarch64_system.sh
if [ -z "${ROAMLET_AARCH64_INSIDE:-}" ]; then
    unpack_system
    enter_system "$@"
fi
mount_aarch64
mkdir -p "$root$PWD/build"
mount --bind "$PWD/build" "$root$PWD/build"
env -i PATH=/usr/sbin:/usr/bin:/sbin:/bin HOME=/root LANG=C.UTF-8 chroot "$root" sh -c "$2" 2>&1
