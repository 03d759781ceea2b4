"""`ampcheck check`: lint, and fix what is asked for."""

from __future__ import annotations

from argparse import Namespace

from ampcheck.commands.exits import CannotDoError
from ampcheck.commands.linting import conclude, lint

__all__ = ["run"]


def run(options: Namespace) -> int:
    """Lint."""
    if options.unsafe_fixes and not (options.fix or options.diff):
        raise CannotDoError("--unsafe-fixes says which fixes are applied: add --fix or --diff")
    if options.fix or options.diff or options.show_fixes:
        from ampcheck.commands import fixing

        return fixing.run(options)
    return conclude(lint(options), options)
