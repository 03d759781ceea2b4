"""Training loops: what a file's runs show, put together by the backwards and steps that belong to each other.

A root may hold several loops one after the other (a notebook, a module with a warm-up): two steps belong to one loop
where one uses a backward of the other's, or where they take turns.
"""

from __future__ import annotations

import ast
import os
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

from ampcheck.check import Analysed
from ampcheck.events import Backward, Event, Site, Step
from ampcheck.finding import Finding
from ampcheck.spans import is_stray
from ampcheck.timeline.cells import place_of
from ampcheck.trace import Record, Trace

__all__ = ["Loop", "Run", "loops_of", "records_of", "with_findings"]


@dataclass(frozen=True, slots=True)
class Run:
    """A run of a loop: the records of a trace from `start` to before `stop`."""

    trace: Trace
    start: int
    stop: int

    @property
    def records(self) -> tuple[Record, ...]:
        """The loop's own records."""
        return self.trace.records[self.start : self.stop]


@dataclass(frozen=True, slots=True)
class Loop:
    """One training loop: its runs, the usual one first, and the findings whose witness is one of them.

    `path` is the file whose root holds it, `place` where it begins; `places` are its backwards and steps.  `name` is
    how people call it: the function that it stands in, or "module".
    """

    path: str
    root: str
    place: Site
    places: frozenset[Site]
    runs: tuple[Run, ...]
    findings: tuple[Finding, ...] = ()
    name: str = "module"


def loops_of(analysed: Analysed) -> tuple[Loop, ...]:
    """The training loops of one file, in the order of the code."""
    by_root: dict[str, list[Trace]] = {}
    for trace in analysed.traces:
        by_root.setdefault(trace.root, []).append(trace)
    found = [
        replace(loop, name=_name(analysed.source.tree, loop))
        for root, traces in by_root.items()
        for loop in _loops(analysed.source.path, root, traces)
    ]
    return tuple(sorted(found, key=lambda loop: (loop.place.path != loop.path, loop.place)))


def records_of(runs: Iterable[Run]) -> Iterator[Record]:
    """The records of several runs of a loop."""
    for run in runs:
        yield from run.records


def _name(tree: ast.Module | None, loop: Loop) -> str:
    """The innermost function around a loop's place, a method with its class; else its root."""
    if loop.place.path != loop.path or tree is None:
        return loop.root
    name, pending = "", [("", node) for node in tree.body]
    while pending:
        outer, node = pending.pop()
        if not node.lineno <= loop.place.line <= (node.end_lineno or node.lineno):
            continue
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            outer = f"{outer}.{node.name}" if outer else node.name
            name = name if isinstance(node, ast.ClassDef) else f"{outer}()"
        pending += [(outer, inner) for inner in ast.iter_child_nodes(node) if isinstance(inner, ast.stmt)]
    return name or "module"


def with_findings(loops: Iterable[Loop], findings: Iterable[Finding]) -> tuple[Loop, ...]:
    """The loops with what was found in each; parts of a step that other loops run are left to them.

    A finding whose loop is not among them (it stands in a file that is not checked) brings that loop along.
    """
    whole = _without_parts(tuple(loops))
    taken: dict[int, list[Finding]] = {}
    homeless: dict[str, list[Finding]] = {}
    for finding in findings:
        if finding.witness is None:
            continue
        places = _places(finding.witness.trace.records)
        fits = [i for i, loop in enumerate(whole) if places & _spelled(loop.places) and _holds(loop, finding)]
        same = [i for i in fits if whole[i].root == finding.witness.trace.root]
        if fits:
            taken.setdefault((same or fits)[0], []).append(finding)
        elif places:
            homeless.setdefault(finding.witness.trace.root, []).append(finding)
    found = [replace(loop, findings=tuple(taken.get(i, ()))) for i, loop in enumerate(whole)]
    for root, several in homeless.items():
        traces = [f.witness.trace for f in several if f.witness is not None]
        for loop in _loops(several[0].site.path, root, traces):
            held = tuple(f for f in several if _holds(loop, f))
            found += [replace(loop, findings=held)] if held else []
    return tuple(found)


def _holds(loop: Loop, finding: Finding) -> bool:
    """Whether a finding's event lies among a loop's: not in another loop of the same root."""
    assert finding.witness is not None
    trace, index = finding.witness.trace, finding.witness.record
    inside = [r.index for r in trace.records if place_of(r) in loop.places and _trains(r.event)]
    others = [r.index for r in trace.records if place_of(r) not in loop.places and _trains(r.event)]
    if not inside:
        return False
    near = min(abs(index - i) for i in inside)
    return inside[0] <= index <= inside[-1] or all(abs(index - i) > near for i in others)


def _without_parts(loops: tuple[Loop, ...]) -> tuple[Loop, ...]:
    """Without functions that other loops call: run with them, they are judged better."""
    kept = []
    for number, loop in enumerate(loops):
        others = [
            other
            for place, other in enumerate(loops)
            if place != number and _spelled(loop.places) <= _spelled(other.places)
        ]
        same = [other for other in others if _spelled(other.places) == _spelled(loop.places)]
        larger = len(others) > len(same) or any(_is_outer(other, loop) for other in same)
        if not larger:
            kept.append(loop)
    return tuple(kept)


def _is_outer(other: Loop, loop: Loop) -> bool:
    """Whether of two roots with the same events the other one is the way in: it calls through more places."""
    depth = [max((len(r.calls) for r in one.runs[0].records), default=0) for one in (other, loop)]
    return depth[0] > depth[1]


def _spelled(places: Iterable[Site]) -> frozenset[tuple[str, int, int]]:
    return frozenset((os.path.abspath(site.path), site.line, site.column) for site in places)


def _places(records: Iterable[Record]) -> frozenset[tuple[str, int, int]]:
    return _spelled(place_of(r) for r in records if _trains(r.event))


def _trains(event: Event) -> bool:
    return isinstance(event, Step) or (isinstance(event, Backward) and not event.found)


# --- the loops of one root ---


def _loops(path: str, root: str, traces: Sequence[Trace]) -> Iterator[Loop]:
    for places in _groups(traces):
        runs = [run for trace in traces if (run := _run(trace, places)) is not None]
        runs.sort(key=_unusual)
        if runs and any(isinstance(r.event, Step) for run in runs for r in run.records):
            yield Loop(path, root, _beginning(runs[0], path, places), places, tuple(runs))


def _unusual(run: Run) -> tuple[bool, bool, bool]:
    """Smaller for the run that shows most: it steps, scales its loss, and nothing in it deviates."""
    kinds = [r.event for r in run.records]
    steps = any(isinstance(event, Step) for event in kinds)
    scaled = any(u.is_scaled for e in kinds if isinstance(e, Backward) for u in e.loss.parts)
    return not steps, any(g.varying for g in run.trace.choices), not scaled


def _beginning(run: Run, path: str, places: frozenset[Site]) -> Site:
    """The innermost loop around the first backward or step, where it stands in the file; else the call to it."""
    first = next(r for r in run.records if _trains(r.event) and place_of(r) in places)
    if first.loop is not None and first.loop.path == path:
        return first.loop
    return next((call for call in reversed(first.calls) if call.path == path), place_of(first))


def _groups(traces: Sequence[Trace]) -> list[frozenset[Site]]:
    """The places of backwards and steps that belong to one loop, over all runs."""
    groups: list[set[Site]] = []
    for trace in traces:
        linked = [_linked(trace, r) for r in trace.records if _trains(r.event)]
        for places in _interleaved(trace, _joined(linked)):
            groups = _joined([*groups, places])
    return [frozenset(group) for group in groups]


def _linked(trace: Trace, record: Record) -> set[Site]:
    """A step with the backwards that it is for."""
    places = {place_of(record)}
    if isinstance(record.event, Step):
        optimizer = record.event.optimizer
        used = [
            trace.records[c.record]
            for c in record.before.buffer(optimizer).contributions
            if 0 <= c.record < len(trace.records) and not is_stray(trace, c, optimizer, record)
        ]
        places |= {place_of(backward) for backward in used if _trains(backward.event)}
    return places


def _joined(sets: Iterable[set[Site]]) -> list[set[Site]]:
    groups: list[set[Site]] = []
    for one in sets:
        apart = [group for group in groups if group.isdisjoint(one)]
        groups = [*apart, one.union(*(group for group in groups if not group.isdisjoint(one)))]
    return groups


def _interleaved(trace: Trace, groups: list[set[Site]]) -> list[set[Site]]:
    """Groups that take turns in a run are one loop."""
    spans = []
    for group in groups:
        indices = [r.index for r in trace.records if _trains(r.event) and place_of(r) in group]
        spans.append((min(indices), max(indices), group))
    merged: list[tuple[int, set[Site]]] = []
    for first, last, group in sorted(spans, key=lambda span: span[:2]):
        if merged and first < merged[-1][0]:
            merged[-1] = max(merged[-1][0], last), merged[-1][1] | group
        else:
            merged.append((last, group))
    return [group for _, group in merged]


def _run(trace: Trace, places: frozenset[Site]) -> Run | None:
    """A loop's part of a run: from its first iteration to the next loop."""
    training = [r for r in trace.records if _trains(r.event)]
    own = [r.index for r in training if place_of(r) in places]
    if not own:
        return None
    start = own[0]
    while start > 0 and _prepares(trace.records[start - 1], trace.records[own[0]]):
        start -= 1
    later = [r.index for r in training if r.index > own[-1]]
    stop = later[0] if later else len(trace.records)
    while later and stop > own[-1] + 1 and _prepares(trace.records[stop - 1], trace.records[later[0]]):
        stop -= 1
    return Run(trace, start, stop)


def _prepares(record: Record, training: Record) -> bool:
    """Whether a record belongs to the iteration of a later one."""
    depth = len(record.iteration)
    return bool(depth) and training.iteration[:depth] == record.iteration
