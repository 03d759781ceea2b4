"""The three questions of a reviewer, answered for each loop by line.

1.  How is the effective batch defined?  B = b · K · W: items in a micro-batch, micro-batches in a window, ranks.
2.  Is the gradient unscaled before it is clipped?
3.  Does a skipped step agree with the schedule?

An answer is *bad* only where a finding says so or the gradients of the usual run show it, so that the page and the
report agree.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from ampcheck import events as ev
from ampcheck.audit.answers import Answer, Evidence, Standing
from ampcheck.audit.sizes import Sizes
from ampcheck.configurations import Configurations
from ampcheck.finding import Finding
from ampcheck.skips import asks_for_skip, succeeded
from ampcheck.timeline.cells import drawn, place_of
from ampcheck.timeline.loops import Loop, Run
from ampcheck.trace import Record, Trace

__all__ = ["answers"]

OF_BATCH = ("AMP30", "AMP31", "AMP404")
OF_CLIP = ("AMP101", "AMP102", "AMP103", "AMP105", "AMP106", "AMP107", "AMP118", "AMP20")
OF_SCHEDULE = ("AMP50",)
MOST_LINES = 8


def answers(loop: Loop, sizes: Sizes, configured: Configurations) -> tuple[Answer, Answer, Answer]:
    """The answers to the three questions, in their order."""
    return _batch(loop, sizes, configured), _clip(loop), _schedule(loop)


def _codes(findings: Iterable[Finding], prefixes: tuple[str, ...]) -> tuple[str, ...]:
    """The rules broken that bear on a question; a note is advice and contradicts nothing."""
    bearing = (f for f in findings if f.code.startswith(prefixes) and f.severity != "note")
    return tuple(dict.fromkeys(f.code for f in bearing))


def _distinct(found: Iterable[Evidence]) -> tuple[Evidence, ...]:
    return tuple(dict.fromkeys(found))[:MOST_LINES]


# --- how is the effective batch defined? ---


def _batch(loop: Loop, sizes: Sizes, configured: Configurations) -> Answer:
    b = " or ".join(dict.fromkeys(size.text for size in sizes.batches))
    k, of_k = _window(loop.runs[0].trace, sizes, configured)
    w, of_w = _ranks(loop)
    evidence = [Evidence(size.place, f"b: {size.owner}: {size.text}") for size in sizes.batches]
    evidence += _window_lines(loop, configured)
    evidence += [Evidence(size.place, f"K: {size.owner}: {size.text}") for size in sizes.windows]
    evidence += _rank_lines(loop)
    codes = _codes(loop.findings, OF_BATCH)
    standing: Standing = "bad" if codes else "good" if b else "open"
    said = f"{_value(b)} × {k} × {w}" + (", contradicted" if codes else "")
    of_b = f"b = {b}" if b else "b is not set in this file"
    text = f"B = b × K × W: {of_b}; K = {of_k}; W = {of_w}."
    return Answer("How is the effective batch defined?", standing, said, text, _distinct(evidence), codes)


def _value(size: str) -> str:
    """A size in a formula: its value where it is known, else a short name of it."""
    value = size.rpartition(" = ")[2]
    return value if value and len(value) < 24 else "b"


def _window(trace: Trace, sizes: Sizes, configured: Configurations) -> tuple[str, str]:
    """K, short and explained."""
    answer = configured.gradient_accumulation_steps
    if trace.window is None or trace.window.length < 2:
        if answer:
            return str(answer.value), f"{answer.value}, says {answer.owner}"
        named = " or ".join(dict.fromkeys(size.text for size in sizes.windows))
        return ("K" if named else "1"), (
            f"1 in the runs shown, from {named}" if named else "1, nothing is accumulated"
        )
    window = trace.window
    if window.text.isdigit():
        return window.text, window.text
    known = f"{window.text.rpartition('.')[2]} = {window.length}"
    if any(size.text == known for size in sizes.windows):
        return str(window.length), known
    return "K", f"{window.text}, {window.length} in the pictures"


def _window_lines(loop: Loop, configured: Configurations) -> Iterator[Evidence]:
    if answer := configured.gradient_accumulation_steps:
        site = next((c.site for c in configured.found if c.owner == answer.owner and c.site), None)
        yield Evidence(site, f"K: {answer.owner} says {answer.value}")
    for record in _records(loop.runs[:1]):
        match record.event:
            case ev.Backward(loss=loss) if any(unit.window for unit in loss.parts):
                units = " and ".join(dict.fromkeys(str(unit) for unit in loss.parts))
                yield Evidence(place_of(record), f"K: the loss of this backward is × {units}")
            case ev.Backward(loss=ev.Loss(reduction="sum")):
                yield Evidence(place_of(record), "b: the loss is a sum over the micro-batch's items")
            case ev.Edit(factor=factor) if factor.window:
                yield Evidence(place_of(record), "K: the gradients are divided here")
            case ev.Step():
                for guard in record.guards:
                    if guard.boundary and not guard.site.path.startswith("<"):
                        yield Evidence(guard.site, "K: the step waits for this test")
            case _:
                pass


def _ranks(loop: Loop) -> tuple[str, str]:
    """W, short and explained."""
    kinds = {_wrapper(detail) for run in loop.runs for detail in _wrappers(run)} - {""}
    if any(isinstance(r.event, ev.Reduce) for r in _records(loop.runs)):
        kinds.add("a reduction by hand")
    kinds = kinds or {f"the {r.engine} engine" for r in loop.runs[0].trace.roles.values() if r.engine}
    if kinds:
        return "W", f"the number of ranks, by {' and '.join(sorted(kinds))}"
    return "1", "1, nothing here spreads the model over ranks"


def _wrapper(detail: str) -> str:
    return detail.split()[0].rstrip("?").upper() if detail else ""


def _wrappers(run: Run) -> Iterator[str]:
    for role in run.trace.roles_of("model"):
        yield role.detail
    for record in run.records:
        if isinstance(record.event, ev.Backward):
            yield from (forward.wrapper for forward in record.event.loss.forwards)


def _rank_lines(loop: Loop) -> Iterator[Evidence]:
    for run in loop.runs:
        for record, build in run.trace.of(ev.Build):
            if build.kind == "wrapper":
                yield Evidence(place_of(record), f"W: {build.role} is wrapped in {_wrapper(build.detail)}")
    for record in _records(loop.runs):
        match record.event:
            case ev.Backward(loss=loss) if any(unit.world for unit in loss.parts):
                yield Evidence(place_of(record), f"W: the loss of this backward is × {loss.parts[0]}")
            case ev.Reduce():
                yield Evidence(place_of(record), "W: gradients are reduced over ranks by hand")
            case _:
                pass


# --- is the gradient unscaled before it is clipped? ---


def _clip(loop: Loop) -> Answer:
    question = "Is the gradient unscaled before it is clipped?"
    evidence, scaled = _clips(loop)
    codes = _codes(loop.findings, OF_CLIP)
    has_scale = any(
        unit.is_scaled
        for record in _records(loop.runs)
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
    return _distinct(found), scaled


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
    codes = _codes(loop.findings, OF_SCHEDULE)
    steps = [(run, r) for run in loop.runs for r in run.trace.records if isinstance(r.event, ev.ScheduleStep)]
    skipping = any(isinstance(r.event, ev.Step) and r.event.scaler for r in _records(loop.runs))
    evidence = _distinct(Evidence(place_of(r), _advance(run, r)) for run, r in steps)
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


def _records(runs: Iterable[Run]) -> Iterator[Record]:
    for run in runs:
        yield from run.records
