"""How a loop counts: its iterations, and which optimizers accumulate over how many of them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise

from ampcheck import events as ev
from ampcheck.trace import Record, Trace

__all__ = ["Slot", "accumulates_losses", "backwards", "declaring", "epochs_of", "is_undivided"]


@dataclass(frozen=True, slots=True)
class Slot:
    """One iteration of the innermost loop that trains, or leaves early: its records lie from `start` to `stop`.

    `trains`: there is a backward in it.
    """

    start: int
    stop: int
    trains: bool


def backwards(records: Iterable[Record]) -> list[tuple[Record, ev.Backward]]:
    """The records of backwards, with their events."""
    return [(r, r.event) for r in records if isinstance(r.event, ev.Backward)]


def declaring(trace: Trace, optimizers: tuple[str, ...]) -> frozenset[str]:
    """The optimizers whose own events show a window; all of them where none does."""
    if not trace.window:
        return frozenset()
    shown = set()
    for record in trace.records:
        match record.event:
            case ev.Backward(loss=loss, reaches=reaches) if any(u.window for u in loss.parts):
                shown.update(set(reaches) - set(record.event.assumed))
            case ev.Edit(owners=owners, factor=factor) if factor.window:
                shown.update(owners)
            case ev.Step(optimizer=optimizer) | ev.Unscale(optimizer=optimizer) if _at_boundary(record):
                shown.add(optimizer)
            case ev.ZeroGrad(owners=(owner,)) | ev.Clip(owners=(owner,)) if _at_boundary(record):
                shown.add(owner)
            case _:
                pass
    return frozenset(shown & set(optimizers)) or frozenset(optimizers)


def _at_boundary(record: Record) -> bool:
    return any(g.boundary for g in record.guards)


def accumulates_losses(trace: Trace, optimizer: str) -> bool:
    """Whether the loss is accumulated instead of the gradients: one backward for each K micro-batches."""
    if not trace.window or trace.window.length < 2:
        return False
    reaching = [
        r for r, b in backwards(trace.records) if optimizer in b.reaches and optimizer not in b.assumed
    ]
    if not reaching:
        return False
    return all(any(g.boundary and g.holds for g in r.guards) for r in reaching)


def is_undivided(backward: ev.Backward, gaps: set[str]) -> bool:
    """Whether K does not settle the loss's normalisation: another divisor, a sum, a loss summed over the window."""
    return (
        any(u.other for u in backward.loss.parts)
        or backward.loss.reduction == "sum"
        or any(o in gaps for o in backward.reaches)
    )


def epochs_of(records: Sequence[Record]) -> tuple[tuple[Slot, ...], ...]:
    """The iterations of each run through the training loop, those that were left early included.

    Several backwards in a loop of their own are one iteration where the boundary test stands outside that loop; without
    a boundary test, the same backward again is the next one.
    """
    gated = (len(r.iteration) for r in records if isinstance(r.event, ev.Step) and _at_boundary(r))
    depth = next(gated, None)
    begun: list[Record] = []
    trained: set[int] = set()
    places: set[ev.Site] = set()
    for record in records:
        if not isinstance(record.event, ev.Backward | ev.Jump):
            continue
        again = depth is None and record.event.site in places
        if not begun or again or begun[-1].iteration[:depth] != record.iteration[:depth]:
            begun.append(record)
            places.clear()
        if isinstance(record.event, ev.Backward):
            places.add(record.event.site)
            trained.add(begun[-1].index)
    epochs: dict[tuple[int, ...], list[Slot]] = {}
    for first, following in pairwise([*begun, None]):
        assert first is not None
        stop = following.index if following else records[-1].index + 1
        iteration = first.iteration[:depth]
        epochs.setdefault(iteration[:-1], []).append(Slot(first.index, stop, first.index in trained))
    return tuple(map(tuple, epochs.values()))
