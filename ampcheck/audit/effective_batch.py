"""The first question: how is the effective batch defined?  B = b × K × W, each by line.

b is read from the text of the loop's file (`ampcheck.audit.sizes`), K and W from its runs and from configuration files.
"""

from __future__ import annotations

from collections.abc import Iterator

from ampcheck import events as ev
from ampcheck.audit.answers import Answer, Evidence, Standing, bearing, distinct
from ampcheck.audit.sizes import Sizes
from ampcheck.configurations import Configurations
from ampcheck.timeline.cells import place_of
from ampcheck.timeline.loops import Loop, Run, records_of
from ampcheck.trace import Trace

__all__ = ["effective_batch"]

OF_BATCH = ("AMP30", "AMP31", "AMP404")


def effective_batch(loop: Loop, sizes: Sizes, configured: Configurations) -> Answer:
    """How the effective batch of a loop is defined."""
    b = " or ".join(dict.fromkeys(size.text for size in sizes.batches))
    k, of_k = _window(loop.runs[0].trace, sizes, configured)
    w, of_w = _ranks(loop)
    evidence = [Evidence(size.place, f"b: {size.owner}: {size.text}") for size in sizes.batches]
    evidence += _window_lines(loop, configured)
    evidence += [Evidence(size.place, f"K: {size.owner}: {size.text}") for size in sizes.windows]
    evidence += _rank_lines(loop)
    codes = bearing(loop.findings, OF_BATCH)
    standing: Standing = "bad" if codes else "good" if b else "open"
    said = _product(_value(b), k, w) + (", contradicted" if codes else "")
    of_b = f"b = {b}" if b else "b is not set in this file"
    text = f"B = b × K × W: {of_b}; {of_k}; W = {of_w}."
    return Answer("How is the effective batch defined?", standing, said, text, distinct(evidence), codes)


def _product(b: str, k: str, w: str) -> str:
    """The factors that there are: a loop that steps on every micro-batch has no K, one process no W."""
    factors = [b, *(factor for factor in (k, w) if factor != "1")]
    return " × ".join(factors) if len(factors) > 1 else f"{b}, no accumulation"


def _value(size: str) -> str:
    """A size in a formula: its value where it is known, else a short name of it."""
    value = size.rpartition(" = ")[2]
    return value if value and len(value) < 24 else "b"


def _window(trace: Trace, sizes: Sizes, configured: Configurations) -> tuple[str, str]:
    """K, short and explained."""
    answer = configured.gradient_accumulation_steps
    if trace.window is None or trace.window.length < 2:
        if answer:
            return str(answer.value), f"K = {answer.value}, says {answer.owner}"
        named = " or ".join(dict.fromkeys(size.text for size in sizes.windows))
        return _unwindowed(trace, f", although the file says {named}" if named else "")
    window = trace.window
    if window.text.isdigit():
        return window.text, f"K = {window.text}"
    known = f"{window.text.rpartition('.')[2]} = {window.length}"
    if any(size.text == known for size in sizes.windows):
        return str(window.length), f"K = {known}"
    return "K", f"K = {window.text}, {window.length} in the pictures"


def _unwindowed(trace: Trace, although: str) -> tuple[str, str]:
    """K of a run in which no test of a window's length is seen."""
    used = [len(record.before.buffer(step.optimizer).micros) for record, step in trace.of(ev.Step)]
    if not used:
        return "K", f"K is open, no step is seen{although}"
    if max(used) > 1:
        return "K", f"K is open, a step uses several micro-batches and nothing counts them{although}"
    return "1", f"K = 1, every micro-batch is a step{although}"


def _window_lines(loop: Loop, configured: Configurations) -> Iterator[Evidence]:
    if answer := configured.gradient_accumulation_steps:
        site = next((c.site for c in configured.found if c.owner == answer.owner and c.site), None)
        yield Evidence(site, f"K: {answer.owner} says {answer.value}")
    for record in records_of(loop.runs[:1]):
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
    if any(isinstance(r.event, ev.Reduce) for r in records_of(loop.runs)):
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
    for record in records_of(loop.runs):
        match record.event:
            case ev.Backward(loss=loss) if any(unit.world for unit in loss.parts):
                yield Evidence(place_of(record), f"W: the loss of this backward is × {loss.parts[0]}")
            case ev.Reduce():
                yield Evidence(place_of(record), "W: gradients are reduced over ranks by hand")
            case _:
                pass
