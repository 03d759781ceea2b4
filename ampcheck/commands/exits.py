"""Exit codes, and the one line that says why something was not done."""

from __future__ import annotations

import sys
from typing import Final

__all__ = ["CLEAN", "COULD_NOT", "FOUND", "refuse"]

CLEAN: Final = 0
FOUND: Final = 1
COULD_NOT: Final = 2


def refuse(message: str) -> int:
    """Say in one line on standard error what could not be done."""
    sys.stdout.flush()
    print(f"ampcheck: {message}", file=sys.stderr)
    return COULD_NOT
