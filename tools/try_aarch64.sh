#!/bin/sh
# The core's tests on aarch64, emulated: unpacks a small Debian for arm64, cross-compiles the switching backends for its
# Python, and runs tests/core there with qemu, once on each backend. Takes a quarter of an hour, and root where the kernel
# does not let users have namespaces of their own with an emulator in them (before Linux 6.7).
#
#   tools/try_aarch64.sh                     all backends
#   tools/try_aarch64.sh native -k recursion     this one; further words go to pytest
#   SUITE=trixie tools/try_aarch64.sh        with another release's Python
#
# Nothing is installed: compiler, emulator and the arm64 system are unpacked into build/aarch64, which may be deleted at any
# time. What tells the kernel to run arm64 programs with the emulator ends with this script, as do all mounts.
set -eu
cd "$(dirname "$0")/.."
suite=${SUITE:-bookworm}
cache=$PWD/build/aarch64
tools=$cache/tools
root=$cache/$suite
host_python=${PYTHON:-.venv/bin/python}

if ! command -v apt-get >/dev/null || ! command -v dpkg-deb >/dev/null; then
    echo 'This unpacks Debian packages, which takes apt-get and dpkg-deb' >&2
    exit 1
fi
backends=${ROAMLET_AARCH64_BACKENDS:-native greenlet}
case ${1:-} in
    native | greenlet)
        backends=$1
        shift
        ;;
esac

# The packages of an arm64 system with Python, headers and a shell, with an apt that knows of nothing else.
unpack_system() {
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

prepare() {
    mkdir -p "$cache"
    "$host_python" tools/unpack_debian.py "$tools" qemu-user-static gcc-aarch64-linux-gnu binutils-aarch64-linux-gnu >/dev/null
    unpack_system
    version=$("$tools/usr/bin/qemu-aarch64-static" -L "$root" "$root/usr/bin/python3" -I -S -c \
        'import sys; print("%d.%d" % sys.version_info[:2])')
    echo "== Python $version on aarch64, by $("$tools/usr/bin/qemu-aarch64-static" --version | head -n 1)"
    # Pure Python, or with wheels for aarch64.
    if ! [ -e "$root/packages/.complete" ]; then
        rm -rf "$root/packages"
        for package in 'pytest>=9.0' 'pytest-timeout>=2.3' 'greenlet>=3.0' 'gevent>=24.2' 'sqlalchemy>=2.0'; do
            "$host_python" -m pip install -q --disable-pip-version-check --target "$root/packages" --only-binary=:all: \
                --upgrade --python-version "$version" --implementation cp --platform manylinux_2_17_aarch64 \
                --platform manylinux2014_aarch64 --platform manylinux_2_28_aarch64 "$package" 2>"$cache/pip.log" ||
                echo "no $package for aarch64: $(tail -n 1 "$cache/pip.log")"
        done
        touch "$root/packages/.complete"
    fi
    rm -rf "$root/roamlet"
    mkdir -p "$root/roamlet"
    cp -r src tests tools bench pyproject.toml setup.py "$root/roamlet/"
    find "$root/roamlet" -name '*.so' -delete
    for backend in native greenlet; do # both: some tests choose their own
        upper=$(echo "$backend" | tr '[:lower:]' '[:upper:]')
        PATH=$tools/usr/bin:$PATH LD_LIBRARY_PATH=$tools/usr/lib/x86_64-linux-gnu aarch64-linux-gnu-gcc --sysroot="$root" \
            -O3 -std=gnu11 -fPIC -shared -Wall -Wextra -Werror "-DROAMLET_SWITCH_$upper=1" -I"$root/usr/include/python$version" \
            -Isrc/roamlet/core/c src/roamlet/core/c/module.c -o "$root/roamlet/src/roamlet/core/_$backend.abi.so" || exit 1
        mv "$root/roamlet/src/roamlet/core/_$backend.abi.so" \
            "$root/roamlet/src/roamlet/core/_$backend.cpython-$(echo "$version" | tr -d .)-aarch64-linux-gnu.so"
    done
    for package in sync io snapshot; do
        PATH=$tools/usr/bin:$PATH LD_LIBRARY_PATH=$tools/usr/lib/x86_64-linux-gnu aarch64-linux-gnu-gcc --sysroot="$root" \
            -O3 -std=gnu11 -fPIC -shared -Wall -Wextra -Werror -I"$root/usr/include/python$version" -Isrc/roamlet/core/c \
            "src/roamlet/$package/c/module.c" \
            -o "$root/roamlet/src/roamlet/$package/_native.cpython-$(echo "$version" | tr -d .)-aarch64-linux-gnu.so" || exit 1
    done
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

if [ -z "${ROAMLET_AARCH64_INSIDE:-}" ]; then
    prepare
    export ROAMLET_AARCH64_BACKENDS="$backends"
    # All mounts and processes end with this script, however it ends.
    if unshare --user --map-root-user --mount sh -c 'mount -t binfmt_misc none /proc/sys/fs/binfmt_misc' 2>/dev/null; then
        ROAMLET_AARCH64_INSIDE=own exec unshare --user --map-root-user --mount --pid --fork --kill-child "$0" "$@"
    elif [ "$(id -u)" = 0 ]; then
        ROAMLET_AARCH64_INSIDE=shared exec unshare --mount --pid --fork --kill-child "$0" "$@"
    fi
    echo 'On this kernel an emulated system takes root: sudo make try-aarch64' >&2
    exit 1
fi

mount --make-rprivate /
mount -t proc proc "$root/proc"
mount --rbind /dev "$root/dev"
mount -t tmpfs tmpfs "$root/tmp"
register_emulator
status=0
report=
for backend in $backends; do
    if [ "$backend" = greenlet ] && ! [ -e "$root/packages/greenlet" ]; then
        report="$report
greenlet: not run, there is no wheel of greenlet for this"
        continue
    fi
    # Emulated, everything takes ten times as long, and longer on a busy machine.
    env -i PATH=/usr/sbin:/usr/bin:/sbin:/bin HOME=/root LANG=C.UTF-8 PYTHONPATH=/roamlet/src:/packages \
        PYTHONDONTWRITEBYTECODE=1 ROAMLET_SWITCH="$backend" chroot "$root" sh -c 'cd /roamlet && exec python3 -m pytest --color=no \
        -q -p no:cacheprovider -o timeout=600 -o faulthandler_timeout=900 tests/core "$@"' sh "$@" \
        >"$cache/$backend.log" 2>&1 || status=1
    cat "$cache/$backend.log"
    report="$report
$backend: $(tail -n 1 "$cache/$backend.log" | tr -d '=')"
done
echo "== tests/core on aarch64$report"
exit $status
