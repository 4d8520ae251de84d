#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The profile that a fit starts from, as a file of one profile on standard output: start.py SOFTWARE.json NAME fitted|mixtures

It is the shipped one with the values that its fit started from, so that fitting it again finds the shipped numbers.
"""
import json
import pathlib
import sys


def main():
    path, name, member = sys.argv[1:]
    profiles = json.loads(pathlib.Path(path).read_text(encoding="utf-8"))["profiles"]
    shipped = next(profile for profile in profiles if profile["name"] == name)
    start = shipped.get(member, {}).get("start", {})
    json.dump({"format": "meshwright-software-profile 1", "name": name, "like": name, "about": shipped["about"], **start}, sys.stdout)


if __name__ == "__main__":
    main()
