"""AMP117 autograd-grad-of-scaled-loss."""

from __future__ import annotations

from collections.abc import Iterator

from ampcheck.events import Differentiate
from ampcheck.rule import Rule, Violation
from ampcheck.trace import Trace
from ampcheck.windows import are_known, names, once_per_site, story


class AutogradGradOfScaledLoss(Rule):
    """Gradients of a scaled loss, taken with autograd.grad, are used as if they were not scaled.

    ## What it does
    Finds `torch.autograd.grad` of `scaler.scale(loss)` whose result becomes part of a loss (a gradient
    penalty) or is subtracted from parameters (an inner step, as MAML does it), with no division by the scale
    in between.

    ## Why is this bad
    No `unscale_` ever sees these gradients. A penalty (‖g‖ − 1)² becomes (S‖g‖ − 1)², whose minimum is
    elsewhere; an inner step is S times too long.

    ## Example
    ```python
    grads = torch.autograd.grad(scaler.scale(loss), model.parameters(), create_graph=True)
    norm = torch.sqrt(sum(g.pow(2).sum() for g in grads))
    scaler.scale(loss + (norm - 1) ** 2).backward()
    ```

    ## Use instead
    ```python
    scaled = torch.autograd.grad(scaler.scale(loss), model.parameters(), create_graph=True)
    inverse = 1.0 / scaler.get_scale()
    grads = [g * inverse for g in scaled]
    norm = torch.sqrt(sum(g.pow(2).sum() for g in grads))
    scaler.scale(loss + (norm - 1) ** 2).backward()
    ```

    ## Known problems
    In float32, `autograd.grad` of the loss itself is right too. What goes into a function that cannot be seen
    is followed only as far as that function's result is part of a loss, unless it is given the scaler as
    well. Products and ratios of such gradients are not followed.

    ## References
    - https://docs.pytorch.org/docs/stable/notes/amp_examples.html#gradient-penalty
    - Measured for ‖g‖ = 6 and S = 8: the penalty is 2209 for 25, its gradient 2262 for 36; an inner step is
      −1.4 for 0.7.
    """

    code = "AMP117"
    name = "autograd-grad-of-scaled-loss"
    severity = "error"
    oracle = ("derivative",)
    hint = "multiply the result by 1.0 / scaler.get_scale() before it is used"

    def check(self, trace: Trace) -> Iterator[Violation]:
        """Yield the derivatives of scaled losses that are used undivided."""
        yield from once_per_site(trace, self._violations(trace))

    def _violations(self, trace: Trace) -> Iterator[Violation]:
        for record, taken in trace.of(Differentiate):
            scalers = tuple(dict.fromkeys(s for u in taken.loss.parts for s, e in u.scale if e > 0))
            if not scalers or not taken.use:
                continue
            used = "enter a loss" if taken.use == "penalty" else "step parameters"
            yield Violation(
                record.index,
                f"derivatives of a loss that {names(trace, scalers)} scaled {used} undivided: "
                "they are S times too large",
                story(trace, record),
                certain=are_known(trace, *scalers),
                predicts="S",
            )
