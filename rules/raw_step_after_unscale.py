"""AMP123 raw-step-after-unscale."""

from __future__ import annotations

from collections.abc import Iterator

from ampcheck.events import Step, Unscale
from ampcheck.gradients import UNSCALED
from ampcheck.precedence import repeated_step
from ampcheck.rule import Rule, Violation
from ampcheck.trace import Trace
from ampcheck.windows import (
    are_known,
    escapes_between,
    exponents,
    fresh,
    name,
    next_step,
    next_update,
    once_per_site,
    story,
    tests_beyond,
)


class RawStepAfterUnscale(Rule):
    """The optimizer steps by itself after `unscale_`: an overflow is not skipped.

    ## What it does
    Finds `scaler.unscale_(optimizer)` followed by `optimizer.step()` instead of `scaler.step(optimizer)`.

    ## Why is this bad
    The values are right, but it is `scaler.step` that skips a step whose gradients are not finite. A raw step
    writes them into the parameters, and `update` lowers the scale too late.

    ## Example
    ```python
    scaler.unscale_(optimizer)
    torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    optimizer.step()
    scaler.update()
    ```

    ## Use instead
    ```python
    scaler.unscale_(optimizer)
    torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    scaler.step(optimizer)
    scaler.update()
    ```

    ## Known problems
    Where the step depends on a test that `unscale_` does not depend on (the norm is finite, say), nothing is said:
    the test may skip what the scaler would have skipped.

    ## References
    - https://docs.pytorch.org/docs/stable/amp.html#torch.amp.GradScaler.step
    - Measured: after one overflow the parameters are infinite while the scale is halved as usual.
    """

    code = "AMP123"
    name = "raw-step-after-unscale"
    severity = "warning"
    oracle = ("parameters", "steps")
    hint = "call scaler.step(optimizer): it does not unscale again"

    def check(self, trace: Trace) -> Iterator[Violation]:
        """Yield the raw steps on gradients that a scaler has unscaled."""
        yield from once_per_site(trace, self._violations(trace))

    def _violations(self, trace: Trace) -> Iterator[Violation]:
        for record, step in trace.of(Step):
            held = fresh(trace, record, step.optimizer)
            if step.scaler is not None or step.closure or not held:
                continue
            later = next_step(trace, record.index, step.optimizer)
            if repeated_step(trace, record) or (later and repeated_step(trace, later)):
                continue
            unscales = [
                (r, u)
                for r, u in trace.of(Unscale)
                if r.index < record.index and u.optimizer == step.optimizer and not r.refused
            ]
            if not unscales:
                continue
            unscaled, unscale = unscales[-1]
            if record.before.phase(unscale.scaler, step.optimizer) != UNSCALED:
                continue
            if exponents(held, unscale.scaler) != {0} or tests_beyond(record, unscaled):
                continue
            buffer = record.before.buffer(step.optimizer)
            if buffer.opaque or escapes_between(
                trace, unscaled.index, record.index, unscale.scaler, step.optimizer
            ):
                continue
            yield Violation(
                record.index,
                f"{name(trace, step.optimizer)} steps by itself after `unscale_`: a step that overflows is not "
                f"skipped, expected a step through {name(trace, unscale.scaler)}",
                story(
                    trace,
                    *(c.record for c in held),
                    unscaled,
                    next_update(trace, record.index, unscale.scaler),
                ),
                certain=are_known(trace, step.optimizer, unscale.scaler) and not any(c.assumed for c in held),
            )
