# SPDX-License-Identifier: Apache-2.0
"""The four kinds of errors, by who has to act. Each has the sentence that the command prints, and its exit code."""
from __future__ import annotations


class MeshwrightError(Exception):
    """What all four have in common."""

    exit_code = 0

    @property
    def sentence(self) -> str:
        return str(self)


class InputError(MeshwrightError, ValueError):
    """An argument or a file that was given is wrong: the place, what was expected, what to do."""

    exit_code = 2


class InternalError(MeshwrightError, RuntimeError):
    """A bug in meshwright; please report it."""

    exit_code = 3


class SystemError(MeshwrightError, OSError):  # named as the command's documentation names it
    """A file, memory, or a library failed."""

    exit_code = 4


class NoFeasiblePlan(MeshwrightError):
    """The input is right, but nothing fits; the sentence names the limit."""

    exit_code = 5


class MeshwrightWarning(UserWarning):
    """What the command would warn of on stderr."""


BY_EXIT_CODE: dict[int, type[MeshwrightError]] = {
    kind.exit_code: kind for kind in (InputError, InternalError, SystemError, NoFeasiblePlan)
}
