"""AMP118 overflow-hidden."""

from __future__ import annotations

from collections.abc import Iterator

from ampcheck.events import Edit
from ampcheck.precedence import still_scaled
from ampcheck.rule import Rule, Violation
from ampcheck.trace import Trace
from ampcheck.windows import names, next_step, once_per_site, story


class OverflowHidden(Rule):
    """Non-finite gradients are replaced before the scaler has looked for an overflow.

    ## What it does
    Finds `nan_to_num`, `where` or `masked_fill` on gradients, in the loop or in a tensor hook, before `unscale_`
    (or before the `scaler.step` that unscales).

    ## Why is this bad
    The scaler decides in `unscale_` whether to skip the step and lower the scale. If infinities are gone by then,
    the step runs on meaningless gradients and the scale stays too high, so it happens again.

    ## Example
    ```python
    scaler.scale(loss).backward()
    for p in model.parameters():
        p.grad.nan_to_num_()
    scaler.step(optimizer)
    scaler.update()
    ```

    ## Use instead
    ```python
    scaler.scale(loss).backward()
    scaler.step(optimizer)  # skips the step when a gradient is not finite
    scaler.update()
    ```

    ## Known problems
    After `unscale_` the replacement hides nothing (and achieves nothing): it is not reported. A clip by value hides
    infinities as well; it is reported as AMP101. Where the step that follows is raw, see AMP113.

    ## References
    - https://docs.pytorch.org/docs/stable/amp.html#torch.amp.GradScaler.step: steps are skipped on inf or NaN.
    - Measured: an infinity that passes `nan_to_num` moves a parameter by the largest float32 over S.
    """

    code = "AMP118"
    name = "overflow-hidden"
    severity = "error"
    oracle = ("steps", "scale", "parameters")
    hint = "remove the replacement: scaler.step skips such steps by itself"

    def check(self, trace: Trace) -> Iterator[Violation]:
        """Yield the replacements of non-finite gradients that still carry a loss scale."""
        yield from once_per_site(trace, self._violations(trace))

    def _violations(self, trace: Trace) -> Iterator[Violation]:
        for record, edit in trace.of(Edit):
            scaled = still_scaled(trace, record, edit.owners)
            if scaled is None or edit.effect != "hide":
                continue
            steps = (next_step(trace, record.index, owner) for owner in scaled.owners)
            yield Violation(
                record.index,
                f"non-finite gradients of {names(trace, scaled.owners)} are replaced before "
                f"{names(trace, scaled.scalers)} can see them: an overflow is not skipped and the scale not lowered",
                story(trace, *(c.record for c in scaled.contributions), *steps),
                certain=scaled.certain,
            )
