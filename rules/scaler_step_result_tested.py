"""AMP121 scaler-step-result-tested."""

from __future__ import annotations

from collections.abc import Iterator

from ampcheck.events import ResultTest
from ampcheck.rule import Rule, Violation
from ampcheck.trace import Trace
from ampcheck.windows import name, once_per_site, previous_step, story


class ScalerStepResultTested(Rule):
    """What the step of a GradScaler returned is taken for its outcome.

    ## What it does
    Finds tests of the value of `scaler.step(optimizer)`: `if scaler.step(optimizer):`, `if result is None:`.

    ## Why is this bad
    `scaler.step` returns what `optimizer.step()` returns, which is None, and None as well when it skips the
    step. The test comes out the same way whatever happened: a schedule behind it never advances, or always
    does.

    ## Example
    ```python
    done = scaler.step(optimizer)
    scaler.update()
    if done is not None:
        scheduler.step()
    ```

    ## Use instead
    ```python
    scale = scaler.get_scale()
    scaler.step(optimizer)
    scaler.update()
    if scaler.get_scale() >= scale:
        scheduler.step()
    ```

    ## Known problems
    A scaler that is not built where ampcheck can see it may be of a class whose `step` returns something:
    then the finding is possible only. A test with nothing in its branches that trains is not looked at.

    ## References
    - https://docs.pytorch.org/docs/stable/amp.html#torch.amp.GradScaler.step: the return value of
      `optimizer.step`.
    - Measured in torch 2.13: None for a step that is done and for one that is skipped.
    """

    code = "AMP121"
    name = "scaler-step-result-tested"
    severity = "warning"
    oracle = ("skip-test",)
    hint = "compare scaler.get_scale() before and after scaler.update()"

    def check(self, trace: Trace) -> Iterator[Violation]:
        """Yield the tests of what a scaled step returned."""
        yield from once_per_site(trace, self._violations(trace))

    def _violations(self, trace: Trace) -> Iterator[Violation]:
        for record, test in trace.of(ResultTest):
            role = trace.roles.get(test.scaler)
            yield Violation(
                record.index,
                f"the result of {name(trace, test.scaler)}.step is tested: it is None, whether the step was done or "
                "skipped",
                story(trace, previous_step(trace, record.index, test.optimizer)),
                certain=role is not None and role.known and role.site is not None,
            )
