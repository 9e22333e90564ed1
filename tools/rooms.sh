# Fresh Debian systems that are used once, for the scripts that source this after tools/chroot.sh and after setting: `suite`, a release;
# `packages`, what a system has; `room`, the folder of the systems and of the logs. They set `status` to 1 when something fails.
cache=${XDG_CACHE_HOME:-$HOME/.cache}/roamlet/cleanroom
base=$cache/$suite-$(echo "$packages" | cksum | cut -d' ' -f1)
archives=$cache/apt-$suite
status=0

make_base() {
    mkdir -p "$room" "$cache"
    if [ -d "$base" ]; then return; fi
    echo "== debootstrap $suite, once: it is kept in $base"
    unfinished=$base.$$
    mkdir -p "$unfinished"
    recipe=/usr/share/debootstrap/scripts/$suite
    if ! [ -e "$recipe" ]; then recipe=/usr/share/debootstrap/scripts/sid; fi # debootstrap is older than the release
    if ! debootstrap --variant=minbase --include="$packages" "$suite" "$unfinished" "$(mirror_of "$suite")" "$recipe" \
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

# A fresh system of the name `$1`, with a user. Its steps are run by `$2` in this
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
