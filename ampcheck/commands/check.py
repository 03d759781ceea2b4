"""`ampcheck check`: lint."""

from __future__ import annotations

from argparse import Namespace

from ampcheck.commands.linting import conclude, lint

__all__ = ["run"]


def run(options: Namespace) -> int:
    """Lint."""
    return conclude(lint(options), options)
