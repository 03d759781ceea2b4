"""One finding as a SARIF result, its witness as a code flow."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ampcheck.finding import Finding, Fix
from ampcheck.notebook import Cells
from ampcheck.report.as_json import replay_data
from ampcheck.report.message import message
from ampcheck.report.region import Region, cell_prefix
from ampcheck.report.sarif.places import artifact, location, region_data
from ampcheck.report.story import story

__all__ = ["FINGERPRINT", "result"]

FINGERPRINT = "ampcheck/v1"
"""What the fingerprint is called; the number rises when it is made in another way."""


def result(
    finding: Finding, notebooks: Mapping[str, Cells], rule_index: int, fingerprint: str
) -> dict[str, Any]:
    """The result object of a finding."""
    found: dict[str, Any] = {
        "ruleId": finding.code,
        "ruleIndex": rule_index,
        "level": finding.severity,
        "message": {"text": cell_prefix(finding.site, notebooks) + message(finding)},
        "locations": [location(finding.site, notebooks)],
        "partialFingerprints": {FINGERPRINT: fingerprint},
        "properties": _properties(finding),
    }
    if finding.witness is not None:
        found["codeFlows"] = [_code_flow(finding, notebooks)]
    if finding.fix is not None and not any(edit.site.path in notebooks for edit in finding.fix.edits):
        found["fixes"] = [_fix(finding.fix)]
    return found


def _fix(fix: Fix) -> dict[str, Any]:
    """The edits by file.  Those in a notebook have no form here: they are not edits of its JSON's characters."""
    changes: dict[str, list[dict[str, Any]]] = {}
    for edit in fix.edits:
        at = edit.site
        changes.setdefault(at.path, []).append(
            {
                "deletedRegion": region_data(Region(at.line, at.column, at.end_line, at.end_column)),
                "insertedContent": {"text": edit.text},
            }
        )
    about = {"safe": "proven by the replay", "unsafe": f"look at it: {fix.why}" if fix.why else "look at it"}
    return {
        "description": {"text": f"{fix.title} ({about[fix.applicability]})"},
        "artifactChanges": [
            {"artifactLocation": artifact(path), "replacements": replacements}
            for path, replacements in changes.items()
        ],
    }


def _code_flow(finding: Finding, notebooks: Mapping[str, Cells]) -> dict[str, Any]:
    """The witness's places in the order of the run, each with what the gradients carry there."""
    steps = [
        {
            "location": location(site, notebooks, text),
            "executionOrder": number,
            "importance": "essential" if site == finding.site else "important",
        }
        for number, (site, text) in enumerate(story(finding), start=1)
    ]
    return {"threadFlows": [{"locations": steps}]}


def _properties(finding: Finding) -> dict[str, Any]:
    properties: dict[str, Any] = {"verdict": finding.verdict}
    if finding.condition:
        properties["condition"] = finding.condition
    if finding.hint:
        properties["hint"] = finding.hint
    if finding.replay is not None:
        properties["replay"] = replay_data(finding.replay)
    return properties
