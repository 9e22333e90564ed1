# Systems of Debian releases in build/pythons, each with Pythons of that release, headers, venv and a compiler, for the scripts that
# source this after tools/chroot.sh. They stay for the next time, and are not mounted anywhere once the script has ended.
systems=$PWD/build/pythons

# The system of release `$1` with its python`$2`, whose folder becomes $root; fails when the release has none. It is mounted then.
make_debian() {
    root=$systems/$1
    mkdir -p "$systems"
    if ! [ -e "$root/.complete" ]; then
        echo "== debootstrap $1"
        rm -rf --one-file-system "$root"
        mkdir -p "$root"
        # By sid's recipe, which serves for all of late: debootstrap may be older than the release. The signature is checked.
        debootstrap --variant=minbase --include=ca-certificates,gcc,g++,libc6-dev,make,git,procps,openssh-client "$1" "$root" \
            "$(mirror_of "$1")" /usr/share/debootstrap/scripts/sid >"$systems/debootstrap-$1.log" 2>&1 ||
            { tail -n 20 "$systems/debootstrap-$1.log"; return 1; }
        copy_settings "$root"
        touch "$root/.complete"
    fi
    mount_system "$root"
    if ! [ -e "$root/.python$2" ]; then
        # A mirror of a release that still changes may be some days old.
        inside "$root" root "dpkg --configure -a && apt-get -o Acquire::Check-Valid-Until=false update -qq &&
            DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends \
            python$2 python$2-dev python$2-venv" >"$systems/apt-$1-$2.log" ||
            { tail -n 20 "$systems/apt-$1-$2.log"; return 1; }
        touch "$root/.python$2"
    fi
}
