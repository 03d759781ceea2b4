"""Whom a loop's clips, reads and edits are meant for.

A clip belongs to whoever has fresh gradients when it runs; if nobody has, it is in the wrong place, and belongs to the
optimizer that steps next.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from ampcheck import events as ev
from ampcheck.gradients import Buffer
from ampcheck.protocol import Extra
from ampcheck.trace import Record, Trace

__all__ = ["extras"]


def extras(
    trace: Trace, optimizers: tuple[str, ...], free: tuple[str, ...], scaled: bool
) -> tuple[tuple[Extra, ...], tuple[Extra, ...]]:
    """The clips, reads and edits, once each, with the owners they are meant for: before the step, and after it."""
    places: dict[
        ev.Event, list[Record]
    ] = {}  # a place in a helper may serve several owners: then it counts for each
    for record in trace.records:
        if isinstance(record.event, ev.Clip | ev.Edit | ev.Read | ev.Reduce):
            places.setdefault(record.event, []).append(record)
    clipped = {o for rs in places.values() if isinstance(rs[0].event, ev.Clip) for o in _fresh_owners(rs)}
    reductions: list[Extra] = []  # before everything that looks at the gradients, wherever the loop has them
    before: list[Extra] = []
    after: list[Extra] = []
    for event, records in places.items():
        assert isinstance(event, ev.Clip | ev.Edit | ev.Read | ev.Reduce)
        if isinstance(event, ev.Edit) and event.effect == "multiply":
            continue  # a factor of S, K or W is the protocol's affair; a mask changes no unit
        owners = tuple(o for o in event.owners if not (scaled and o in free))
        fresh = _fresh_owners(records)
        if isinstance(event, ev.Reduce):
            reductions.append(replace(event, owners=owners))
        elif isinstance(event, ev.Clip):
            owners = owners if fresh else _meant(trace, records, clipped, optimizers)
            event = replace(
                event, owners=owners, per_parameter=False, error_if_nonfinite=False, exhausted=None
            )
            if event not in before:
                before.append(event)
        elif fresh:
            event = replace(event, owners=owners)
            if isinstance(event, ev.Read):
                event = replace(event, exhausted=None)
            if event not in before:
                before.append(event)
        elif isinstance(event, ev.Read):
            after.append(replace(event, owners=owners))
    return (*reductions, *before), tuple(after)


def _is_fresh(buffer: Buffer) -> bool:
    return not buffer.is_empty and not buffer.stepped


def _fresh_owners(records: Sequence[Record]) -> set[str]:
    """The owners with gradients that no step has used yet, when the event at this place runs."""
    return {
        o
        for r in records
        for o in r.event.owners  # type: ignore[attr-defined]
        if _is_fresh(r.before.buffer(o))
    }


def _meant(
    trace: Trace, records: Sequence[Record], clipped: set[str], optimizers: tuple[str, ...]
) -> tuple[str, ...]:
    """Whom a clip was meant for that finds no fresh gradients at all."""
    first = records[0]
    assert isinstance(first.event, ev.Clip)
    named = tuple(o for o in first.event.owners if o in optimizers)
    behind = named and all(not first.before.buffer(o).is_empty for o in named)
    if behind and clipped.isdisjoint(named):
        return named
    following = (
        r.event.optimizer for r in trace.records if r.index > first.index and isinstance(r.event, ev.Step)
    )
    next_one = next(following, None)
    if next_one is None or (next_one in clipped and named and clipped.isdisjoint(named)):
        return named or optimizers[:1]
    return (next_one,)
