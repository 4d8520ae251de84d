#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Holds every #include of the product against the law written in ARCHITECTURE.md.

Three tables are read from there: which layer may include which, the order of the rooms inside a folder, and which files may include
a header from outside the project. Also, no two classes of one namespace may share a name. Prints "file:line: what is wrong" for each violation;
exit code 1 if there is one.
"""
import fnmatch
import pathlib
import re
import sys

LAW, OUTSIDE = "## The law of dependencies", "## Headers from outside"
ORDER_MARK = "◂"
SOURCES = {".h", ".cpp", ".cu", ".cuh"}
NAMESPACE = re.compile(r"namespace ([a-z_:]+) \{$")
CLASS = re.compile(r"(?:template <.*> )?(?:class|struct) (\w+)(?: final)?(?: : .*)? \{")
INCLUDE = re.compile(r'^\s*#\s*include\s*([<"])([^>"]+)[>"]')


def indented_lines(text, heading):
    """The indented (preformatted) lines between `heading` and the next heading."""
    found, here = [], False
    for line in text.splitlines():
        if line.startswith("#"):
            here = line.strip() == heading
        elif here and line.startswith("    "):
            found.append(line.strip())
    if not found:
        sys.exit(f"ARCHITECTURE.md: no table under '{heading}'; write one row 'name: what it may include' per line.")
    return found


def read_law(root):
    """Which layer may include which; by folder, the rooms in it from the bottom to the top; who may include what from outside."""
    text = (root / "ARCHITECTURE.md").read_text(encoding="utf-8")
    allowed, orders, outside = {}, {}, {}
    for line in indented_lines(text, LAW):
        names, targets = line.split(":")
        if ORDER_MARK in line:
            orders[names.strip()] = [room.split() for room in targets.split(ORDER_MARK)]
            continue
        for layer in names.split(","):
            allowed[layer.strip()] = targets.split()
    for line in indented_lines(text, OUTSIDE):
        headers, files = line.split(":")
        for header in headers.split():
            outside[header] = files.split()
    if "core" not in orders:
        sys.exit(f"ARCHITECTURE.md: the order inside core is missing; write 'core: base {ORDER_MARK} ...'.")
    return allowed, orders, outside


def level_in(folder, path, order):
    """The level of a path's room: a sub-folder, a file named in the order without its ending, or '.', all other files."""
    room = path[len(folder) + 1:].split("/")[0]
    if "/" not in path[len(folder) + 1:]:
        room = room.rsplit(".", 1)[0]
        if not any(room in level for level in order):
            room = "."
    return room, next((number for number, level in enumerate(order) if room in level), None)


def rooms_kept(file, target, orders):
    """Why a file may not include `target` of the same layer, or None. Rooms of one level may include each other."""
    for folder, order in orders.items():
        if not (file.startswith(folder + "/") and target.startswith(folder + "/")):
            continue
        (own, low), (other, high) = level_in(folder, file, order), level_in(folder, target, order)
        for room, level in ((own, low), (other, high)):
            if level is None:
                return f"{folder}/{room} is not in the order of ARCHITECTURE.md"
        if high > low:
            return f"{folder}/{own} may not include {folder}/{other}"
    return None


def project_include(file, target, allowed, orders):
    layer, other = file.split("/")[0], target.split("/")[0]
    if "/" not in target or other not in allowed:
        return f'"{target}" is not a path from the root of the repository'
    if layer == other:
        return rooms_kept(file, target, orders)
    return None if other in allowed[layer] else f"{layer} may not include {other}"


def outside_include(file, header, outside):
    """A row ending in '/' stands for a folder of headers or of files; other rows are file patterns."""
    rows = [row for row in outside if header == row or (row.endswith("/") and header.startswith(row))]
    if not rows:
        plain = "." not in header and "/" not in header  # <vector>: the standard library
        return None if plain else f"<{header}> is in no row of ARCHITECTURE.md, '{OUTSIDE[3:]}'"
    for pattern in (pattern for row in rows for pattern in outside[row]):
        if fnmatch.fnmatchcase(file, pattern + "*" if pattern.endswith("/") else pattern):
            return None
    return f"{file.split('/')[0]} may not include <{header}> here"


def violations(root):
    allowed, orders, outside = read_law(root)
    checked = [layer for layer, targets in allowed.items() if targets != ["everything"]]
    files = sorted(path for layer in checked for path in (root / layer).rglob("*") if path.suffix in SOURCES)
    if not files:
        sys.exit(f"{root}: no source files in {', '.join(checked)}; give the root of the repository.")
    found = []
    for path in files:
        file = path.relative_to(root).as_posix()
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
            match = INCLUDE.match(line)
            if not match:
                continue
            quote, target = match.groups()
            why = project_include(file, target, allowed, orders) if quote == '"' else outside_include(file, target, outside)
            if why:
                found.append(f"{file}:{number}: {why}")
    return found, len(files)


def names_twice(root):
    """Two classes of one name in one namespace: a program that links both has the destructor of one of them."""
    allowed, _, _ = read_law(root)
    places, found = {}, []
    for path in sorted(path for layer in allowed for path in (root / layer).rglob("*.h")):
        file, namespace = path.relative_to(root).as_posix(), ""
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
            opened, defined = NAMESPACE.match(line), CLASS.match(line)
            if opened:
                namespace = opened.group(1)
            elif line.startswith("}  // namespace"):
                namespace = ""
            elif defined:
                name = f"{namespace}::{defined.group(1)}"
                other = places.setdefault(name, file)
                if other != file:
                    found.append(f"{file}:{number}: {name} is also in {other}")
    return found


def main():
    root = pathlib.Path(sys.argv[1] if len(sys.argv) > 1 else pathlib.Path(__file__).parent.parent).resolve()
    found, files = violations(root)
    found += names_twice(root)
    print("\n".join(found) if found else f"check_layers: {files} files keep the law of ARCHITECTURE.md")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
