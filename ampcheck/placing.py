"""Where a finding is reported: at its event's own line, or at the call in the checked file that leads there.

A training step may be spread over files.  A fault belongs to the line of its event if that file is checked too;
else to the call, where the loop around it stands in the file that is checked.  The same fault, found once in the file
alone and once with a loop of another file, is one finding.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from dataclasses import replace

from ampcheck.events import Site
from ampcheck.finding import Finding
from ampcheck.imports import spelled

__all__ = ["merged", "own", "placed"]


def placed(findings: Iterable[Finding], path: str, checked: Mapping[str, str]) -> list[Finding]:
    """The findings of a file's own runs; those in files that are not checked move to the call that leads there.

    `checked` are the files of the check, as they are to be shown by their absolute paths.
    """
    found = []
    for finding in findings:
        home = _home(finding)
        if finding.site.path == path and home == path:
            found.append(finding)
        elif home == path and finding.of_loop:
            call = _call(finding, path)
            found.append(finding if call is None else replace(finding, site=call))
        elif (shown := checked.get(os.path.abspath(finding.site.path))) is not None:
            if home == finding.site.path:  # else the loop's own file shows it
                found.append(replace(finding, site=replace(finding.site, path=shown)))
        elif (call := _call(finding, path)) is not None:
            found.append(replace(finding, site=call))
    return found


def own(findings: Iterable[Finding], path: str) -> list[Finding]:
    """The findings of another file's runs that lie in this one."""
    home = spelled(path)
    return [
        replace(finding, site=replace(finding.site, path=path))
        for finding in findings
        if spelled(finding.site.path) == home == spelled(_home(finding))
    ]


def _home(finding: Finding) -> str:
    """The file that a fault belongs to: that of its event, or of the loop, or the boundary's test, that is to blame."""
    if not finding.of_loop or finding.witness is None:
        return finding.site.path
    trace = finding.witness.trace
    records = [trace.records[i] for i in (finding.witness.record, *finding.witness.steps)]
    tests = [guard.site.path for record in records for guard in record.guards if guard.boundary]
    loop = records[0].loop
    return tests[-1] if tests else loop.path if loop and not loop.path.startswith("<") else finding.site.path


def _call(finding: Finding, path: str) -> Site | None:
    """The innermost call in a file that led to a finding's event, where the loop around it stands there too."""
    if finding.witness is None:
        return None
    record = finding.witness.trace.records[finding.witness.record]
    if record.loop is None or record.loop.path != path:
        return None
    return next((site for site in reversed(record.calls) if site.path == path), None)


def merged(findings: Iterable[Finding]) -> list[Finding]:
    """Each fault once: the certain finding before the possible one, the one that depends on less before the other."""
    best: dict[tuple[Site, str, str], Finding] = {}
    for finding in findings:
        # What no run shows is about the analysis, and one file can have several reasons to be cut short.
        key = finding.site, finding.code, finding.message if finding.witness is None else ""
        known = best.get(key)
        if known is None or _rank(finding) < _rank(known):
            best[key] = finding
    return list(best.values())


def _rank(finding: Finding) -> tuple[bool, int]:
    return finding.verdict != "certain", len(finding.condition)
