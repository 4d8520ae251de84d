#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Installs the Debian package in a bare Debian 12 and runs the command there: try_deb.sh PACKAGE.deb ROOT
# ROOT is made by debootstrap where it does not exist, and kept for the next time. Needs root and the network.
set -euo pipefail

(($# == 2)) || { printf 'usage: try_deb.sh PACKAGE.deb ROOT\n' >&2; exit 2; }
package="$1" root="$2"

# debootstrap mounts /proc in ROOT. In a mount namespace of its own whatever is mounted goes with the script, however that ends; where none can be
# had, the trap takes it away.
if [[ "${TRY_DEB_ALONE:-}" != yes ]] && unshare --mount true 2>/dev/null; then
  TRY_DEB_ALONE=yes exec unshare --mount --propagation private "${BASH_SOURCE[0]}" "$@"
fi
unmount() {
  if mountpoint -q "$root/proc"; then umount "$root/proc"; fi
}
trap unmount EXIT
trap 'exit 130' INT
trap 'exit 143' TERM

# shellcheck source=packaging/bare_system.sh
source "$(dirname -- "${BASH_SOURCE[0]}")/bare_system.sh"

if [[ ! -x "$root/usr/bin/apt-get" ]]; then
  debootstrap --variant=minbase bookworm "$root"
fi
lend_network
cp "$package" "$root/root/meshwright.deb"
inside apt-get -q -y purge meshwright >/dev/null 2>&1 || true
inside apt-get -q update
inside apt-get -q -y install --no-install-recommends /root/meshwright.deb

# Everything that needs no network and no file: the version, a search with a plan, its prediction, its run.
inside bash -euc '
  cd /tmp
  meshwright --version
  meshwright plan --model mlp:layers=2,hidden=64 --cluster cpu:2 --batch 64 --layers 2 --micro-batches 2 -o plan.json
  meshwright simulate plan.json
  meshwright run plan.json --steps 2 --check
  for file in /usr/share/man/man1/meshwright-plan.1.gz /usr/share/bash-completion/completions/meshwright \
              /usr/share/zsh/vendor-completions/_meshwright /usr/share/fish/vendor_completions.d/meshwright.fish; do
    # minbase leaves documentation out where its dpkg is told so.
    [ -s "$file" ] || dpkg -L meshwright | grep -qxF "$file"
  done
'
inside apt-get -q -y purge meshwright >/dev/null
[[ ! -e "$root/usr/bin/meshwright" ]] || { printf 'try_deb.sh: the package leaves its command behind\n' >&2; exit 1; }
printf 'try_deb.sh: installs, plans, simulates, runs and goes away in a bare Debian\n'
