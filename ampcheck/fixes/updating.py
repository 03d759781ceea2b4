"""AMP109 and AMP112: `update` once, after the last step of each window, and on every path."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from ampcheck import events as ev
from ampcheck.fixes.case import Candidate, Cannot, Case, Place, candidate
from ampcheck.fixes.draft import Draft
from ampcheck.fixes.guards import condition, out_of_loops, with_options
from ampcheck.fixes.moving import delete, insert, move
from ampcheck.fixes.spelling import is_meant_alike, scaler_at
from ampcheck.trace import Record
from ampcheck.windows import next_backward, previous_backward

__all__ = ["after_step", "delete_idle_update", "insert_update", "move_idle_update", "move_rare_update"]


def delete_idle_update(case: Case) -> Iterator[Candidate]:
    """The step has an update of its own: the idle one goes."""
    record, step = case.record, _step(case)
    closing = next_backward(case.trace, step.index, _stepped(step))
    stop = closing.index if closing else len(case.trace.records)
    if not any(
        isinstance(r.event, ev.Update) and r.event.site != record.event.site
        for r in case.trace.between(step.index, stop)
    ):
        raise Cannot("no other update follows the step")
    place = case.place(record.event.site)
    yield candidate(
        "update the scale only after the step",
        delete(Draft.of(place.module), place.module, [place.statement]),
    )


def move_idle_update(case: Case) -> Iterator[Candidate]:
    """The update stands outside of the boundary: it belongs behind the step."""
    record, step = case.record, _step(case)
    place, anchor = case.meet(record, step)
    own = case.place(record.event.site)
    if own.statement is not place.statement:
        raise Cannot("the update happens in another function than the step")
    target = out_of_loops(case, anchor, *_backwards(case, step))
    statement, asked = with_options(case, record, place, target)
    draft = move(Draft.of(place.module), place.module, [statement], after=target.statement, asked=asked)
    yield candidate("update the scale right after the step", draft)


def move_rare_update(case: Case) -> Iterator[Candidate]:
    """The update stands under a test of its own: it belongs behind the step, whatever that test says."""
    _, place, scaler = _used(case)
    module = place.module
    around = module.function(place.statement)
    for node in ast.walk(around):
        if not (isinstance(node, ast.Expr) and isinstance(node.value, ast.Call)):
            continue
        call = node.value
        if not (isinstance(call.func, ast.Attribute) and call.func.attr == "update" and not call.args):
            continue
        if module.text(call.func.value) != scaler or node.lineno < place.statement.lineno:
            continue
        if not is_meant_alike(module, call.func.value, place):
            continue
        yield candidate(
            "update the scale after every step", move(Draft.of(module), module, [node], after=place.statement)
        )
    raise Cannot("there is no update to be moved")


def insert_update(case: Case) -> Iterator[Candidate]:
    """Call `update` after the last step, or before what jumps over it."""
    _, place, scaler = _used(case)
    call = f"{scaler}.update()"
    draft = Draft.of(place.module)
    if isinstance(case.record.event, ev.Jump):
        yield candidate(
            f"call {call} before the {case.record.event.kind}",
            insert(draft, place.module, [call], before=place.statement),
        )
        return
    yield candidate(f"call {call} after the step", insert(draft, place.module, [call], after=place.statement))


def after_step(case: Case, draft: Draft, place: Place, step: Record, scaler: str) -> Draft:
    """The draft with an update behind a step, and behind the loop over optimizers that it may stand in."""
    target = out_of_loops(case, place, *_backwards(case, step))
    return insert(draft, place.module, [f"{scaler}.update()"], after=target.statement)


def scaler_of(case: Case, record: Record) -> str:
    """The scaler that an event belongs to."""
    event = record.event
    scaler = getattr(event, "scaler", None)
    if not isinstance(scaler, str):
        raise Cannot("the scaler is not to be seen")
    return scaler


def _used(case: Case) -> tuple[Record, Place, str]:
    """The record reported, the statement to put an update at, and the scaler as it is written there."""
    record = case.record
    uses = [r for r in case.story if isinstance(r.event, ev.Unscale | ev.Step) and r.index <= record.index]
    uses = [r for r in uses if getattr(r.event, "scaler", None) is not None]
    if not uses:
        raise Cannot("the use that is not followed by an update is not to be seen")
    place = case.place(record.event.site)
    if not isinstance(record.event, ev.Jump):
        place = out_of_loops(case, place, *_backwards(case, record))
    scaler = scaler_at(case, scaler_of(case, uses[-1]), place)
    if isinstance(record.event, ev.Jump) and condition(case, uses[-1], place):
        raise Cannot("`unscale_` is under a test that the jump is not")
    return record, place, scaler


def _step(case: Case) -> Record:
    step = next((r for r in case.story if isinstance(r.event, ev.Step)), None)
    if step is None:
        raise Cannot("the step is not to be seen")
    # An update serves all steps of its scaler that no backward parts.
    closing = next_backward(case.trace, step.index, _stepped(step))
    stop = closing.index if closing else len(case.trace.records)
    later = [
        r
        for r in case.trace.between(step.index, stop)
        if isinstance(r.event, ev.Step) and r.event.scaler == scaler_of(case, step)
    ]
    return later[-1] if later else step


def _stepped(step: Record) -> str:
    return step.event.optimizer if isinstance(step.event, ev.Step | ev.Unscale) else ""


def _backwards(case: Case, step: Record) -> list[Record]:
    backward = previous_backward(case.trace, step.index, _stepped(step))
    return [backward] if backward else []
