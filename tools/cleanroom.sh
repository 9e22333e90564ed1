#!/bin/sh
# Does a fresh clone work on a fresh Debian? Makes systems with debootstrap that hold python3, git, gcc and make and nothing
# more, clones this repository's HEAD inside each, and types there what README.md says. Needs root.
#
#   tools/cleanroom.sh               all of these, one after the other:
#   tools/cleanroom.sh root          as root, with the other Pythons of this machine: make demo, make test; what CI runs
#   tools/cleanroom.sh bare          as root, without other Pythons: make test, make demo
#   tools/cleanroom.sh user          as a user: the one line to type is printed; with it typed, both pass
#   tools/cleanroom.sh locale        in Turkish, where messages are translated and "I".lower() is not "i" in C
#   tools/cleanroom.sh space         in a folder with a space in its name
#   TEST_ARGS='-k ssh -x' tools/cleanroom.sh space         with these words for pytest
#   SUITE=trixie tools/cleanroom.sh                        another release
#
# Inside, apt and pip find their registries as they do outside: the sources, keys, certificates and pip settings of this
# machine are copied in. The systems are in build/cleanroom and go away afterwards, the logs stay; the system that they are
# copied from, and the archives of apt, of pip and of tools/unpack_debian.py, are kept in $XDG_CACHE_HOME/roamlet or ~/.cache/roamlet.
set -eu
cd "$(dirname "$0")/.."
# shellcheck source=tools/chroot.sh
. tools/chroot.sh
suite=${SUITE:-bookworm}
packages=python3,git,gcc,make,ca-certificates
room=$PWD/build/cleanroom
# shellcheck source=tools/rooms.sh
. tools/rooms.sh
CLONE='git clone -q /roamlet.git'

need_chroots 'A clean room' 'make cleanroom'
with_mounts_of_its_own "$@"

# A fresh system as make_system makes it, and a repository in it to clone HEAD from.
make_room() {
    make_system "$@"
    # By its protocol: a clone of files would hold what a shallow one lacks, or names of folders that are not in the system.
    git clone -q --bare "file://$PWD" "$system/roamlet.git"
    chroot "$system" chown -R "$user:" /roamlet.git
}

# Makes the targets `$3...` in the folder `$2` of the user, in the system of the name `$1`.
make_there() {
    name=$1
    folder=$2
    shift 2
    for target in "$@"; do
        words=$target
        if [ "$target" = test ]; then words="test ARGS='${TEST_ARGS:-}'"; fi
        step "$name-make-$target" "$user" "cd '$folder' && make $words"
    done
}

in_root() {
    make_room root root
    lend_other_pythons
    step root-clone root "$CLONE roamlet"
    make_there root roamlet demo test
}

in_bare() {
    make_room bare root
    step bare-clone root "$CLONE roamlet"
    make_there bare roamlet test demo
}

in_user() {
    make_room user somebody
    step user-clone somebody "$CLONE roamlet"
    log=$room/user-refused.log
    if inside "$system" somebody 'cd roamlet && make demo' >"$log" </dev/null; then
        echo 'user-refused: passed without anything missing'
    else
        line=$(grep '^sudo ' "$log" || true)
        echo "user-refused: it says: $line"
        if [ -z "$line" ]; then status=1; fi
        step user-typed root "$(echo "$line" | sed 's/sudo //g')"
    fi
    make_there user roamlet demo test
}

in_locale() {
    make_room locale root LANG=tr_TR.UTF-8
    lend_other_pythons
    step locale-made root 'apt-get update -qq && DEBIAN_FRONTEND=noninteractive apt-get install -y -qq locales >/dev/null &&
        localedef -i tr_TR -f UTF-8 tr_TR.UTF-8'
    step locale-clone root "$CLONE roamlet"
    make_there locale roamlet demo test
}

in_space() {
    make_room space root
    lend_other_pythons
    step space-clone root "$CLONE 'a folder/roamlet'"
    make_there space 'a folder/roamlet' demo test
}

make_base
if [ $# = 0 ]; then set -- root bare user locale space; fi
for scenario in "$@"; do
    case $scenario in
        root | bare | user | locale | space)
            "in_$scenario"
            drop_system
            ;;
        *) echo "no such clean room: $scenario; there are root, bare, user, locale and space" >&2; exit 2 ;;
    esac
done
exit $status
