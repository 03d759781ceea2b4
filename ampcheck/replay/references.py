"""What is executed for one witness: the acts of the user's loop, and those of every acceptable reference."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from ampcheck import events as ev
from ampcheck.protocol import Act, correct
from ampcheck.replay.plans import plans
from ampcheck.replay.practice import Loop, read_loop
from ampcheck.trace import Guard, Record, Trace

__all__ = ["Reference", "excerpt", "references", "user_acts"]


@dataclass(frozen=True, slots=True)
class Reference:
    """One acceptable sequence of acts; `name` says what it does with a leftover."""

    name: str
    acts: tuple[Act, ...]


def references(trace: Trace, records: Sequence[Record]) -> tuple[Loop, tuple[Reference, ...]]:
    """The loop as it was read, and every correct sequence for these records of the trace."""
    loop = read_loop(trace, records)
    found: dict[tuple[Act, ...], Reference] = {}
    for plan in plans(loop):
        acts = tuple(correct(records, loop.practice, plan.closings, plan.update_each))
        found.setdefault(acts, Reference(plan.name, acts))
    return loop, tuple(found.values())


def excerpt(trace: Trace, *needed: int) -> tuple[Record, ...]:
    """The first two windows of every optimizer, where they hold all the records needed; else everything."""
    length = trace.window.length if trace.window else 1
    stop = max(2 * length, 4)
    for optimizer in {e.optimizer for _, e in trace.of(ev.Step)}:
        micros = [r.micro for r, e in trace.of(ev.Step) if e.optimizer == optimizer]
        stop = max(stop, micros[1] + 1 if len(micros) > 1 else trace.records[-1].micro + 1)
    part = tuple(r for r in trace.records if r.micro < stop and r.epoch == 0)
    indices = {r.index for r in part}
    return part if indices.issuperset(needed) and trace.complete else trace.records


def user_acts(trace: Trace, records: Sequence[Record]) -> Iterator[Act]:
    """The user's events as they are, those behind a test of the scale wherever that test is made."""
    missing = _untaken(records)
    for record in records:
        yield Act(record.event, record.micro, record.guards)
        yield from missing.get(record.index, ())


def _untaken(records: Sequence[Record]) -> dict[int, list[Act]]:
    """Events behind a test of the scale, for the micro-batches in which the run chose that it does not hold.

    A run decides such a test anew for each micro-batch, but the replay makes it: so each place must be there
    each time.  Keyed by the record after which they belong: the last of its micro-batch to read the scale.
    """
    readings: dict[int, ev.Site] = {
        r.event.reading: r.event.site for r in records if isinstance(r.event, ev.ReadScale)
    }
    guarded: dict[ev.Site, Record] = {}
    for record in records:
        if any(g.skip for g in record.guards):
            guarded.setdefault(record.event.site, record)
    present = {(r.iteration, r.event.site) for r in records}
    added: dict[int, list[Act]] = {}
    for iteration in dict.fromkeys(r.iteration for r in records):
        here = [r for r in records if r.iteration == iteration and isinstance(r.event, ev.ReadScale)]
        if not here:
            continue
        numbers = {r.event.site: r.event.reading for r in here if isinstance(r.event, ev.ReadScale)}
        for site, record in guarded.items():
            tests = [g.skip for g in record.guards if g.skip]
            needed = {readings.get(n) for t in tests for n in (t.left, t.right)}
            if (iteration, site) not in present and needed <= set(numbers):
                guards = tuple(_renumbered(g, readings, numbers) for g in record.guards)
                added.setdefault(here[-1].index, []).append(Act(record.event, here[-1].micro, guards))
    return added


def _renumbered(guard: Guard, readings: Mapping[int, ev.Site], numbers: Mapping[ev.Site, int]) -> Guard:
    """A test of the scale as another iteration makes it, with the readings taken there."""
    if guard.skip is None:
        return guard
    left, right = (numbers[readings[n]] for n in (guard.skip.left, guard.skip.right))
    return replace(guard, skip=replace(guard.skip, left=left, right=right))
