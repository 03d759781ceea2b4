"""Where in its window an iteration is left early: a run decides it as it pleases, and the replay where it matters."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from types import UnionType

from ampcheck import events as ev
from ampcheck.trace import Record, Trace

__all__ = ["with_jump_at_boundary"]


def with_jump_at_boundary(trace: Trace, witness: int) -> Trace:
    """A run whose witness leaves an iteration early, with that jump at the end of its window.

    A run takes a jump in the one iteration that it likes, and the source allows it in any: where it matters most is in
    the iteration that would have ended the window.  So that iteration and the one that was left change places.
    """
    jump = trace.records[witness]
    if not isinstance(jump.event, ev.Jump) or trace.window is None or not trace.complete:
        return trace
    inside: dict[tuple[int, ...], list[Record]] = {}
    for record in trace.records:
        if record.epoch == jump.epoch and len(record.iteration) == len(jump.iteration):
            inside.setdefault(record.iteration, []).append(record)
    left = inside.get(jump.iteration, [])
    ending = next((i for i, rs in inside.items() if rs[0].index > jump.index and _has(rs, ev.Step)), None)
    plain = next(
        (rs for rs in inside.values() if _has(rs, ev.Backward) and not _has(rs, ev.Step | ev.Jump)), None
    )
    if not left or ending is None or plain is None or _has(left, ev.Step):
        return trace
    moved = {r.index for r in (*left, *inside[ending])}
    swapped: list[Record] = []
    for record in trace.records:
        if record.index not in moved:
            swapped.append(record)
        elif record is inside[record.iteration][0]:
            source = plain if record.iteration == jump.iteration else left
            swapped += [replace(r, iteration=record.iteration) for r in source]
    return replace(trace, records=tuple(_renumbered_micros(swapped)))


def _has(records: Sequence[Record], kind: type[ev.Event] | UnionType) -> bool:
    return any(isinstance(r.event, kind) for r in records)


def _renumbered_micros(records: Sequence[Record]) -> Iterator[Record]:
    """Records with consecutive indices, and micro-batches counted by the iterations that have a backward."""
    micro, latest = -1, None
    for index, record in enumerate(records):
        event = record.event
        if isinstance(event, ev.Backward):
            if latest != record.iteration:
                micro, latest = micro + 1, record.iteration
            event = replace(event, micro=micro)
        yield replace(record, index=index, event=event, micro=max(micro, 0))
