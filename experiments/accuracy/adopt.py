#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Takes fitted profiles over into the shipped ones: adopt.py SOFTWARE.json FITTED.json ...

Of each profile, the fitted numbers (to three digits), the spread, and in "fitted" the rows and mean errors (%) that they come from.
The text of the file stays as it is elsewhere.
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


def adopt(text, fitted):
    record = fitted["fitted"]
    begin, end = block_of(text, fitted["name"])
    block = re.sub(r',\s*"fitted": \{[^}]*\}', "", text[begin:end])
    values = {key: rounded(number["after"]) for key, number in record["numbers"].items()}
    values["spread"] = rounded(fitted["spread"])
    for key, value in values.items():
        member = f'"{key}": {json.dumps(value)}'
        block, found = re.subn(r'"%s": [-0-9.e+]+' % key, member, block)
        if not found:
            block += f", {member}"
    kept = record["kept_back"]["after"]
    fit = record["fitted"]["after"]
    block += (f',\n     "fitted": {{"rows": {fit["rows"]}, "mean": {100 * fit["mean"]:.1f}, "rows_kept_back": {kept["rows"]}, '
              f'"mean_kept_back": {100 * kept["mean"]:.1f}, "seed": {record["seed"]}, '
              f'"generations": {json.dumps(record["generations"])}}}')
    return text[:begin] + block + text[end:]


def main():
    path = pathlib.Path(sys.argv[1])
    text = path.read_text(encoding="utf-8")
    for file in sys.argv[2:]:
        text = adopt(text, json.loads(pathlib.Path(file).read_text(encoding="utf-8")))
    json.loads(text)
    path.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
