"""The rules that have found something, as SARIF's reporting descriptors."""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterable
from typing import Any

from ampcheck import pages, registry
from ampcheck.finding import Finding
from ampcheck.report.links import rule_url
from ampcheck.rule import Rule

__all__ = ["descriptors"]

PROBLEM = {"error": "error", "warning": "warning", "note": "recommendation"}
"""GitHub's names for severities of problems that are not about security."""


def descriptors(findings: Iterable[Finding]) -> list[dict[str, Any]]:
    """One descriptor a rule, by code; of a rule that is not loaded, its code and name."""
    names = {finding.code: finding.name for finding in findings}
    known = {rule.code: rule for rule in registry.load()}
    return [
        _descriptor(known[code]) if code in known else {"id": code, "name": name}
        for code, name in sorted(names.items())
    ]


def _descriptor(rule: Rule) -> dict[str, Any]:
    page = pages.page(rule)
    short = f"{pages.summary(rule)}."
    found: dict[str, Any] = {
        "id": rule.code,
        "name": rule.name,
        "shortDescription": {"text": short},
        "fullDescription": {"text": _section(rule, "What it does") or short},
        "help": {"text": page, "markdown": page},
        "defaultConfiguration": {"enabled": not rule.opt_in, "level": rule.severity},
        "properties": {"tags": ["pytorch", "training"], "problem.severity": PROBLEM[rule.severity]},
    }
    if url := rule_url(rule.code):
        found["helpUri"] = url
    return found


def _section(rule: Rule, heading: str) -> str:
    """The text below a heading of the rule's docstring, as one paragraph."""
    text = inspect.cleandoc(rule.__doc__ or "")
    found = re.search(rf"^## {heading}\n(.*?)(?=^## |\Z)", text, re.MULTILINE | re.DOTALL)
    return " ".join(found[1].split()) if found else ""
