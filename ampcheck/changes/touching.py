"""What a change must touch to touch a finding.

New and edited lines must be part of the witness.  A line that is gone is part of nothing any more: it is enough that
it stood in a loop of the witness or, outside of loops, in the function.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import fields

from ampcheck.events import Event, Site
from ampcheck.finding import Finding
from ampcheck.source import Unreadable, decode, read_bytes
from ampcheck.trace import Record, Trace

__all__ = ["evidence", "surroundings"]


def evidence(finding: Finding) -> Iterator[Site]:
    """The places that a finding rests on: its own and those of its witness's events, with the tests and calls that
    lead there, and where the scalers, optimizers and models concerned are made."""
    yield finding.site
    if finding.witness is None:
        return
    trace = finding.witness.trace
    for record in _told(finding):
        yield record.event.site
        yield from (guard.site for guard in record.guards)
        yield from record.calls
        yield from _made(trace, record.event)


def surroundings(finding: Finding) -> Iterator[Site]:
    """The loops of the witness, and the functions of those events that stand in none."""
    for record in _told(finding):
        if record.loop is not None:
            yield record.loop
        if record.loop is None or not _within(record.event.site, record.loop):
            yield from _function(record.event.site)


def _told(finding: Finding) -> list[Record]:
    if finding.witness is None:
        return []
    records = finding.witness.trace.records
    told = sorted({finding.witness.record, *finding.witness.steps})
    return [records[index] for index in told if 0 <= index < len(records)]


def _made(trace: Trace, event: Event) -> Iterator[Site]:
    named: set[object] = set()
    for field in fields(event):
        value = getattr(event, field.name)
        named.update(value if isinstance(value, tuple) else (value,) if isinstance(value, str) else ())
    for role in trace.roles.values():
        if role.id in named and role.site is not None:
            yield role.site


def _within(inner: Site, outer: Site) -> bool:
    return inner.path == outer.path and outer.line <= inner.line and inner.end_line <= outer.end_line


def _function(site: Site) -> list[Site]:
    """The innermost function around a place, as a site; none at a module's top or in a file that cannot be read."""
    try:
        tree = decode(site.path, read_bytes(site.path)).tree
    except Unreadable:
        return []
    around = [
        node
        for node in ast.walk(tree or ast.Module([], []))
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
        and node.lineno <= site.line <= (node.end_lineno or node.lineno)
    ]
    return [
        Site(site.path, node.lineno, 1, node.end_lineno or node.lineno, 1)
        for node in sorted(around, key=lambda node: node.lineno)[-1:]
    ]
