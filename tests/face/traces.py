"""Traces written by hand."""

from __future__ import annotations

from collections.abc import Sequence

from ampcheck import gradients
from ampcheck.events import Event
from ampcheck.trace import Record, Role, Trace


def trace_of(*events: Event, roles: Sequence[Role] = ()) -> Trace:
    """A trace with the gradients that the events leave behind."""
    state, records = gradients.State(), []
    for index, event in enumerate(events):
        after, refused = gradients.apply(state, event, index)
        records.append(Record(index, event, state, after, micro=0, epoch=0, refused=refused))
        state = after
    return Trace("train", tuple(records), {role.id: role for role in roles})
