"""Comments that silence findings where they stand: read, applied, and written by `--add-ignores`."""

from __future__ import annotations

from ampcheck.suppressions.applying import NOT_TO_BE_KNOWN, UNUSED, Suppressions, suppressions_of

__all__ = ["NOT_TO_BE_KNOWN", "UNUSED", "Suppressions", "suppressions_of"]
