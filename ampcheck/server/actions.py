"""What can be done about a finding: apply its fix, suppress it, or have its rule explained."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from lsprotocol import types as lsp

from ampcheck.finding import Finding, Fix
from ampcheck.server.diagnostics import diagnostic, located
from ampcheck.server.places import Places
from ampcheck.server.session import Judged
from ampcheck.source import Unreadable
from ampcheck.suppressions import NOT_TO_BE_KNOWN
from ampcheck.suppressions.adding import Refused, commented, edits_for

__all__ = ["EXPLAIN", "actions", "touched"]

EXPLAIN = "ampcheck.explain"


def touched(judged: Judged, places: Places, uri: str, asked: lsp.Range) -> list[Finding]:
    """The findings in a document's own text whose lines a range touches."""
    return [f for f in judged.findings if _is_asked_for(*diagnostic(f, places), uri, asked)]


def actions(
    judged: Judged, places: Places, uri: str, asked: lsp.Range, fixes: Iterable[tuple[Finding, Fix]]
) -> Iterator[lsp.CodeAction]:
    """The actions for the findings of a document that touch a range; `fixes` are those that there are.

    A finding of the last good text is explained only: what is broken now is edited by hand.
    """
    for finding, fix in fixes:
        yield _fix(finding, fix, places)
    for finding, shift in located(judged):
        where, shown = diagnostic(finding, places, shift)
        if not _is_asked_for(where, shown, uri, asked):
            continue
        if shift is None:
            yield from _suppress(judged, places, finding, shown)
        yield lsp.CodeAction(
            f"Explain {finding.code} {finding.name}",
            kind=lsp.CodeActionKind.QuickFix,
            diagnostics=[shown],
            command=lsp.Command("Explain", EXPLAIN, arguments=[finding.code]),
        )


def _fix(finding: Finding, fix: Fix, places: Places) -> lsp.CodeAction:
    changes: dict[str, list[lsp.TextEdit]] = {}
    for edit in fix.edits:
        at = places.span(edit.site)
        changes.setdefault(at.uri, []).append(lsp.TextEdit(at.range, edit.text))
    return lsp.CodeAction(
        f"Fix {finding.code}: {fix.title}",
        kind=lsp.CodeActionKind.QuickFix,
        diagnostics=[diagnostic(finding, places)[1]],
        is_preferred=fix.applicability == "safe",
        edit=lsp.WorkspaceEdit(changes),
    )


def _suppress(
    judged: Judged, places: Places, finding: Finding, shown: lsp.Diagnostic
) -> Iterator[lsp.CodeAction]:
    """The comment that `ampcheck check --add-ignores` would write, where there is a place for one."""
    if finding.code in NOT_TO_BE_KNOWN or judged.source is None:
        return
    try:
        commented(judged.file.path, judged.file.data, [finding])
    except (Refused, Unreadable):
        return
    changes: dict[str, list[lsp.TextEdit]] = {}
    for (cell, line), edit in edits_for(judged.source, [finding]).items():
        document = judged.file.documents[max(cell - 1, 0)]
        text = document.lines[line - 1]
        start = places.position(document.lines, line, 1)
        end = places.position(document.lines, line, len(text) + 1)
        changes.setdefault(document.uri, []).append(lsp.TextEdit(lsp.Range(start, end), edit(text)))
    yield lsp.CodeAction(
        f"Ignore {finding.code} {finding.name} here",
        kind=lsp.CodeActionKind.QuickFix,
        diagnostics=[shown],
        edit=lsp.WorkspaceEdit(changes),
    )


def _is_asked_for(where: str, shown: lsp.Diagnostic, uri: str, asked: lsp.Range) -> bool:
    begins_before = shown.range.start.line <= asked.end.line
    return where == uri and begins_before and asked.start.line <= shown.range.end.line
