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
# shellcheck source=tools/aarch64_system.sh
. tools/aarch64_system.sh
backends=${ROAMLET_AARCH64_BACKENDS:-native greenlet}
case ${1:-} in
    native | greenlet)
        backends=$1
        shift
        ;;
esac

prepare() {
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

if [ -z "${ROAMLET_AARCH64_INSIDE:-}" ]; then
    prepare
    export ROAMLET_AARCH64_BACKENDS="$backends"
    enter_system "$@"
fi

mount_aarch64
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
