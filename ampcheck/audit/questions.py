"""The three questions of a reviewer, answered for each loop by line.

1.  How is the effective batch defined?  B = b · K · W: items in a micro-batch, micro-batches in a window, ranks.
2.  Is the gradient unscaled before it is clipped?
3.  Does a skipped step agree with the schedule?

An answer is *bad* only where a finding says so or the gradients of the usual run show it, so that the page and the
report agree.
"""

from __future__ import annotations

from collections.abc import Iterator

from ampcheck import events as ev
from ampcheck.audit.answers import Answer, Evidence, bearing, distinct
from ampcheck.audit.effective_batch import effective_batch
from ampcheck.audit.sizes import Sizes
from ampcheck.configurations import Configurations
from ampcheck.skips import asks_for_skip, succeeded
from ampcheck.timeline.cells import drawn, place_of
from ampcheck.timeline.loops import Loop, Run, records_of
from ampcheck.trace import Record

__all__ = ["answers"]

OF_CLIP = ("AMP101", "AMP102", "AMP103", "AMP105", "AMP106", "AMP107", "AMP118", "AMP20")
OF_SCHEDULE = ("AMP50",)


def answers(loop: Loop, sizes: Sizes, configured: Configurations) -> tuple[Answer, Answer, Answer]:
    """The answers to the three questions, in their order."""
    return effective_batch(loop, sizes, configured), _clip(loop), _schedule(loop)


# --- is the gradient unscaled before it is clipped? ---


def _clip(loop: Loop) -> Answer:
    question = "Is the gradient unscaled before it is clipped?"
    evidence, scaled = _clips(loop)
    codes = bearing(loop.findings, OF_CLIP)
    has_scale = any(
        unit.is_scaled
        for record in records_of(loop.runs)
        if isinstance(record.event, ev.Backward)
        for unit in record.event.loss.parts
    )
    if not evidence:
        if codes:
            return Answer(question, "bad", "unscaled wrongly", "Nothing is clipped, but see", (), codes)
        text = "Nothing is clipped" + (": the step itself unscales." if has_scale else ".")
        return Answer(question, "none", "no clip", text, (), codes)
    if not has_scale:
        text = "There is no loss scale in these runs, so every clip meets true gradients."
        return Answer(question, "bad" if codes else "good", "no loss scale", text, evidence, codes)
    if scaled:
        text = "No: a clip meets gradients that still carry the loss scale, so its threshold acts as M / S."
        return Answer(question, "bad", "no", text, evidence, codes)
    if codes:
        return Answer(
            question,
            "bad",
            "in the wrong place",
            "The clip or the unscaling is not where it should be.",
            evidence,
            codes,
        )
    return Answer(question, "good", "yes", "Yes: every clip meets true gradients.", evidence, codes)


def _clips(loop: Loop) -> tuple[tuple[Evidence, ...], bool]:
    """The clips with what they meet, and whether one of them meets scaled gradients in the run that is shown."""
    found: list[Evidence] = []
    scaled = False
    for number, run in enumerate(loop.runs):
        for record in drawn(run.trace, run.records):
            if record.refused:
                break  # nothing comes after an exception
            if not isinstance(record.event, ev.Clip):
                continue
            held = [b for o in record.event.owners if not (b := record.before.buffer(o)).is_empty]
            meets = any(buffer.is_scaled for buffer in held)
            scaled = scaled or (meets and (number == 0 or _is_witness(loop, run)))
            if number == 0 or meets:
                before = [r for r in run.records if r.index < record.index]
                found += _unscaled(before, record.event.owners)
                what = "gradients × S" if meets else "true gradients" if held else "no gradients"
                found.append(Evidence(place_of(record), f"clips {what}"))
    return distinct(found), scaled


def _is_witness(loop: Loop, run: Run) -> bool:
    return any(f.witness is not None and f.witness.trace is run.trace for f in loop.findings)


def _unscaled(before: list[Record], owners: tuple[str, ...]) -> Iterator[Evidence]:
    for record in reversed(before):
        match record.event:
            case ev.Unscale(optimizer=optimizer) if optimizer in owners:
                yield Evidence(place_of(record), "unscales")
                return
            case ev.Backward(reaches=reached) if set(owners) & set(reached):
                return
            case _:
                pass


# --- does a skipped step agree with the schedule? ---


def _schedule(loop: Loop) -> Answer:
    question = "Does a skipped step agree with the schedule?"
    codes = bearing(loop.findings, OF_SCHEDULE)
    steps = [(run, r) for run in loop.runs for r in run.trace.records if isinstance(r.event, ev.ScheduleStep)]
    skipping = any(isinstance(r.event, ev.Step) and r.event.scaler for r in records_of(loop.runs))
    evidence = distinct(Evidence(place_of(r), _advance(run, r)) for run, r in steps)
    if not steps:
        return Answer(question, "bad" if codes else "none", "no schedule", "No schedule is seen.", (), codes)
    if codes:
        return Answer(question, "bad", "no", "No: see the findings.", evidence, codes)
    if not skipping:
        text = "No step is skipped: no scaler steps here."
        return Answer(question, "none", "nothing is skipped", text, evidence)
    kinds = {_kind(run, record) for run, record in steps}
    if kinds <= {"epochs", "guarded"}:
        text = (
            "Yes: it advances after steps that were done." if "guarded" in kinds else "Yes: it counts epochs."
        )
        return Answer(question, "good", "yes", text, evidence)
    return Answer(question, "open", "not tested", "It advances on skipped steps too.", evidence)


def _kind(run: Run, record: Record) -> str:
    assert isinstance(record.event, ev.ScheduleStep)
    if record.event.counts in ("epochs", "metric") or _is_rarer(run, record):
        return "epochs"
    guarded = any(succeeded(run.trace, g) or asks_for_skip(g) for g in record.guards)
    return "guarded" if guarded else "updates"


def _is_rarer(run: Run, record: Record) -> bool:
    """Whether it stands outside of the loop that steps."""
    depths = [len(r.iteration) for r in run.records if isinstance(r.event, ev.Step)]
    return bool(depths) and len(record.iteration) < min(depths)


def _advance(run: Run, record: Record) -> str:
    tests = [g.text if g.holds else f"not ({g.text})" for g in record.guards if not g.boundary]
    kind = {"epochs": "once an epoch", "guarded": "after a step that was done", "updates": "advances"}
    said = kind[_kind(run, record)]
    return said + (f", if `{' and '.join(tests)}`" if tests else "")
