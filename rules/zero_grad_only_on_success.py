"""AMP313 zero-grad-only-on-success."""

from __future__ import annotations

from collections.abc import Iterator

from ampcheck.boundaries import is_conditional, length, optimizers
from ampcheck.events import ZeroGrad
from ampcheck.rule import Rule, Violation
from ampcheck.skips import succeeded
from ampcheck.spans import own_micros, spans
from ampcheck.trace import Guard, Record, Trace
from ampcheck.windows import (
    name,
    next_backward,
    next_step,
    once_per_site,
    previous_backward,
    previous_step,
    story,
)


class ZeroGradOnlyOnSuccess(Rule):
    """Gradients are zeroed only when the step was not skipped.

    ## What it does
    Finds a `zero_grad` that depends on a test for a skipped step or for finite gradients, with no other zeroing on
    the way to the next window.

    ## Why is this bad
    After an overflow the infinite gradients stay. Everything added to them is infinite too: every later window is
    skipped, the scale halves each time, and the model never steps again.

    ## Example
    ```python
    scale = scaler.get_scale()
    scaler.step(optimizer)
    scaler.update()
    if scaler.get_scale() >= scale:
        optimizer.zero_grad()
    ```

    ## Use instead
    ```python
    scaler.step(optimizer)
    scaler.update()
    optimizer.zero_grad()
    ```

    ## Known problems
    A test of the loss before its backward keeps infinite gradients from arising and is not reported.

    ## References
    - [GradScaler](https://docs.pytorch.org/docs/stable/amp.html#torch.amp.GradScaler):
      a skipped step leaves the gradients as they are
    """

    code = "AMP313"
    name = "zero-grad-only-on-success"
    severity = "error"
    oracle = ("steps", "scale")
    hint = "zero the gradients whether or not the step was skipped"

    def check(self, trace: Trace) -> Iterator[Violation]:
        """Yield each zeroing that only success reaches, where nothing else clears the gradients."""
        if trace.complete:
            yield from once_per_site(trace, self._violations(trace))

    def _violations(self, trace: Trace) -> Iterator[Violation]:
        known = optimizers(trace)
        for record, zero in trace.of(ZeroGrad):
            for optimizer in zero.owners if any(g.skip or g.finite for g in record.guards) else ():
                backward = previous_backward(trace, record.index, optimizer)
                later = next_backward(trace, record.index, optimizer)
                if optimizer not in known or backward is None or later is None:
                    continue
                buffer = record.before.buffer(optimizer)
                test = _success_test(trace, record, backward)
                if test is None or buffer.is_empty or buffer.opaque:
                    continue
                if _cleared_anyway(trace, record, optimizer, test):
                    continue
                step = previous_step(trace, record.index, optimizer)
                yield Violation(
                    record.index,
                    f"{name(trace, optimizer)} is zeroed only if `{test.text}` is {str(test.holds).lower()}: "
                    "after an overflow its infinite gradients stay for ever",
                    story(trace, backward, step if step and step.index > backward.index else None),
                    # A test for finite gradients may as well end the program: then a run that goes on tells.
                    certain=test.skip is not None or _goes_on(trace, optimizer),
                    predicts="0",
                )


def _success_test(trace: Trace, record: Record, backward: Record) -> Guard | None:
    """The test of success that a zeroing depends on and the backward before it does not."""
    before = {g.text for g in backward.guards}
    return next((g for g in record.guards if g.text not in before and succeeded(trace, g)), None)


def _cleared_anyway(trace: Trace, record: Record, optimizer: str, test: Guard) -> bool:
    """Whether the optimizer is zeroed when the test fails, or without that test once per window."""
    zeroed = [r for r, zero in trace.of(ZeroGrad) if optimizer in zero.owners]
    if any(g.text == test.text and g.holds != test.holds for r in zeroed for g in r.guards):
        return True
    step = next_step(trace, record.index, optimizer)
    start = previous_step(trace, record.index, optimizer)
    return any(
        (start is None or r.index > start.index) and (step is None or r.index < step.index)
        for r in zeroed
        if test.text not in {g.text for g in r.guards}
    )


def _goes_on(trace: Trace, optimizer: str) -> bool:
    """Whether a step was skipped in this run and its gradients were kept: a later one uses more than a window."""
    return any(
        len(own_micros(trace, span)) > length(trace) and len(span.rounds) == 1
        for span in spans(trace, optimizer)
        if span.step is not None and is_conditional(trace, span.step, optimizer)
    )
