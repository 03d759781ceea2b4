"""AMP113 raw-step-on-scaled-gradients."""

from __future__ import annotations

from collections.abc import Iterator

from ampcheck.events import Step
from ampcheck.precedence import repeated_step
from ampcheck.rule import Rule, Violation
from ampcheck.trace import Trace
from ampcheck.windows import (
    are_known,
    carried_scales,
    escapes_between,
    name,
    names,
    next_step,
    once_per_site,
    story,
)


class RawStepOnScaledGradients(Rule):
    """The optimizer steps by itself on gradients that carry the loss scale.

    ## What it does
    Finds `optimizer.step()` after `scaler.scale(loss).backward()` with no unscaling in between, also where the
    step runs in a gradient hook.

    ## Why is this bad
    The step sees S·g, and an overflow is not skipped. SGD moves S times too far. Adam and its kin hide the
    factor in their parameters, until the scale changes or a gradient overflows.

    ## Example
    ```python
    scaler.scale(loss).backward()
    optimizer.step()
    ```

    ## Use instead
    ```python
    scaler.scale(loss).backward()
    scaler.step(optimizer)
    scaler.update()
    ```

    ## Known problems
    A clip or edit between the backward and the raw step is not reported as well: with `unscale_` and
    `scaler.step` in their places both are right, and until then this step is the one finding. Steps with a closure
    are not judged. A raw step beside a scaled one on the same gradients is AMP108; after `unscale_`, AMP123.

    ## References
    - https://docs.pytorch.org/docs/stable/notes/amp_examples.html#typical-mixed-precision-training
    - Measured: Adam's parameters differ by less than 0.01 %, the gradient at the step by S. A clip by norm
      before the raw step hides the factor only while the gradient's norm exceeds the threshold.
    """

    code = "AMP113"
    name = "raw-step-on-scaled-gradients"
    severity = "error"
    oracle = ("gradient", "parameters")
    hint = "call scaler.step(optimizer) and scaler.update() instead of optimizer.step()"

    def check(self, trace: Trace) -> Iterator[Violation]:
        """Yield the raw steps on gradients that carry a loss scale."""
        yield from once_per_site(trace, self._violations(trace))

    def _violations(self, trace: Trace) -> Iterator[Violation]:
        for record, step in trace.of(Step):
            scalers, buffer = (
                carried_scales(record.before, step.optimizer),
                record.before.buffer(step.optimizer),
            )
            if step.scaler is not None or step.closure or not scalers or buffer.opaque:
                continue
            later = next_step(trace, record.index, step.optimizer)
            if repeated_step(trace, record) or (later and repeated_step(trace, later)):
                continue
            scaled = [c for c in buffer.contributions if any(c.unit.scaled_by(s) > 0 for s in scalers)]
            if escapes_between(trace, min(c.record for c in scaled), record.index, *scalers):
                continue
            yield Violation(
                record.index,
                f"{name(trace, step.optimizer)} steps on gradients that still carry the loss scale: the update is S "
                f"times too large and an overflow is not skipped, expected a step through {names(trace, scalers)}",
                story(trace, *(c.record for c in scaled)),
                certain=are_known(trace, step.optimizer, *scalers) and not any(c.assumed for c in scaled),
                predicts="S",
            )
