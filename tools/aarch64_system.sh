# A small Debian for arm64 in build/aarch64, whose programs qemu runs, and a compiler for it, for the scripts that source this. Before: `suite`, a
# release. Nothing is installed: all is unpacked, and may be deleted at any time. What tells the kernel to run arm64 programs with the
# emulator ends with the script, as do all mounts.
cache=$PWD/build/aarch64
tools=$cache/tools
root=$cache/$suite
host_python=${PYTHON:-.venv/bin/python}

# Emulator, compiler, and the packages of an arm64 system with Python, headers and a shell, with an apt that knows of nothing else.
unpack_system() {
    if ! command -v apt-get >/dev/null || ! command -v dpkg-deb >/dev/null; then
        echo 'This unpacks Debian packages, which takes apt-get and dpkg-deb' >&2
        exit 1
    fi
    mkdir -p "$cache"
    "$host_python" tools/unpack_debian.py "$tools" qemu-user-static gcc-aarch64-linux-gnu binutils-aarch64-linux-gnu >/dev/null
    if [ -e "$root/.complete" ]; then return; fi
    echo "== unpacking Debian $suite for arm64"
    # shellcheck disable=SC2016 # apt fills these in
    mirror=$(apt-get indextargets --format '$(REPO_URI)' 'Created-By: Packages' 2>/dev/null | head -n 1)
    if [ -z "$mirror" ]; then
        echo 'apt has no package lists. Type: apt-get update' >&2
        exit 1
    fi
    rm -rf "$root" "$cache/apt"
    mkdir -p "$root" "$cache/apt/state/lists/partial" "$cache/apt/archives/partial"
    : >"$cache/apt/status"
    keyring=/usr/share/keyrings/debian-archive-keyring.gpg
    if [ -e "$keyring" ]; then signed="[arch=arm64 signed-by=$keyring]"; else signed='[arch=arm64]'; fi
    echo "deb $signed $mirror $suite main" >"$cache/apt/sources.list"
    cat >"$cache/apt/apt.conf" <<END
APT::Architecture "arm64";
APT::Architectures { "arm64"; };
APT::Install-Recommends "false";
APT::Sandbox::User "root";
Dir::State "$cache/apt/state";
Dir::State::status "$cache/apt/status";
Dir::Cache "$cache/apt";
Dir::Etc::sourcelist "$cache/apt/sources.list";
Dir::Etc::sourceparts "-";
END
    APT_CONFIG=$cache/apt/apt.conf apt-get -q update >"$cache/apt.log" 2>&1 &&
        APT_CONFIG=$cache/apt/apt.conf apt-get -q -y --download-only install \
            python3 libpython3-dev libc6-dev libgcc-s1 libstdc++6 dash coreutils procps base-files base-passwd >>"$cache/apt.log" 2>&1 ||
        { tail -n 20 "$cache/apt.log"; exit 1; }
    for package in "$cache"/apt/archives/*.deb; do dpkg-deb -x "$package" "$root"; done
    if ! [ -e "$root/bin/sh" ]; then ln -s dash "$root/bin/sh"; fi
    mkdir -p "$root/proc" "$root/dev" "$root/tmp" "$root/root" "$root/roamlet"
    cp "$root/usr/share/base-passwd/passwd.master" "$root/etc/passwd"
    rm -rf "$cache/apt"
    touch "$root/.complete"
}

# arm64 programs run with the emulator, which the kernel opens once, here: inside it is absent. A table of our own where
# the kernel keeps one for each user namespace, else the machine's, for as long as this takes.
register_emulator() {
    magic='\x7fELF\x02\x01\x01\x00\x00\x00\x00\x00\x00\x00\x00\x00\x02\x00\xb7\x00'
    mask='\xff\xff\xff\xff\xff\xff\xff\x00\xff\xff\xff\xff\xff\xff\xff\xff\xfe\xff\xff\xff'
    table=/proc/sys/fs/binfmt_misc
    if [ "$ROAMLET_AARCH64_INSIDE" = own ] || ! [ -e $table/register ]; then mount -t binfmt_misc binfmt_misc $table; fi
    for known in "$table"/*; do
        if grep -qs '^interpreter.*aarch64' "$known"; then return; fi
    done
    trap 'if [ -e $table/roamlet-aarch64 ]; then echo -1 >$table/roamlet-aarch64; fi' EXIT
    trap 'exit 1' HUP INT TERM
    echo ":roamlet-aarch64:M::$magic:$mask:$tools/usr/bin/qemu-aarch64-static:F" >$table/register
}

# Starts the script again with its arguments `$@`, in namespaces that end with it. Does not return.
enter_system() {
    if unshare --user --map-root-user --mount sh -c 'mount -t binfmt_misc none /proc/sys/fs/binfmt_misc' 2>/dev/null; then
        ROAMLET_AARCH64_INSIDE=own exec unshare --user --map-root-user --mount --pid --fork --kill-child "$0" "$@"
    elif [ "$(id -u)" = 0 ]; then
        ROAMLET_AARCH64_INSIDE=shared exec unshare --mount --pid --fork --kill-child "$0" "$@"
    fi
    echo "On this kernel an emulated system takes root: sudo $0" >&2
    exit 1
}

# Of the script that was started again.
mount_aarch64() {
    mount --make-rprivate /
    mount -t proc proc "$root/proc"
    mount --rbind /dev "$root/dev"
    mount -t tmpfs tmpfs "$root/tmp"
    register_emulator
}
