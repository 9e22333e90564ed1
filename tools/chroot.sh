# Debian systems in folders, for the scripts that source this: which mirror to take, how what runs inside finds apt's and pip's
# registries as the outside does, and what happens to mounts and processes. Holds no names of hosts: all settings are this
# machine's own.

# The archive that apt uses here for the suite `$1`, or for its first source where that suite is not one of them.
mirror_of() {
    # shellcheck disable=SC2016 # apt fills these in
    found=$(apt-get indextargets --format '$(REPO_URI)' 'Created-By: Packages' "Codename: $1" 2>/dev/null | head -n 1)
    echo "${found:-$(apt-get indextargets --format '$(REPO_URI)' 'Created-By: Packages' 2>/dev/null | head -n 1)}"
}

# Ends the script that asks when it cannot make systems: `$1` says what they are to be and `$2` what to type as root.
# debootstrap is installed where it is missing.
need_chroots() {
    if [ "$(id -u)" != 0 ]; then
        echo "$1 is a chroot, which takes root: sudo $2" >&2
        exit 1
    fi
    if command -v debootstrap >/dev/null; then return; fi
    if command -v apt-get >/dev/null; then
        echo 'installing debootstrap, which is missing here'
        { apt-get update -qq && DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends debootstrap; } \
            >/dev/null 2>&1 </dev/null || true
    fi
    if ! command -v debootstrap >/dev/null; then
        echo 'debootstrap is missing, and could not be installed. Type: apt-get update && apt-get install -y debootstrap' >&2
        exit 1
    fi
}

# Starts the script that asks once more, so that its mounts and the processes in its systems end with it, however it ends.
# Its arguments are `$@`. Returns in the new one.
with_mounts_of_its_own() {
    if [ -z "${ROAMLET_CHROOT_INSIDE:-}" ]; then
        # The shell of the new one is its process 1, which no signal ends but KILL from outside; and one that was started in
        # the background would ignore an interrupt for good, the tests of interrupts included.
        ROAMLET_CHROOT_INSIDE=1 env --default-signal=INT,QUIT unshare --mount --pid --fork --kill-child "$0" "$@" &
        inside_pid=$!
        trap 'kill -9 "$inside_pid"; exit 130' INT TERM HUP
        code=0
        wait "$inside_pid" || code=$?
        exit "$code"
    fi
    mount --make-rprivate /
}

# What apt and pip need to find their registries in the system `$1`; apt's sources are its maker's business.
copy_settings() {
    cp /etc/resolv.conf /etc/hosts "$1/etc/"
    cp -r /etc/apt/trusted.gpg.d /etc/apt/auth.conf.d "$1/etc/apt/"
    if [ -d /usr/share/keyrings ]; then mkdir -p "$1/usr/share/keyrings" && cp -r /usr/share/keyrings/. "$1/usr/share/keyrings/"; fi
    for file in /etc/apt/apt.conf.d/*; do
        if grep -qs '^ *Acquire' "$file" && ! grep -q 'IndexTargets' "$file"; then cp "$file" "$1/etc/apt/apt.conf.d/"; fi
    done
    if [ -f /etc/pip.conf ]; then cp /etc/pip.conf "$1/etc/"; fi
    mkdir -p "$1/etc/ssl/certs"
    cp /etc/ssl/certs/ca-certificates.crt "$1/etc/ssl/certs/"
}

# The system is a mount of its own, as each real root is: unshare wants to say how mounts spread below it.
mount_system() {
    mount --bind "$1" "$1"
    mount -t proc proc "$1/proc"
    mount --rbind /dev "$1/dev"
    mount --rbind /sys "$1/sys"
    mount -t tmpfs tmpfs "$1/run"
}

unmount_system() {
    umount "$1/run" "$1/proc"
    umount --recursive --lazy "$1/dev"
    umount --recursive --lazy "$1/sys"
    umount --lazy "$1"
}

# Its root is that of a mount namespace and not only a chroot, which a program that enters the namespace would leave.
PIVOT='cd "$1" && pivot_root . . && umount --lazy . && cd / && exec chroot --userspec="$2" / sh -c "$3"'

# Runs `$3...` in the system `$1` as the user `$2`, with the network settings of this machine and nothing else of it, and with
# what $INSIDE_SETTINGS says: words without spaces. In a subshell: its variables are not the caller's.
inside() (
    root=$1
    user=$2
    shift 2
    home=$(awk -F: -v user="$user" '$1 == user { print $6 }' "$root/etc/passwd")
    settings=$(env | grep -E '^(PIP_|SSL_CERT_|https?_proxy=|no_proxy=|HTTPS?_PROXY=|NO_PROXY=)' | while IFS= read -r setting; do
        # A setting that names a file or folder makes sense only where that exists.
        case ${setting#*=} in /*) if [ -e "$root${setting#*=}" ]; then printf '%s\n' "$setting"; fi ;; *) printf '%s\n' "$setting" ;; esac
    done)
    # shellcheck disable=SC2086 # one word a setting
    env -i PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin HOME="$home" LANG=C.UTF-8 $settings ${INSIDE_SETTINGS:-} \
        unshare --mount sh -c "$PIVOT" sh "$root" "$(id_in "$root" "$user")" "cd && $*" 2>&1
)

id_in() {
    awk -F: -v user="$2" '$1 == user { print $3 ":" $4 }' "$1/etc/passwd"
}
