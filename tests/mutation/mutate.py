#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes every mutant of some C++ sources into them, each behind its number (tests/mutation/mutant.h).

A mutant is one small fault: a comparison whose boundary moved or that is turned around, a term dropped or with the other sign, one side of
a condition taken as given, the greater for the smaller, a statement left out. The sources are parsed by libclang, so that operators of
strong types count and text in comments does not. Lines stay where they are.
"""
import itertools
import json
import os
import pathlib
import re
import shlex

from clang import cindex
from clang.cindex import CursorKind

ARITHMETIC = {"+": "plus", "-": "minus", "*": "times", "/": "over"}
COMPARISONS = {"<": "less", "<=": "less_equal", ">": "greater", ">=": "greater_equal"}
EQUALITIES = {"==": "equal", "!=": "unequal"}


class Source:
    """One file, the edits it gets, and the mutants that they hold."""

    def __init__(self, path, text):
        self.path, self.text = path, text
        self.edits = []  # (offset, order among edits of one offset, length replaced, text, site)
        self.sites = []  # dict(line, kinds, text)

    def line_of(self, offset):
        return self.text.count(b"\n", 0, offset) + 1

    def site(self, start, end, kinds):
        shown = " ".join(self.text[start:end].decode(errors="replace").split())
        self.sites.append({"file": self.path, "line": self.line_of(start), "end_line": self.line_of(end), "kinds": kinds, "text": shown[:120]})
        return len(self.sites) - 1

    def mutated(self, left_out, first_number):
        """The text with all sites but those left out; numbers every mutant from first_number on. Returns text, mutants."""
        numbers, mutants, number = {}, [], first_number
        for index, site in enumerate(self.sites):
            if index in left_out:
                continue
            numbers[index] = number
            for kind in site["kinds"]:
                mutants.append({"number": number, "file": site["file"], "line": site["line"], "kind": kind, "text": site["text"], "site": index})
                number += 1
        out, at = [], 0
        for offset, order, length, text, index in sorted(self.edits, key=lambda e: (e[0], e[1])):
            if index not in numbers:
                continue
            out.append(self.text[at:offset])
            out.append(text.replace("#", str(numbers[index])).encode())
            at = offset + length
        out.append(self.text[at:])
        body = b"".join(out)
        if mutants:
            body = b'#include "tests/mutation/mutant.h"\n#line 1\n' + body
        return body, mutants


def own_children(cursor):
    return [child for child in cursor.get_children()]


class Walk:
    def __init__(self, source):
        self.source = source
        self.path = source.path

    def extent(self, cursor):
        start, end = cursor.extent.start, cursor.extent.end
        if start.file is None or end.file is None or start.file.name != self.file_name or end.file.name != self.file_name:
            return None
        return start.offset, end.offset

    def starts_with_constexpr(self, cursor):
        extent = self.extent(cursor)
        return extent is not None and re.match(rb"(static |inline )*constexpr\b", self.source.text[extent[0]:extent[1]]) is not None

    def run(self, cursors, file_name):
        self.file_name = file_name
        for cursor in cursors:
            self.visit(cursor, False, 0)

    # A token between the two sides that is the operator alone; its offset, or None (a macro, a comment).
    def operator(self, left_end, right_start):
        between = self.source.text[left_end:right_start]
        match = re.fullmatch(rb"[\s)]*(<=|>=|==|!=|&&|\|\||\+=|-=|[-+*/<>])[\s(]*", between)
        return None if match is None else (match.group(1).decode(), left_end + match.start(1))

    def replace_binary(self, start, op_offset, op, end, depth, name, kinds):
        site = self.source.site(start, end, kinds)
        self.source.edits.append((start, depth, 0, f"mw_mutant::{name}(#, ", site))
        self.source.edits.append((op_offset, 0, len(op), ", ", site))
        self.source.edits.append((end, -depth, 0, ")", site))

    def binary(self, cursor, children, depth):
        extents = [self.extent(cursor), self.extent(children[0]), self.extent(children[-1])]
        if None in extents:
            return
        (start, end), (left_start, left_end), (right_start, right_end) = extents
        if left_start != start or right_end != end or not left_end <= right_start:
            return
        text = self.source.text
        found = self.operator(left_end, right_start)
        if found is None:
            return
        op, offset = found
        # Parentheses around a side lie outside of its cursor only where libclang skips them.
        if text[left_end:offset].strip() or text[offset + len(op):right_start].strip():
            return
        spelled = (children[0].type.spelling, children[-1].type.spelling)
        if any("ordering" in each for each in spelled):
            return
        if op in COMPARISONS:
            self.replace_binary(start, offset, op, end, depth, COMPARISONS[op], ["boundary", "negated"])
        elif op in EQUALITIES:
            self.replace_binary(start, offset, op, end, depth, EQUALITIES[op], ["negated"])
        elif op in ARITHMETIC and not any("string" in each or "char" in each or "path" in each for each in spelled):
            self.replace_binary(start, offset, op, end, depth, ARITHMETIC[op], ["other operation", "dropped term"])
        elif op in ("&&", "||"):
            kind = "side of a condition"
            for side_start, side_end in ((left_start, left_end), (right_start, right_end)):
                site = self.source.site(side_start, side_end, [kind])
                before = "(mw_mutant::on(#) || (" if op == "&&" else "(!mw_mutant::on(#) && ("
                self.source.edits.append((side_start, depth + 0.5, 0, before, site))
                self.source.edits.append((side_end, -depth - 0.5, 0, "))", site))

    def statement(self, cursor):
        """A call or an assignment that stands alone: left out."""
        extent = self.extent(cursor)
        if extent is None:
            return
        text = self.source.text
        start, end = extent
        if not re.match(rb"\s*;", text[end:end + 8]) or b"#" in text[start:end]:
            return
        site = self.source.site(start, end, ["statement left out"])
        self.source.edits.append((start, -1, 0, "if (!mw_mutant::on(#)) ", site))

    def visit(self, cursor, constant, depth):
        kind = cursor.kind
        if kind in (CursorKind.STATIC_ASSERT, CursorKind.ENUM_DECL, CursorKind.CASE_STMT) and kind != CursorKind.CASE_STMT:
            return
        # What the compiler computes has no environment that could choose a fault.
        if kind == CursorKind.VAR_DECL and self.starts_with_constexpr(cursor):
            return
        children = own_children(cursor)
        if kind == CursorKind.CASE_STMT:
            for child in children[1:]:
                self.visit(child, constant, depth + 1)
            return
        if kind == CursorKind.COMPOUND_STMT:
            for child in children:
                if child.kind == CursorKind.CALL_EXPR and child.type.spelling == "void":
                    self.statement(child)
                elif child.kind == CursorKind.COMPOUND_ASSIGNMENT_OPERATOR:
                    self.statement(child)
                elif child.kind == CursorKind.CALL_EXPR and child.spelling in ("operator+=", "operator-=", "operator*="):
                    self.statement(child)
                elif child.kind == CursorKind.BINARY_OPERATOR:
                    sides = own_children(child)
                    if len(sides) == 2:
                        left, right = self.extent(sides[0]), self.extent(sides[1])
                        if left and right and self.source.text[left[1]:right[0]].strip() == b"=":
                            self.statement(child)
        if kind == CursorKind.BINARY_OPERATOR and len(children) == 2:
            self.binary(cursor, children, depth)
        elif kind == CursorKind.CALL_EXPR and cursor.spelling.startswith("operator") and len(children) == 3:
            self.binary(cursor, [children[0], children[2]], depth)
        elif kind == CursorKind.CALL_EXPR and cursor.spelling in ("min", "max") and len(children) == 3:
            extent = self.extent(cursor)
            name = f"std::{cursor.spelling}(".encode()
            if extent and self.source.text[extent[0]:extent[0] + len(name)] == name:
                site = self.source.site(extent[0], extent[1], ["the other of two"])
                self.source.edits.append((extent[0], depth, len(name), f"mw_mutant::{cursor.spelling}(#, ", site))
        elif kind == CursorKind.IF_STMT and children:
            condition = children[0]
            extent = self.extent(condition)
            if extent and condition.kind in (CursorKind.CALL_EXPR, CursorKind.UNARY_OPERATOR, CursorKind.UNEXPOSED_EXPR, CursorKind.DECL_REF_EXPR,
                                             CursorKind.MEMBER_REF_EXPR) and self.source.text[:extent[0]].rstrip().endswith(b"("):
                found_operator = condition.kind == CursorKind.CALL_EXPR and condition.spelling.startswith("operator") and condition.spelling not in (
                    "operator bool", "operator()", "operator[]")
                inner = own_children(condition)
                is_binary = condition.kind == CursorKind.UNEXPOSED_EXPR and inner and inner[0].kind == CursorKind.BINARY_OPERATOR
                if not found_operator and not is_binary:
                    site = self.source.site(extent[0], extent[1], ["negated"])
                    self.source.edits.append((extent[0], depth + 0.2, 0, "mw_mutant::negated(#, ", site))
                    self.source.edits.append((extent[1], -depth - 0.2, 0, ")", site))
        for child in children:
            self.visit(child, constant, depth + 1)


def parse_arguments(tree, compile_commands):
    """The flags of some product file, for libclang."""
    entry = next(e for e in compile_commands if e["file"].endswith(".cxx") and "mw_simulator" in e["command"])
    flags, skip = [], False
    for word in shlex.split(entry["command"])[1:]:
        if skip:
            skip = False
        elif word in ("-o", "-c", "-include", "-x"):
            skip = True
        elif word.startswith(("-I", "-D", "-std", "-isystem")):
            flags.append(word)
    return flags


# All sources of a folder are parsed as one, as the build compiles them: their headers are read once.
def find_sites(tree, files):
    commands = json.loads((tree / "build/release/compile_commands.json").read_text())
    flags = parse_arguments(tree, commands) + ["-resource-dir", resource_folder()]
    index = cindex.Index.create()
    for folder, of_folder in itertools.groupby(sorted(files, key=os.path.dirname), key=os.path.dirname):
        of_folder = list(of_folder)
        together = str(tree / folder / "all_of_the_folder.cpp")
        text = "".join(f'#include "{tree / name}"\n' for name in of_folder)
        unit = index.parse(together, args=flags, unsaved_files=[(together, text)])
        broken = [d.spelling for d in unit.diagnostics if d.severity >= 3]
        cursors = {}
        for cursor in unit.cursor.get_children():
            if cursor.location.file is not None:
                cursors.setdefault(cursor.location.file.name, []).append(cursor)
        for name in of_folder:
            path = tree / name
            source = Source(name, path.read_bytes())
            Walk(source).run(cursors.get(str(path), []), str(path))
            yield source, broken


def resource_folder():
    for folder in sorted(pathlib.Path("/usr/lib").glob("llvm-*/lib/clang/*"), reverse=True):
        if (folder / "include/stddef.h").exists():
            return str(folder)
    raise SystemExit("mutate: no folder of clang's own headers under /usr/lib/llvm-*; install clang")
