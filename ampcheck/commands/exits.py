"""Exit codes, and the one line that says why something was not done."""

from __future__ import annotations

import sys
from typing import Final

__all__ = ["CLEAN", "COULD_NOT", "FOUND", "CannotDoError", "refuse"]

CLEAN: Final = 0
FOUND: Final = 1
COULD_NOT: Final = 2


class CannotDoError(Exception):
    """What was asked for cannot be done at all; the message says why and what to do, in one line."""


def refuse(message: str) -> int:
    """Say on standard error what could not be done: one line, or one for each mistake in a settings file."""
    sys.stdout.flush()
    for line in message.splitlines():
        print(f"ampcheck: {line}", file=sys.stderr)
    return COULD_NOT
