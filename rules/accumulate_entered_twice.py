"""AMP315 accumulate-entered-twice."""

from __future__ import annotations

import math
from collections.abc import Iterator

from ampcheck.boundaries import length
from ampcheck.events import Backward, Step
from ampcheck.precedence import entered_twice
from ampcheck.rule import Rule, Violation
from ampcheck.trace import Trace, Window
from ampcheck.windows import once_per_site, story


class AccumulateEnteredTwice(Rule):
    """An Accelerator's `accumulate` is entered more than once in an iteration.

    ## What it does
    Finds an iteration in which one Accelerator's `accumulate` is entered again, in the same `with` statement or in
    another one.

    ## Why is this bad
    `accumulate` counts its entries, not the batches: with two entries a batch the window is over after half as many
    micro-batches. Every loss is still divided by the whole number, so that each update is half as large as well, and
    with several `with` blocks one after the other some optimizers may never get to step.

    ## Example
    ```python
    with accelerator.accumulate(unet), accelerator.accumulate(text_encoder):
        loss = compute_loss(unet, text_encoder, batch)
        accelerator.backward(loss)
        optimizer.step()
        optimizer.zero_grad()
    ```

    ## Use instead
    ```python
    with accelerator.accumulate(unet, text_encoder):
        loss = compute_loss(unet, text_encoder, batch)
        accelerator.backward(loss)
        optimizer.step()
        optimizer.zero_grad()
    ```

    ## Known problems
    Where the window has an odd number of micro-batches and every one of them enters twice, only the windows' order
    changes: that is not reported. An unknown number is taken to be even.

    ## References
    - [accelerate.Accelerator.accumulate](https://huggingface.co/docs/accelerate/package_reference/accelerator):
      several models are given to one call.
    - Measured with Accelerate 1.15.0, K = 2: an optimizer step on every micro-batch, each with half its gradient.
    """

    code = "AMP315"
    name = "accumulate-entered-twice"
    severity = "error"
    oracle = ("windows", "steps")
    hint = "enter `accumulate` once an iteration, with all models: accelerator.accumulate(unet, text_encoder)"

    def check(self, trace: Trace) -> Iterator[Violation]:
        """Yield the second entry of an iteration."""
        if trace.window and length(trace) > 1:
            yield from once_per_site(trace, self._violations(trace, trace.window))

    def _violations(self, trace: Trace, window: Window) -> Iterator[Violation]:
        for first, second in entered_twice(trace):
            if math.gcd(window.length, 2) == 1:
                continue
            backwards = [r for r, b in trace.of(Backward) if r.index > second.index and b.reaches][:2]
            step = next((r for r, _ in trace.of(Step) if backwards and r.index > backwards[0].index), None)
            yield Violation(
                second.index,
                "`accumulate` is entered twice in one iteration and counts two micro-batches: the window is over after "
                f"half of {window.named}",
                story(trace, first, *backwards[:1], step),
                predicts="1/2",
            )
