#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Gathers the copyright notices of whatever a wheel of this program carries: licences.sh PROGRAM FOLDER [FILE...]
# Debian's packages have them: of each library that PROGRAM loads, and of those of headers alone. Each FILE is a notice more, of what is
# not from Debian.
set -euo pipefail

(($# >= 2)) || { printf 'usage: licences.sh PROGRAM FOLDER [FILE...]\n' >&2; exit 2; }
program="$1" folder="$2"
shift 2
rm -rf -- "$folder"
mkdir -p -- "$folder"

packages=(nlohmann-json3-dev libcli11-dev libboost-dev)
while read -r library; do
  # A file may be named by its path before or after /lib became a link to /usr/lib.
  path="$(realpath -- "$library")"
  package="$(dpkg-query -S "$path" 2>/dev/null || dpkg-query -S "${path#/usr}")" || { printf 'licences.sh: no package owns %s\n' "$path" >&2; exit 1; }
  packages+=("${package%%:*}")
done < <(ldd "$program" | sed -n 's/.*=> \(\/[^ ]*\) .*/\1/p')

for package in "${packages[@]}"; do
  cp -L -- "/usr/share/doc/$package/copyright" "$folder/$package.txt"
done
for notice in "$@"; do
  cp -L -- "$notice" "$folder/$(basename -- "$(dirname -- "$(dirname -- "$notice")")" .dist-info).txt"
done
# The texts that those notices refer to.
cp -L -- /usr/share/common-licenses/{GPL-2,GPL-3,LGPL-2.1,LGPL-3,Apache-2.0} "$folder"
cat >"$folder/README.txt" <<'END'
Meshwright itself is under the Apache License, version 2.0.

A wheel that bundles libglpk, the GNU Linear Programming Kit, is as a whole under the GNU General Public License, version 3 or later
(file GPL-3), which the Apache License allows. The bundled libraries are those of Debian, unchanged but for the path where they look for
each other; their sources are Debian's source packages of the same names, https://sources.debian.org. The notice of each is in this
folder under the name of its package.
END
