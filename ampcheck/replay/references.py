"""What is executed for one witness: the acts of the user's loop, and those of every acceptable reference."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from ampcheck import events as ev
from ampcheck.protocol import Act, correct
from ampcheck.replay.plans import plans
from ampcheck.replay.practice import Loop, read_loop
from ampcheck.trace import Record, Trace

__all__ = ["Reference", "excerpt", "opening", "references", "user_acts"]


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


def opening(trace: Trace) -> tuple[Record, ...]:
    """The backwards that a root without a loop of its own must have had before it is called."""
    if not trace.records:
        return ()
    state = trace.records[0].before
    found: dict[tuple[int, int, ev.Unit], list[str]] = {}
    for owner, buffer in state.buffers.items():
        for contribution in buffer.contributions:
            key = (contribution.micro, contribution.record, contribution.unit)
            found.setdefault(key, []).append(owner)
    site = trace.records[0].event.site
    records = []
    for number, ((micro, _, unit), owners) in enumerate(found.items()):
        loss = ev.Loss((unit,))
        event = ev.Backward(loss=loss, reaches=tuple(dict.fromkeys(owners)), micro=max(micro, 0), site=site)
        records.append(Record(number - len(found), event, state, state, max(micro, 0), 0))
    return tuple(records)


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
    present = {(r.micro, r.event.site) for r in records}
    added: dict[int, list[Act]] = {}
    for micro in dict.fromkeys(r.micro for r in records):
        here = {r.event.site: r for r in records if r.micro == micro and isinstance(r.event, ev.ReadScale)}
        if not here:
            continue
        last = max(r.index for r in here.values())
        for site, record in guarded.items():
            tests = [g.skip for g in record.guards if g.skip]
            needed = {readings.get(n) for t in tests for n in (t.left, t.right)}
            if (micro, site) in present or not needed <= set(here):
                continue
            numbers = {s: r.event.reading for s, r in here.items() if isinstance(r.event, ev.ReadScale)}

            def moved(number: int, numbers: dict[ev.Site, int] = numbers) -> int:
                return numbers[readings[number]]

            guards = tuple(
                replace(g, skip=replace(g.skip, left=moved(g.skip.left), right=moved(g.skip.right)))
                if g.skip
                else g
                for g in record.guards
            )
            added.setdefault(last, []).append(Act(record.event, micro, guards))
    return added
