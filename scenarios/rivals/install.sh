#!/bin/sh
# Installs every rival from Debian's packages: sh scenarios/rivals/install.sh, as root, without questions.
# Recommended packages are left out. Nothing is configured and nothing stays running: the package of UFTP brings a
# daemon, which is stopped and not started at boot, unless it was there before.
set -eu

packages="openmpi-bin libopenmpi-dev mpich libmpich-dev gcc libc6-dev python3-libtorrent udpcast uftp"

if [ "$(id -u)" -ne 0 ]; then
    echo "install.sh: needs root, for apt-get; as root it would install: $packages" >&2
    exit 2
fi
if ! command -v apt-get >/dev/null; then
    echo "install.sh: no apt-get here; the rivals are Debian's packages: $packages" >&2
    exit 2
fi
uftp_was_there=no
if dpkg -s uftp >/dev/null 2>&1; then
    uftp_was_there=yes
fi

export DEBIAN_FRONTEND=noninteractive
echo "install.sh: apt-get update"
apt-get -q update
echo "install.sh: apt-get install $packages"
# shellcheck disable=SC2086
apt-get -q install -y --no-install-recommends $packages

if [ "$uftp_was_there" = no ]; then
    echo "install.sh: the daemon of UFTP is stopped, and not started at boot"
    update-rc.d uftp disable || true
    invoke-rc.d uftp stop || true
fi

echo "install.sh: installed"
# shellcheck disable=SC2086
dpkg-query -W -f '  ${Package} ${Version}\n' $packages
