#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Builds what is committed in a bare Debian or Ubuntu, as a newcomer would: try_source.sh SUITE ROOT [VERB ...]
# SUITE is bookworm, trixie, jammy, noble or resolute; VERBs are those of ./dev, by default demo and test. ROOT is made by debootstrap where it
# does not exist, and kept for the next time with what was built. Needs root and the network.
set -euo pipefail

(($# >= 2)) || { printf 'usage: try_source.sh SUITE ROOT [VERB ...]\n' >&2; exit 2; }
suite="$1" root="$2"
verbs=("${@:3}")
((${#verbs[@]} > 0)) || verbs=(demo test)

case "$suite" in
  bookworm | trixie) mirror=http://deb.debian.org/debian components=main script=sid ;;
  jammy | noble | resolute) mirror=http://archive.ubuntu.com/ubuntu components='main universe' script=gutsy ;;
  *) printf "try_source.sh: '%s' is no suite that is known here: bookworm, trixie, jammy, noble, resolute\n" "$suite" >&2; exit 2 ;;
esac

# Whatever is mounted in ROOT goes with the script, however that ends.
if [[ "${TRY_SOURCE_ALONE:-}" != yes ]]; then
  TRY_SOURCE_ALONE=yes exec unshare --mount --propagation private "${BASH_SOURCE[0]}" "$@"
fi

here="$(cd -- "$(dirname -- "${BASH_SOURCE[0]}")/.." && pwd)"
# shellcheck source=packaging/bare_system.sh
source "$here/packaging/bare_system.sh"

# An older debootstrap knows no newer suite by its name: the script says how those of a distribution are made.
if [[ ! -x "$root/usr/bin/apt-get" ]]; then debootstrap --variant=minbase "$suite" "$root" "$mirror" "/usr/share/debootstrap/scripts/$script"; fi
{
  printf 'deb %s %s %s\n' "$mirror" "$suite" "$components"
  printf 'deb %s %s-updates %s\n' "$mirror" "$suite" "$components"
} >"$root/etc/apt/sources.list"
lend_network
mountpoint -q "$root/proc" || mount -t proc proc "$root/proc"
mountpoint -q "$root/sys" || mount -t sysfs sys "$root/sys"
mount --rbind /dev "$root/dev"

# A clone that is already there is brought to the same commit, so that only what has changed since is built anew.
there="$root/root/meshwright"
[[ -d "$there/.git" ]] || git clone -q "$here" "$there"
git -C "$there" fetch -q "$here" HEAD
git -C "$there" checkout -q --force --detach FETCH_HEAD

for verb in "${verbs[@]}"; do
  inside bash -c 'cd /root/meshwright && ./dev "$1"' dev "$verb"
done
printf 'try_source.sh: ./dev %s: done in a bare %s\n' "${verbs[*]}" "$suite"
