# SPDX-License-Identifier: Apache-2.0
# What the scripts share that try something in a bare system in the folder $root; to be sourced.

inside() { env -i PATH=/usr/sbin:/usr/bin:/sbin:/bin HOME=/root LC_ALL=C.UTF-8 DEBIAN_FRONTEND=noninteractive chroot "$root" "$@"; }

# Whatever names the mirror here names it there: a proxy or a list of sources of one's own.
lend_network() {
  cp /etc/resolv.conf /etc/hosts "$root/etc/"
  if [[ -d /etc/apt/apt.conf.d ]]; then cp -r /etc/apt/apt.conf.d "$root/etc/apt/"; fi
}
