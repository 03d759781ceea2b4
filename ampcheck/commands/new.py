"""`ampcheck new`: the files of a new rule."""

from __future__ import annotations

from argparse import Namespace

from ampcheck import scaffold
from ampcheck.commands.exits import CLEAN, refuse

__all__ = ["run"]


def run(options: Namespace) -> int:
    """Make the rule and its fixtures, and say what comes next."""
    try:
        made = scaffold.new(options.name, code=options.code, series=options.series, severity=options.severity)
    except scaffold.ScaffoldError as error:
        return refuse(str(error))
    for path in made:
        print(f"made {path}")
    print("next: its fixtures, then the rule, then `python -m ampcheck.pages` (docs/adding-a-rule.md)")
    return CLEAN
