#!/bin/sh
# Does a fresh clone work on a fresh Debian? Makes systems with debootstrap that hold python3, git, gcc and make and nothing
# more, clones this repository's HEAD inside each, and types there what README.md says. Needs root, takes long; the
# systems are in build/cleanroom and go away afterwards, the logs stay.
#
#   tools/cleanroom.sh                            all three:
#   tools/cleanroom.sh demo-test                  as root: make demo, make test
#   tools/cleanroom.sh test-demo                  as root: make test, make demo
#   tools/cleanroom.sh user                       as a user: the one line to type is printed; with it typed, both pass
#   SUITE=trixie tools/cleanroom.sh               another release
#
# Inside, apt and pip find their registries as they do outside: the sources, keys, certificates and pip settings of this
# machine are copied in.
set -eu
cd "$(dirname "$0")/.."
# shellcheck source=tools/chroot.sh
. tools/chroot.sh
suite=${SUITE:-bookworm}
mirror=$(mirror_of "$suite")
room=$PWD/build/cleanroom
base=$room/base-$suite

need_chroots 'A clean room' 'make cleanroom'
with_mounts_of_its_own "$@"

make_base() {
    if [ -e "$base/.complete" ]; then return; fi
    echo "== debootstrap $suite"
    rm -rf "$base"
    mkdir -p "$base"
    debootstrap --variant=minbase --include=python3,git,gcc,make,ca-certificates "$suite" "$base" "$mirror" \
        >"$room/debootstrap.log" 2>&1 || { tail -n 20 "$room/debootstrap.log"; exit 1; }
    copy_settings "$base"
    copy_sources "$base"
    touch "$base/.complete"
}

# This machine's own sources for the suite.
copy_sources() {
    rm -f "$1/etc/apt/sources.list"
    for file in /etc/apt/sources.list /etc/apt/sources.list.d/*.list /etc/apt/sources.list.d/*.sources; do
        if grep -Eqs "(^|[[:space:]])$suite([[:space:]]|\$)" "$file"; then cp "$file" "$1${file%/*}/"; fi
    done
}

# A fresh system of the name `$1`, with a user and a bundle of HEAD to clone from. Prints nothing.
make_system() {
    system=$room/$1
    rm -rf "$system"
    cp -a "$base" "$system"
    # shellcheck disable=SC2046 # the name of the branch, or none
    git bundle create -q "$system/roamlet.bundle" HEAD $(git branch --show-current)
    chmod 644 "$system/roamlet.bundle"
    chroot "$system" useradd --create-home somebody
    mount_system "$system"
}

drop_system() {
    unmount_system "$room/$1"
    rm -rf --one-file-system "${room:?}/$1"
}

# Reports `$2...` as passed or failed under the name `$1`; the output goes to a log and its end to the screen.
step() {
    name=$1
    shift
    started=$(date +%s)
    if "$@" >"$room/$name.log" 2>&1; then verdict=passed; else verdict=FAILED; status=1; fi
    echo "$name: $verdict after $(($(date +%s) - started)) s: $(grep . "$room/$name.log" | tail -n 1)"
    if [ $verdict = FAILED ]; then tail -n 40 "$room/$name.log" | sed 's/^/    /'; fi
}

CLONE='git clone -q /roamlet.bundle roamlet'

as_root() {
    make_system "$1"
    step "$1-1-clone" inside "$room/$1" root "$CLONE"
    step "$1-2-make-$2" inside "$room/$1" root "cd roamlet && make $2"
    step "$1-3-make-$3" inside "$room/$1" root "cd roamlet && make $3"
    drop_system "$1"
}

as_user() {
    make_system user
    step user-1-clone inside "$room/user" somebody "$CLONE"
    if inside "$room/user" somebody 'cd roamlet && make demo' >"$room/user-2-refused.log"; then
        echo 'user-2: passed without anything missing'
    else
        line=$(grep '^sudo ' "$room/user-2-refused.log" || true)
        echo "user-2: refused, and says: $line"
        if [ -z "$line" ]; then status=1; fi
        step user-3-typed inside "$room/user" root "$(echo "$line" | sed 's/sudo //g')"
    fi
    step user-4-make-demo inside "$room/user" somebody 'cd roamlet && make demo'
    step user-5-make-test inside "$room/user" somebody 'cd roamlet && make test'
    drop_system user
}

status=0
mkdir -p "$room"
make_base
for scenario in ${*:-demo-test test-demo user}; do
    case $scenario in
        demo-test) as_root demo-test demo test ;;
        test-demo) as_root test-demo test demo ;;
        user) as_user ;;
        *) echo "no such clean room: $scenario; there are demo-test, test-demo and user" >&2; exit 2 ;;
    esac
done
exit $status
