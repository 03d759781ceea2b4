"""AMP503: the schedule advances only if the scaler did not skip the step."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from ampcheck import events as ev
from ampcheck.fixes.case import Candidate, Cannot, Case, candidate
from ampcheck.fixes.draft import Draft
from ampcheck.fixes.guards import condition, out_of_loops
from ampcheck.fixes.moving import insert, under
from ampcheck.fixes.spelling import fresh_name, scaler_at
from ampcheck.trace import Record
from ampcheck.windows import next_update, previous_step

__all__ = ["advance_unless_skipped"]


def advance_unless_skipped(case: Case) -> Iterator[Candidate]:
    """Keep the scale of before the step, and advance only if it has not dropped since."""
    record = case.record
    step = _step(case)
    own, anchor = case.meet(record, step)
    if own.statement is not case.place(record.event.site).statement or not isinstance(
        own.statement, ast.Expr
    ):
        raise Cannot("the schedule advances in another function than the step")
    name_of_scaler = _scaler(step)
    update = next_update(case.trace, step.index, name_of_scaler)
    if update is None or update.index > record.index:
        raise Cannot("the scale is not updated before the schedule advances")
    module = own.module
    at_step = out_of_loops(case, anchor, record)
    name = fresh_name(module, own.statement, "scale_before_step")
    scaler = scaler_at(case, name_of_scaler, at_step)
    test = f"{name} <= {scaler_at(case, name_of_scaler, own)}.get_scale()"
    asked = condition(case, step, own)
    if asked:
        test = f"{_opposite(asked)} or {test}"
    draft = insert(Draft.of(module), module, [f"{name} = {scaler}.get_scale()"], before=at_step.statement)
    yield candidate(
        "advance the schedule only if the step was not skipped",
        under(draft, module, f"if {test}:", [own.statement]),
    )


def _scaler(step: Record) -> str:
    if not isinstance(step.event, ev.Step) or step.event.scaler is None:
        raise Cannot("the step does not go through a scaler")
    return step.event.scaler


def _opposite(asked: str) -> str:
    """The opposite of a test that is given as text."""
    parts = asked.split()
    if len(parts) >= 4 and parts[-3:] == ["is", "not", "None"] and "and" not in parts:
        return f"{' '.join(parts[:-3])} is None"
    if parts[0] == "not" and len(parts) == 2:
        return parts[1]
    return f"not {asked}" if len(parts) == 1 else f"not ({asked})"


def _step(case: Case) -> Record:
    event = case.record.event
    if not isinstance(event, ev.ScheduleStep):
        raise Cannot("it is not a schedule")
    told = [r for r in case.story if isinstance(r.event, ev.Step) and r.event.scaler is not None]
    found = [r for r in told if r.index < case.record.index]
    if found:
        return found[-1]
    for optimizer in event.optimizers:
        step = previous_step(case.trace, case.record.index, optimizer)
        if step is not None and isinstance(step.event, ev.Step) and step.event.scaler is not None:
            return step
    raise Cannot("the step before it is not to be seen")
