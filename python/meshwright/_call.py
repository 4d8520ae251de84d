# SPDX-License-Identifier: Apache-2.0
"""From keyword arguments to the words of a command, and from its document to Python."""
from __future__ import annotations

import json
import os
import warnings
from collections.abc import Iterable, Mapping
from typing import Any, TypeAlias

from . import _core
from ._errors import BY_EXIT_CODE, MeshwrightWarning

StrPath: TypeAlias = "str | os.PathLike[str]"
Document: TypeAlias = "dict[str, Any]"  # what the command prints with --json


def text_of(value: object) -> str:
    """A value as it is typed behind an option: sequences are lists with commas."""
    if isinstance(value, os.PathLike):
        return str(os.fspath(value))
    if isinstance(value, Iterable) and not isinstance(value, (str, bytes, Mapping)):
        return ",".join(text_of(item) for item in value)
    return str(value)


# Options whose mapping is not NAME=VALUE, but two words.
_TWO_WORDS = {("run", "dump")}


def words_of(verb: str, options: Mapping[str, object]) -> list[str]:
    """`micro_batches=4` is `--micro-batches=4`; True is a flag; None and False are left out; a mapping is one NAME=VALUE each."""
    words: list[str] = []
    for key, value in options.items():
        name = "--" + key.rstrip("_").replace("_", "-")
        if value is None or value is False:
            continue
        if value is True:
            words.append(name)
        elif isinstance(value, Mapping) and (verb, key) in _TWO_WORDS:
            for of, item in value.items():
                words += [name, text_of(of), text_of(item)]
        elif isinstance(value, Mapping):
            words += [f"{name}={text_of(of)}={text_of(item)}" for of, item in value.items()]
        else:
            words.append(f"{name}={text_of(value)}")
    return words


def argument(path: StrPath) -> str:
    """A file as an argument: one that begins with a dash is no option."""
    text = text_of(path)
    return f"./{text}" if text.startswith("-") else text


def call_text(verb: str, *arguments: StrPath, **options: object) -> str:
    """What the command prints. Raises the error that it would print."""
    code, document, sentence, lines = _core.call([verb, *(argument(path) for path in arguments), *words_of(verb, options)])
    for line in lines:
        warnings.warn(line, MeshwrightWarning, stacklevel=4)
    if code == 6:
        raise KeyboardInterrupt(sentence)
    if code != 0:
        raise BY_EXIT_CODE[code](sentence)
    return document


def call(verb: str, *arguments: StrPath, **options: object) -> Document:
    """Any verb of the command, as its --json document: `call("diff", "predicted.json", "measured.json")`.

    Options are named as the command has them, with underscores: `call("profile", backend="cpu", db="p.db", quick=True)`.
    """
    document: Document = json.loads(call_text(verb, *arguments, **options, json=True))
    return document
