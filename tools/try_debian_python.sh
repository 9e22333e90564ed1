#!/bin/sh
# Does roamlet work on the Pythons of other Debian releases? Makes a system of the release with debootstrap, puts python3.X with
# headers and venv and a compiler into it, copies this work tree (not yet committed changes too) and runs tools/test_all.sh
# there, C asserts on. Needs root. The systems stay in build/pythons, for the next time, and are not mounted anywhere.
#
#   tools/try_debian_python.sh                    all of these: $PYTHONS below
#   tools/try_debian_python.sh forky 3.15         this release's python3.15
#   FOLDERS='tests/core' tools/try_debian_python.sh sid 3.14 -x      these folders; further words go to pytest
#
# The table at the end comes from build/pythons/results.txt, which keeps what was found for the others before.
set -eu
cd "$(dirname "$0")/.."
# shellcheck source=tools/chroot.sh
. tools/chroot.sh
# shellcheck source=tools/debian_systems.sh
. tools/debian_systems.sh
# The releases that have a version which bookworm, where roamlet is developed, has not.
PYTHONS='trixie:3.13 forky:3.14 forky:3.15'
# None: those of tools/test_all.sh.
FOLDERS=${FOLDERS:-}
results=$systems/results.txt

if [ $# = 1 ]; then
    echo 'name a release and a version: tools/try_debian_python.sh forky 3.14; or neither, for all that differ' >&2
    exit 2
fi
need_chroots 'Another Debian release' 'make try-pythons'
with_mounts_of_its_own "$@"

copy_tree() {
    mkdir -p "$root/root/roamlet"
    # What was removed here must not be tested there; what was built there need not be built again.
    find "$root/root/roamlet" -mindepth 1 -maxdepth 1 ! -name build -exec rm -rf {} +
    git ls-files --cached --others --exclude-standard | while IFS= read -r file; do if [ -e "$file" ]; then echo "$file"; fi; done |
        tar --create --files-from - | tar --extract --directory "$root/root/roamlet"
}

try() {
    suite=$1
    version=$2
    shift 2
    log=$systems/$suite-$version.log
    echo "== Debian $suite, Python $version"
    if make_debian "$suite" "$version"; then
        copy_tree
        inside "$root" root "cd roamlet && FOLDERS='$FOLDERS' PYTHON=python$version tools/test_all.sh $*" >"$log" || status=1
        grep -E '^(FAILED|ERROR)' "$log" || true
        exact=$(inside "$root" root "python$version -c 'import platform; print(platform.python_version())'")
        found=$(sed -n '/^== make test-all/,$p' "$log" | grep '^Python' | sed "s/^Python $version/$suite, Python $exact/")
    else
        status=1
        found="$suite, Python $version: cannot be had there"
    fi
    if mountpoint -q "$root/proc"; then unmount_system "$root"; fi
    touch "$results"
    { grep -v "^$suite, Python $version[.:]" "$results" || true; echo "$found"; } | sort >"$results.new"
    mv "$results.new" "$results"
}

status=0
mkdir -p "$systems"
if [ $# = 0 ]; then
    for python in $PYTHONS; do try "${python%:*}" "${python#*:}"; done
else
    try "$@"
fi
echo '== make try-pythons'
cat "$results"
exit $status
