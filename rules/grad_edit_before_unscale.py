"""AMP103 grad-edit-before-unscale."""

from __future__ import annotations

from collections.abc import Iterator

from ampcheck.events import Edit
from ampcheck.precedence import still_scaled
from ampcheck.rule import Rule, Violation
from ampcheck.trace import Trace
from ampcheck.windows import names, next_step, once_per_site, story


class GradEditBeforeUnscale(Rule):
    """Gradients that still carry the loss scale are edited in a way that does not scale with them.

    ## What it does
    Finds edits of scaled gradients that are not homogeneous of degree one: something is added (noise, decay), or
    they are normalised, quantised or replaced by their sign.

    ## Why is this bad
    `scaler.step` divides the gradients by S after the edit, and the edit with them: what was added acts
    as 1 / S of itself, and a normalised gradient arrives with the norm 1 / S.

    ## Example
    ```python
    scaler.scale(loss).backward()
    for p in model.parameters():
        p.grad.add_(sigma * torch.randn_like(p.grad))
    scaler.step(optimizer)
    ```

    ## Use instead
    ```python
    scaler.scale(loss).backward()
    scaler.unscale_(optimizer)
    for p in model.parameters():
        p.grad.add_(sigma * torch.randn_like(p.grad))
    scaler.step(optimizer)
    ```

    ## Known problems
    Masks, projections, zeroing and multiplication by a number commute with the scale and are right anywhere.
    Where the step that follows is raw, only that step is reported (AMP113).

    ## References
    - https://docs.pytorch.org/docs/stable/notes/amp_examples.html#working-with-unscaled-gradients
    - Measured: g + 1 on scaled gradients steps on g + 1/S; `sign_()` and normalisation arrive times 1/S; a
      projection is exact.
    """

    code = "AMP103"
    name = "grad-edit-before-unscale"
    severity = "error"
    oracle = ("gradient",)
    hint = "call scaler.unscale_(optimizer) before the edit"

    def check(self, trace: Trace) -> Iterator[Violation]:
        """Yield the edits of gradients that carry a loss scale."""
        yield from once_per_site(trace, self._violations(trace))

    def _violations(self, trace: Trace) -> Iterator[Violation]:
        for record, edit in trace.of(Edit):
            scaled = still_scaled(trace, record, edit.owners)
            if scaled is None or edit.effect not in ("shift", "nonlinear"):
                continue
            what = "added to" if edit.effect == "shift" else "reshaped"
            steps = (next_step(trace, record.index, owner) for owner in scaled.owners)
            yield Violation(
                record.index,
                f"gradients of {names(trace, scaled.owners)} are {what} while they still carry the loss scale: "
                "the edit is divided by S with them, expected after `unscale_`",
                story(trace, *(c.record for c in scaled.contributions), *steps),
                certain=scaled.certain,
                predicts="1/S" if edit.effect == "nonlinear" else "",
            )
