#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Takes fitted profiles over into the shipped ones: adopt.py SOFTWARE.json FITTED.json ...

Of each profile, the fitted numbers (to three digits), the spread, and in "fitted" the rows and mean errors (%) that they come from and
the values that the fit started from. Of a file NAME-mixtures.json the same but the spread, in "mixtures". The text of the file stays as
it is elsewhere.
"""
import json
import pathlib
import re
import sys


def block_of(text, name):
    """Begin and end of the object whose "name" it is."""
    begin = text.index('{"name": "%s"' % name)
    depth = 0
    for end in range(begin, len(text)):
        depth += {"{": 1, "}": -1}.get(text[end], 0)
        if depth == 0:
            return begin, end
    raise ValueError(name)


def rounded(value):
    return float(f"{value:.3g}")


def without(block, member):
    """The text of an object without a member that is an object."""
    found = re.search(r',\s*"%s": (?=\{)' % member, block)
    if not found:
        return block
    depth = 0
    for end in range(found.end(), len(block)):
        depth += {"{": 1, "}": -1}.get(block[end], 0)
        if depth == 0:
            return block[:found.start()] + block[end + 1:]
    raise ValueError(member)


def adopt(text, fitted, member):
    record = fitted["fitted"]
    begin, end = block_of(text, fitted["name"])
    block = without(text[begin:end], member)
    others = [without(block, other) for other in ("fitted", "mixtures")]
    records = "".join(block[len(other):] for other in others if other != block and block.startswith(other))
    block = block[:len(block) - len(records)]
    values = {key: rounded(number["after"]) for key, number in record["numbers"].items()}
    if member == "fitted":
        values["spread"] = rounded(fitted["spread"])
    for key, value in values.items():
        given = f'"{key}": {json.dumps(value)}'
        block, found = re.subn(r'"%s": [-0-9.e+]+' % key, given, block)
        if not found:
            block += f", {given}"
    fit, kept = record["fitted"]["after"], record["kept_back"]["after"]
    found = {"rows": fit["rows"], "mean": round(100 * fit["mean"], 1), "rows_kept_back": kept["rows"],
             "mean_kept_back": round(100 * kept["mean"], 1), "seed": record["seed"],
             "start": {key: rounded(number["before"]) for key, number in record["numbers"].items()}}
    if member == "fitted":
        found["generations"] = record["generations"]
    return text[:begin] + block + records + f',\n     "{member}": {json.dumps(found)}' + text[end:]


def main():
    path = pathlib.Path(sys.argv[1])
    text = path.read_text(encoding="utf-8")
    for file in sys.argv[2:]:
        member = "mixtures" if pathlib.Path(file).stem.endswith("-mixtures") else "fitted"
        text = adopt(text, json.loads(pathlib.Path(file).read_text(encoding="utf-8")), member)
    json.loads(text)
    path.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
