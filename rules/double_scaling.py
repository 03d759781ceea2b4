"""AMP115 double-scaling."""

from __future__ import annotations

from collections.abc import Iterator

from ampcheck.events import Backward
from ampcheck.rule import Rule, Violation
from ampcheck.trace import Trace
from ampcheck.windows import are_known, names, next_step, once_per_site, story


class DoubleScaling(Rule):
    """A loss is scaled twice.

    ## What it does
    Finds backwards of a loss that was multiplied by a loss scale more than once: nested `scale`, two
    scalers in a row, or a GradScaler around an engine that scales by itself.

    ## Why is this bad
    One unscaling takes out one scale: the step still sees S·g, and float16 gradients overflow far sooner.

    ## Example
    ```python
    loss = scaler.scale(loss)
    scaler.scale(loss).backward()
    scaler.step(optimizer)
    ```

    ## Use instead
    ```python
    scaler.scale(loss).backward()
    scaler.step(optimizer)
    ```

    ## Known problems
    Engines whose own scaler cannot be seen are not recognised.

    ## References
    - https://docs.pytorch.org/docs/stable/amp.html#torch.amp.GradScaler.scale
    - Measured: the gradient at the step is times S; Adam's parameters hide it.
    """

    code = "AMP115"
    name = "double-scaling"
    severity = "error"
    oracle = ("gradient",)
    hint = "scale the loss once"

    def check(self, trace: Trace) -> Iterator[Violation]:
        """Yield the backwards of losses scaled twice."""
        yield from once_per_site(trace, self._violations(trace))

    def _violations(self, trace: Trace) -> Iterator[Violation]:
        for record, backward in trace.of(Backward):
            scales = [
                [(s, e) for s, e in part.scale if e > 0]
                for part in backward.loss.parts
                if sum(e for _, e in part.scale if e > 0) > 1
            ]
            if not scales:
                continue
            scalers = list(dict.fromkeys(s for pairs in scales for s, _ in pairs))
            steps = (next_step(trace, record.index, owner) for owner in backward.reaches)
            yield Violation(
                record.index,
                f"the loss is scaled more than once, by {names(trace, scalers)}: the step unscales once and still "
                "sees S·g, expected one `scale`",
                story(trace, *steps),
                certain=are_known(trace, *scalers),
                predicts="S",
            )
