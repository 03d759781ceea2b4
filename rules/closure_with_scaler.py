"""AMP120 closure-with-scaler."""

from __future__ import annotations

from collections.abc import Iterator

from ampcheck.events import Step
from ampcheck.rule import Rule, Violation
from ampcheck.trace import Trace
from ampcheck.windows import are_known, name, once_per_site, previous_backward, story


class ClosureWithScaler(Rule):
    """A closure is given to the step of a GradScaler.

    ## What it does
    Finds `scaler.step(optimizer, closure)`, the closure by position or by keyword, as LBFGS and SAM want it.

    ## Why is this bad
    As `closure=` torch refuses it. By position it slips through: the scaler unscales what is there and then
    calls `optimizer.step(closure)`, which clears the gradients and computes them anew, scaled. The optimizer
    steps on gradients that are S times too large, and an overflow in them is neither seen nor skipped.

    ## Example
    ```python
    def closure():
        optimizer.zero_grad()
        loss = criterion(model(inputs), targets)
        scaler.scale(loss).backward()
        return loss


    scaler.step(optimizer, closure)
    scaler.update()
    ```

    ## Use instead
    ```python
    def closure():
        optimizer.zero_grad()
        loss = criterion(model(inputs), targets)
        loss.backward()
        return loss


    optimizer.step(closure)  # without a scaler: train in float32 or bfloat16
    ```

    ## Known problems
    Something that is passed on and may be None is reported as possible. LBFGS does not care for the size of
    its gradients, so that its parameters hide the fault as long as nothing overflows.

    ## References
    - https://docs.pytorch.org/docs/stable/amp.html#torch.amp.GradScaler.step: "Closure use is not currently
      supported."
    - Measured in torch 2.13: `closure=` raises; by position the step sees S · g, and after an infinity in it
      the parameters are NaN while S stays.
    """

    code = "AMP120"
    name = "closure-with-scaler"
    severity = "error"
    oracle = ("exception", "gradient", "parameters")
    hint = "step without a scaler (float32 or bfloat16), or without a closure"

    def check(self, trace: Trace) -> Iterator[Violation]:
        """Yield the scaled steps that are given a closure."""
        yield from once_per_site(trace, self._violations(trace))

    def _violations(self, trace: Trace) -> Iterator[Violation]:
        for record, step in trace.of(Step):
            if step.scaler is None or not step.closure:
                continue
            if step.passed == "positional":
                says = "its backward is not unscaled, so that the step uses S times the gradients"
            else:
                says = "torch raises, since closures are not supported"
            yield Violation(
                record.index,
                f"{name(trace, step.scaler)} steps {name(trace, step.optimizer)} with a closure: {says}",
                story(trace, previous_backward(trace, record.index, step.optimizer)),
                certain=bool(step.passed) and are_known(trace, step.scaler),
            )
