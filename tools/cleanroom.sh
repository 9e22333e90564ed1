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
cache=${XDG_CACHE_HOME:-$HOME/.cache}/roamlet/cleanroom
base=$cache/$suite-$(echo "$packages" | cksum | cut -d' ' -f1)
archives=$cache/apt-$suite
CLONE='git clone -q /roamlet.git'

need_chroots 'A clean room' 'make cleanroom'
with_mounts_of_its_own "$@"

make_base() {
    if [ -d "$base" ]; then return; fi
    echo "== debootstrap $suite, once: it is kept in $base"
    unfinished=$base.$$
    mkdir -p "$unfinished"
    if ! debootstrap --variant=minbase --include="$packages" "$suite" "$unfinished" "$(mirror_of "$suite")" \
        >"$room/debootstrap.log" 2>&1; then
        tail -n 20 "$room/debootstrap.log"
        rm -rf --one-file-system "$unfinished"
        exit 1
    fi
    chroot "$unfinished" useradd --create-home somebody
    keep_archives "$unfinished"
    rm -f "$unfinished"/var/cache/apt/archives/*.deb
    # Another one may have been first; both are the same.
    mv -T "$unfinished" "$base" 2>/dev/null || rm -rf --one-file-system "$unfinished"
}

# apt's archives outlive the system `$1`. A package is one file in all systems: it is not written to again.
keep_archives() {
    mkdir -p "$archives"
    find "$1/var/cache/apt/archives" -name '*.deb' -exec cp -n -t "$archives" {} +
    find "$archives" -name '*.deb' -mtime +90 -delete
}

# This machine's own sources for the suite.
copy_sources() {
    rm -f "$1/etc/apt/sources.list"
    for file in /etc/apt/sources.list /etc/apt/sources.list.d/*.list /etc/apt/sources.list.d/*.sources; do
        if grep -Eqs "(^|[[:space:]])$suite([[:space:]]|\$)" "$file"; then cp "$file" "$1${file%/*}/"; fi
    done
}

# A fresh system of the name `$1`, with a user, and a repository to clone HEAD from. Its steps are run by `$2` in this
# environment: `$3...`. Sets `system`, `user`, `lent` and `INSIDE_SETTINGS`.
make_system() {
    system=$room/$1
    user=$2
    shift 2
    rm -rf --one-file-system "$system"
    cp -a "$base" "$system"
    copy_settings "$system"
    copy_sources "$system"
    find "$archives" -name '*.deb' -exec cp -n -t "$system/var/cache/apt/archives" {} +
    # By its protocol: a clone of files would hold what a shallow one lacks, or names of folders that are not in the system.
    git clone -q --bare "file://$PWD" "$system/roamlet.git"
    chroot "$system" chown -R "$user:" /roamlet.git
    mount_system "$system"
    mkdir -p "$cache/kept-$user/pip" "$cache/kept-$user/debian" "$system/var/cache/kept"
    mount --bind "$cache/kept-$user" "$system/var/cache/kept"
    chroot "$system" chown "$user:" /var/cache/kept /var/cache/kept/pip /var/cache/kept/debian
    INSIDE_SETTINGS="PIP_CACHE_DIR=/var/cache/kept/pip ROAMLET_ARCHIVES=/var/cache/kept/debian $*"
    lent=
}

# The versions that pyenv has here, at their own place in the system, where nothing can change them.
lend_other_pythons() {
    versions=${PYENV_ROOT:-$HOME/.pyenv}/versions
    if ! [ -d "$versions" ]; then
        echo "no other Pythons are lent: there is no $versions"
        return
    fi
    lent=$system$versions
    mkdir -p "$lent"
    mount --bind "$versions" "$lent"
    mount -o remount,bind,ro "$lent"
    INSIDE_SETTINGS="$INSIDE_SETTINGS PYENV_ROOT=${versions%/versions}"
}

drop_system() {
    keep_archives "$system"
    umount "$system/var/cache/kept"
    if [ -n "$lent" ]; then umount "$lent"; fi
    unmount_system "$system"
    # What is still mounted there would be emptied, on whatever machine it is.
    if findmnt --list --noheadings --output TARGET | grep -qF "$system/"; then
        echo "the tests left something mounted in $system, which stays:"
        findmnt --list | grep -F "$system/"
        status=1
        return
    fi
    rm -rf --one-file-system "$system"
}

# Runs `$3` in the system as the user `$2` and reports it as passed or failed under the name `$1`. The output goes to a log;
# what pytest says behind its dots to the screen as well, and all of it where it failed.
step() {
    log=$room/$1.log
    started=$(date +%s)
    if inside "$system" "$2" "$3" >"$log" </dev/null; then verdict=passed; else verdict=FAILED; status=1; fi
    if [ $verdict = FAILED ]; then sed 's/^/    /' "$log"; else sed '1,/\[100%\]$/d' "$log"; fi
    echo "$1: $verdict after $(($(date +%s) - started)) s: $(grep . "$log" | tail -n 1)"
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
    make_system root root
    lend_other_pythons
    step root-clone root "$CLONE roamlet"
    make_there root roamlet demo test
}

in_bare() {
    make_system bare root
    step bare-clone root "$CLONE roamlet"
    make_there bare roamlet test demo
}

in_user() {
    make_system user somebody
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
    make_system locale root LANG=tr_TR.UTF-8
    lend_other_pythons
    step locale-made root 'apt-get update -qq && DEBIAN_FRONTEND=noninteractive apt-get install -y -qq locales >/dev/null &&
        localedef -i tr_TR -f UTF-8 tr_TR.UTF-8'
    step locale-clone root "$CLONE roamlet"
    make_there locale roamlet demo test
}

in_space() {
    make_system space root
    lend_other_pythons
    step space-clone root "$CLONE 'a folder/roamlet'"
    make_there space 'a folder/roamlet' demo test
}

status=0
mkdir -p "$room" "$cache"
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
