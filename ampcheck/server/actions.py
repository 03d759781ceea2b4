"""What can be done about a finding: apply its fix, suppress it, or have its rule explained."""

from __future__ import annotations

import re
from collections.abc import Iterator

from lsprotocol import types as lsp

from ampcheck.finding import Finding
from ampcheck.server.diagnostics import diagnostic, located
from ampcheck.server.places import Places
from ampcheck.server.session import Judged

__all__ = ["EXPLAIN", "actions"]

EXPLAIN = "ampcheck.explain"
IGNORED = re.compile(r"#\s*ampcheck:\s*ignore\[([^]]*)\]")


def actions(judged: Judged, places: Places, uri: str, asked: lsp.Range) -> Iterator[lsp.CodeAction]:
    """The actions for the findings of a document that touch a range.

    A finding of the last good text is explained only: what is broken now is edited by hand.
    """
    for finding, shift in located(judged):
        where, shown = diagnostic(finding, places, shift)
        if where != uri or not _touch(shown.range, asked):
            continue
        if shift is None:
            yield from _suppress(judged, places, finding, shown, uri)
        yield lsp.CodeAction(
            f"Explain {finding.code} {finding.name}",
            kind=lsp.CodeActionKind.QuickFix,
            diagnostics=[shown],
            command=lsp.Command("Explain", EXPLAIN, arguments=[finding.code]),
        )


def _suppress(
    judged: Judged, places: Places, finding: Finding, shown: lsp.Diagnostic, uri: str
) -> Iterator[lsp.CodeAction]:
    document = next((d for d in judged.file.documents if d.uri == uri), None)
    number = shown.range.start.line
    if document is None or finding.witness is None or number >= len(document.lines):
        return
    line = document.lines[number]
    if line.endswith("\\"):
        return  # no comment can stand here
    known = IGNORED.search(line)
    at = places.position(document.lines, number + 1, 1 + (known.end(1) if known else len(line.rstrip())))
    text = f", {finding.code}" if known else f"  # ampcheck: ignore[{finding.code}]"
    yield lsp.CodeAction(
        f"Ignore {finding.code} {finding.name} on this line",
        kind=lsp.CodeActionKind.QuickFix,
        diagnostics=[shown],
        edit=lsp.WorkspaceEdit({uri: [lsp.TextEdit(lsp.Range(at, at), text)]}),
    )


def _touch(one: lsp.Range, other: lsp.Range) -> bool:
    return one.start.line <= other.end.line and other.start.line <= one.end.line
