"""The correct order for a trace: what the loop would do if it kept to `ampcheck.protocol`, as a trace of its own.

It is the likeliest of the references that the replay compares with; computing it needs no torch.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from ampcheck import gradients
from ampcheck.events import Backward, Event
from ampcheck.protocol import Act
from ampcheck.replay.references import references
from ampcheck.replay.restarts import told_apart
from ampcheck.replay.unfolding import unfold
from ampcheck.rule import Habit
from ampcheck.trace import Guard, Record, Trace

__all__ = ["correct"]


def correct(trace: Trace, contests: Iterable[Habit] = ()) -> Trace | None:
    """The trace of the correct loop; None where the run holds no window that could be put in order.

    `contests` are the habits of the loop that are a fault in themselves.
    """
    try:
        normal = unfold(told_apart(trace)).normal
        _, found = references(normal, normal.records, frozenset(contests))
    except Exception:  # a trace of an unforeseen shape costs its own picture only, as in the replay
        return None
    if not found or not any(isinstance(act.event, Backward) for act in found[0].acts):
        return None
    state, records = gradients.State(), []
    ranks = _is_reduced(trace)
    for index, act in enumerate(found[0].acts):
        event = _divided(act, ranks)
        effect = gradients.apply(state, event, index)
        guards = (*act.guards, *_unless_skipped(act))
        records.append(Record(index, event, state, effect.state, act.micro, 0, guards=guards))
        state = effect.state
    return replace(trace, records=tuple(records), choices=())


def _is_reduced(trace: Trace) -> bool:
    """Whether gradients are reduced over ranks, so that it matters which backward does it."""
    return any(
        not event.synced or any(f.wrapper.startswith(("ddp", "fsdp")) for f in event.loss.forwards)
        for _, event in trace.of(Backward)
    )


def _divided(act: Act, ranks: bool) -> Event:
    """The event with its division by K as part of the loss's unit."""
    event = act.event
    if not isinstance(event, Backward):
        return event
    parts = tuple(replace(unit, window=unit.window - (act.divisor > 1)) for unit in event.loss.parts)
    return replace(event, loss=replace(event.loss, parts=parts), synced=event.synced or not ranks)


def _unless_skipped(act: Act) -> Iterable[Guard]:
    if act.if_stepped:
        yield Guard("the step was not skipped", True, act.event.site, varying=True)
