"""AMP114 scaler-step-on-unscaled-loss."""

from __future__ import annotations

from collections.abc import Iterator

from ampcheck.engines import engine_of
from ampcheck.events import Site, Step
from ampcheck.precedence import divided_without_scaling
from ampcheck.rule import Rule, Violation
from ampcheck.trace import Trace
from ampcheck.windows import (
    are_known,
    escapes_between,
    fresh,
    name,
    once_per_site,
    previous_step,
    story,
)


class ScalerStepOnUnscaledLoss(Rule):
    """The scaler steps on gradients of a loss that it never scaled.

    ## What it does
    Finds `scaler.step(optimizer)` after a plain `loss.backward()`: the only one, one of several, or where the
    scaled loss was computed and the plain one differentiated.

    ## Why is this bad
    `scaler.step` divides by S what was never multiplied by it: the step sees g / S. If `scale` was never
    called at all, torch raises.

    ## Example
    ```python
    scaled = scaler.scale(loss)
    loss.backward()
    scaler.step(optimizer)
    scaler.update()
    ```

    ## Use instead
    ```python
    scaler.scale(loss).backward()
    scaler.step(optimizer)
    scaler.update()
    ```

    ## Known problems
    An unscaled backward after `unscale_` is right, and so are gradients multiplied by `get_scale()` by hand.
    Where the scaler belongs to an engine (Accelerate), the backward that goes around it is reported (AMP702).

    ## References
    - https://docs.pytorch.org/docs/stable/amp.html#torch.amp.GradScaler.scale
    - Measured for two losses of which one is scaled: g1 + g2 / S.
    """

    code = "AMP114"
    name = "scaler-step-on-unscaled-loss"
    severity = "error"
    oracle = ("exception", "gradient")
    hint = "call scaler.scale(loss).backward() for every loss"

    def check(self, trace: Trace) -> Iterator[Violation]:
        """Yield the scaled steps on gradients of plain losses."""
        if not trace.complete:
            return
        # One plain backward that reaches several optimizers is one mistake.
        told: set[Site] = set()
        for violation in once_per_site(trace, self._violations(trace)):
            places = {trace.records[i].event.site for i in violation.steps}
            if not places <= told:
                yield violation
            told |= places

    def _violations(self, trace: Trace) -> Iterator[Violation]:
        for record, step in trace.of(Step):
            if (
                step.scaler is None
                or step.closure
                or engine_of(trace, step.optimizer) in ("accelerate", "trainer")
            ):
                continue  # an engine's own scaler: that its backward was passed over is the mistake
            if record.refused and record.before.may_be_primed(step.scaler):
                continue
            plain = divided_without_scaling(trace, record)
            last = previous_step(trace, record.index, step.optimizer)
            if not plain or record.before.buffer(step.optimizer).opaque:
                continue
            if escapes_between(trace, last.index if last else -1, record.index, step.scaler):
                continue
            some = len(plain) < len(fresh(trace, record, step.optimizer))
            whose = "some gradients" if some else "gradients"
            yield Violation(
                record.index,
                f"{name(trace, step.scaler)} steps {name(trace, step.optimizer)} on {whose} of a loss that was never "
                "scaled: it divides them by S all the same, expected a backward of the scaled loss",
                story(trace, *(c.record for c in fresh(trace, record, step.optimizer))),
                certain=are_known(trace, step.scaler) and not any(c.assumed for c in plain),
                predicts="" if some else "1/S",
            )
