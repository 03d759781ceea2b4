"""Findings as the protocol's diagnostics."""

from __future__ import annotations

from lsprotocol import types as lsp

from ampcheck.finding import Finding
from ampcheck.report.links import rule_url
from ampcheck.report.message import message, remarks
from ampcheck.report.story import story
from ampcheck.server.places import Places
from ampcheck.server.session import Judged
from ampcheck.server.shifting import Shift

__all__ = ["by_document", "diagnostic", "located"]

SEVERITIES = {
    "error": lsp.DiagnosticSeverity.Error,
    "warning": lsp.DiagnosticSeverity.Warning,
    "note": lsp.DiagnosticSeverity.Information,
}
TAGS = {"AMP604": [lsp.DiagnosticTag.Deprecated], "AMP901": [lsp.DiagnosticTag.Unnecessary]}


def by_document(judged: Judged, places: Places) -> dict[str, list[lsp.Diagnostic]]:
    """The diagnostics of an open file by the URI of the document that each stands in; every document has a list."""
    found: dict[str, list[lsp.Diagnostic]] = {document.uri: [] for document in judged.file.documents}
    for finding, shift in located(judged):
        uri, shown = diagnostic(finding, places, shift)
        found.setdefault(uri, []).append(shown)
    return found


def located(judged: Judged) -> list[tuple[Finding, Shift | None]]:
    """The findings, each with what leads from its places to those of the text."""
    return [(f, None) for f in judged.findings] + [(f, judged.shift) for f in judged.kept]


def diagnostic(finding: Finding, places: Places, shift: Shift | None = None) -> tuple[str, lsp.Diagnostic]:
    """A finding's document and diagnostic."""
    site = shift.site(finding.site) if shift else finding.site
    location = places.location(site)
    return location.uri, lsp.Diagnostic(
        range=location.range,
        message=_message(finding),
        severity=SEVERITIES[finding.severity],
        code=finding.code,
        code_description=lsp.CodeDescription(url) if (url := rule_url(finding.code)) else None,
        source="ampcheck",
        tags=TAGS.get(finding.code),
        related_information=_related(finding, places, shift),
    )


def _message(finding: Finding) -> str:
    return "\n".join([f"{finding.name}: {message(finding)}", *remarks(finding)])


def _related(finding: Finding, places: Places, shift: Shift | None) -> list[lsp.DiagnosticRelatedInformation]:
    """The story of the finding: each place of the witness with what the gradients carry there."""
    steps = [step for step in story(finding) if step.text]
    sites = [
        shift.site(step.site) if shift and step.site.path == finding.site.path else step.site
        for step in steps
    ]
    return [
        lsp.DiagnosticRelatedInformation(places.location(site), step.text)
        for site, step in zip(sites, steps, strict=True)
        if not site.path.startswith("<")
    ]
