"""`ampcheck rules`: all of them, one a line or as JSON."""

from __future__ import annotations

import json
import sys
from argparse import Namespace
from collections.abc import Sequence

from ampcheck import pages, registry
from ampcheck.commands.exits import CLEAN
from ampcheck.report.line import show
from ampcheck.rule import Rule

__all__ = ["run"]


def run(options: Namespace) -> int:
    """Print them, in the order of their codes."""
    known = registry.load()
    if options.format == "json":
        print(json.dumps(_described(known), indent=2))
        return CLEAN
    width = max((len(rule.name) for rule in known), default=0)
    show(
        (
            (
                (f"{rule.code}  ", "code"),
                (f"{rule.name:<{width}}  ", ""),
                (f"{rule.severity:<7}  ", rule.severity),
                (pages.summary(rule), "dim"),
            )
            for rule in known
        ),
        sys.stdout,
    )
    return CLEAN


def _described(rules: Sequence[Rule]) -> list[dict[str, object]]:
    """What `docs/index.md` promises of each rule."""
    from ampcheck.fixes import FIXABLE
    from ampcheck.report.links import rule_url

    return [
        {
            "code": rule.code,
            "name": rule.name,
            "severity": rule.severity,
            "summary": pages.summary(rule),
            "default": not rule.opt_in,
            "fixable": rule.code in FIXABLE,
            "oracle": list(rule.oracle),
            "hint": rule.hint,
            "url": rule_url(rule.code) or None,
        }
        for rule in rules
    ]
