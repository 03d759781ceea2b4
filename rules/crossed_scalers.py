"""AMP116 crossed-scalers."""

from __future__ import annotations

from collections.abc import Iterator

from ampcheck.events import Step
from ampcheck.gradients import READY
from ampcheck.rule import Rule, Violation
from ampcheck.spans import is_stray
from ampcheck.trace import Trace
from ampcheck.windows import (
    are_known,
    escapes_between,
    fresh,
    name,
    names,
    once_per_site,
    origin,
    story,
)


class CrossedScalers(Rule):
    """One scaler scales the loss, another steps the optimizer.

    ## What it does
    Finds `scaler_b.step(optimizer)` on gradients of `scaler_a.scale(loss)`.

    ## Why is this bad
    The gradients are multiplied by one scale and divided by another: the step sees g · S₁ / S₂. While both
    scales happen to be equal nothing shows; the first overflow or growth of either parts them.

    ## Example
    ```python
    scaler_g.scale(loss_d).backward()
    scaler_d.step(opt_d)
    scaler_d.update()
    ```

    ## Use instead
    ```python
    scaler_d.scale(loss_d).backward()
    scaler_d.step(opt_d)
    scaler_d.update()
    ```

    ## Known problems
    Two names of one scaler that the analysis cannot tie together are reported as possible only.

    ## References
    - https://docs.pytorch.org/docs/stable/notes/amp_examples.html#working-with-multiple-models-losses-and-optimizers
    """

    code = "AMP116"
    name = "crossed-scalers"
    severity = "error"
    oracle = ("gradient", "exception")
    hint = "step with the scaler that scaled the loss"

    def check(self, trace: Trace) -> Iterator[Violation]:
        """Yield the steps through another scaler than the loss's."""
        if trace.complete:
            yield from once_per_site(trace, self._violations(trace))

    def _violations(self, trace: Trace) -> Iterator[Violation]:
        for record, step in trace.of(Step):
            if step.scaler is None or step.closure:
                continue
            if record.refused and record.before.may_be_primed(step.scaler):
                continue
            buffer = record.before.buffer(step.optimizer)
            division = 1 if record.before.phase(step.scaler, step.optimizer) == READY else 0
            # What another optimizer's loss has left here is that mistake, whichever scale it is in.
            held = [
                c
                for c in fresh(trace, record, step.optimizer)
                if not is_stray(trace, c, step.optimizer, record)
            ]
            crossed = [
                (c, loss)
                for c in held
                if (loss := origin(trace, buffer, c)) is not None
                and loss.is_scaled
                and loss.scaled_by(step.scaler) == 0
                and c.unit.scaled_by(step.scaler) - division < 0
            ]
            if not crossed or buffer.opaque:
                continue
            scalers = sorted({s for _, loss in crossed for s, _ in loss.scale})
            if escapes_between(trace, min(c.record for c, _ in crossed), record.index, step.scaler, *scalers):
                continue
            yield Violation(
                record.index,
                f"{name(trace, step.scaler)} steps {name(trace, step.optimizer)} on gradients scaled by "
                f"{names(trace, scalers)}: the step sees g · S₁ / S₂, expected the scaler that scaled the loss",
                story(trace, *(c.record for c in held)),
                certain=are_known(trace, step.scaler, *scalers) and not any(c.assumed for c, _ in crossed),
                predicts="S1/S2",
            )
