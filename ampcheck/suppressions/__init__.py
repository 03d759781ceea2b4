"""Comments that silence findings where they stand: read, applied, and written by `--add-ignores`."""

from __future__ import annotations

from ampcheck.suppressions.applying import UNUSED, Suppressions, suppressions_of

__all__ = ["UNUSED", "Suppressions", "suppressions_of"]
