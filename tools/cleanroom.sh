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
suite=${SUITE:-bookworm}
# shellcheck disable=SC2016 # apt fills these in
mirror=$(apt-get indextargets --format '$(REPO_URI)' 'Created-By: Packages' "Codename: $suite" 2>/dev/null | head -n 1)
mirror=${mirror:-$(apt-get indextargets --format '$(REPO_URI)' 'Created-By: Packages' 2>/dev/null | head -n 1)}
room=$PWD/build/cleanroom
base=$room/base-$suite

if [ "$(id -u)" != 0 ]; then
    echo 'A clean room is a chroot, which takes root: sudo make cleanroom' >&2
    exit 1
fi
if ! command -v debootstrap >/dev/null; then
    echo 'debootstrap is missing. Type: apt-get update && apt-get install -y debootstrap' >&2
    exit 1
fi
# All mounts and processes of the clean rooms end with this script, however it ends.
if [ -z "${WEFT_CLEANROOM_INSIDE:-}" ]; then
    WEFT_CLEANROOM_INSIDE=1 exec unshare --mount --pid --fork --kill-child "$0" "$@"
fi

# Runs `$3...` in the system `$1` as the user `$2`, with the network settings of this machine and nothing else of it.
inside() {
    root=$1
    user=$2
    shift 2
    home=$(awk -F: -v user="$user" '$1 == user { print $6 }' "$root/etc/passwd")
    settings=$(env | grep -E '^(PIP_|SSL_CERT_|https?_proxy=|no_proxy=|HTTPS?_PROXY=|NO_PROXY=)' | while IFS= read -r setting; do
        # A setting that names a file or folder makes sense only where that exists.
        case ${setting#*=} in /*) if [ -e "$root${setting#*=}" ]; then printf '%s\n' "$setting"; fi ;; *) printf '%s\n' "$setting" ;; esac
    done)
    # shellcheck disable=SC2086 # one word a setting
    env -i PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin HOME="$home" LANG=C.UTF-8 $settings \
        chroot --userspec="$(id_in "$root" "$user")" "$root" sh -c "cd && $*" 2>&1
}

id_in() {
    awk -F: -v user="$2" '$1 == user { print $3 ":" $4 }' "$1/etc/passwd"
}

make_base() {
    if [ -e "$base/.complete" ]; then return; fi
    echo "== debootstrap $suite"
    rm -rf "$base"
    mkdir -p "$base"
    debootstrap --variant=minbase --include=python3,git,gcc,make,ca-certificates "$suite" "$base" "$mirror" \
        >"$room/debootstrap.log" 2>&1 || { tail -n 20 "$room/debootstrap.log"; exit 1; }
    copy_settings "$base"
    touch "$base/.complete"
}

# What apt and pip need to find their registries from in there.
copy_settings() {
    cp /etc/resolv.conf /etc/hosts "$1/etc/"
    rm -f "$1/etc/apt/sources.list"
    for file in /etc/apt/sources.list /etc/apt/sources.list.d/*.list /etc/apt/sources.list.d/*.sources; do
        if grep -Eqs "(^|[[:space:]])$suite([[:space:]]|\$)" "$file"; then cp "$file" "$1${file%/*}/"; fi
    done
    cp -r /etc/apt/trusted.gpg.d /etc/apt/auth.conf.d "$1/etc/apt/"
    if [ -d /usr/share/keyrings ]; then mkdir -p "$1/usr/share/keyrings" && cp -r /usr/share/keyrings/. "$1/usr/share/keyrings/"; fi
    for file in /etc/apt/apt.conf.d/*; do
        if grep -qs '^ *Acquire' "$file" && ! grep -q 'IndexTargets' "$file"; then cp "$file" "$1/etc/apt/apt.conf.d/"; fi
    done
    if [ -f /etc/pip.conf ]; then cp /etc/pip.conf "$1/etc/"; fi
    mkdir -p "$1/etc/ssl/certs"
    cp /etc/ssl/certs/ca-certificates.crt "$1/etc/ssl/certs/"
}

# A fresh system of the name `$1`, with a user and a bundle of HEAD to clone from. Prints nothing.
make_system() {
    system=$room/$1
    rm -rf "$system"
    cp -a "$base" "$system"
    # shellcheck disable=SC2046 # the name of the branch, or none
    git bundle create -q "$system/weft.bundle" HEAD $(git branch --show-current)
    chmod 644 "$system/weft.bundle"
    chroot "$system" useradd --create-home somebody
    mount -t proc proc "$system/proc"
    mount --rbind /dev "$system/dev"
    mount -t tmpfs tmpfs "$system/run"
}

drop_system() {
    umount "$room/$1/run" "$room/$1/proc"
    umount --recursive --lazy "$room/$1/dev"
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

CLONE='git clone -q /weft.bundle weft'

as_root() {
    make_system "$1"
    step "$1-1-clone" inside "$room/$1" root "$CLONE"
    step "$1-2-make-$2" inside "$room/$1" root "cd weft && make $2"
    step "$1-3-make-$3" inside "$room/$1" root "cd weft && make $3"
    drop_system "$1"
}

as_user() {
    make_system user
    step user-1-clone inside "$room/user" somebody "$CLONE"
    if inside "$room/user" somebody 'cd weft && make demo' >"$room/user-2-refused.log"; then
        echo 'user-2: passed without anything missing'
    else
        line=$(grep '^sudo ' "$room/user-2-refused.log" || true)
        echo "user-2: refused, and says: $line"
        if [ -z "$line" ]; then status=1; fi
        step user-3-typed inside "$room/user" root "$(echo "$line" | sed 's/sudo //g')"
    fi
    step user-4-make-demo inside "$room/user" somebody 'cd weft && make demo'
    step user-5-make-test inside "$room/user" somebody 'cd weft && make test'
    drop_system user
}

status=0
mkdir -p "$room"
mount --make-rprivate /
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
