"""AMP314 engine-step-gated."""

from __future__ import annotations

from collections.abc import Iterator

from ampcheck.engines import gated_steps
from ampcheck.events import EngineCall
from ampcheck.rule import Measured, Rule, Violation
from ampcheck.trace import Trace
from ampcheck.windows import once_per_site, story


class EngineStepGated(Rule):
    """A DeepSpeed engine that counts micro-batches by itself is stepped at the boundary only.

    ## What it does
    Finds `engine.step()` under a test of the micro-batch (`(i + 1) % k == 0`) while `engine.backward` runs on each.

    ## Why is this bad
    The engine counts the calls of `step` to know where the window ends: called once in K micro-batches it updates once
    in K · K, and in a short training never. Gradients of K windows pile up meanwhile.

    ## Example
    ```python
    engine.backward(loss)
    if (i + 1) % accumulation_steps == 0:
        engine.step()
    ```

    ## Use instead
    ```python
    engine.backward(loss)
    engine.step()
    ```

    ## Known problems
    Right with `"gradient_accumulation_steps": 1`, `"managed_gradient_accumulation": false`, or a boundary that is set
    by `set_gradient_accumulation_boundary`. Where the configuration is not in the code the finding is only possible.

    ## References
    - https://www.deepspeed.ai/docs/config-json/#batch-size-related-parameters
    - Measured with DeepSpeed 0.19.8: no update at all in K micro-batches, and no warning.
    """

    code = "AMP314"
    name = "engine-step-gated"
    severity = "error"
    measured = (
        Measured(
            "deepspeed",
            "optimizer steps in 2 windows of 3: 0, expected 2",
            "DeepSpeed 0.19.8, tests/models/test_deepspeed.py",
        ),
    )
    hint = "call engine.step() once for each engine.backward(loss)"

    def check(self, trace: Trace) -> Iterator[Violation]:
        """Yield the engine's steps that wait for a boundary which its backwards do not wait for."""
        yield from once_per_site(trace, self._violations(trace))

    def _violations(self, trace: Trace) -> Iterator[Violation]:
        for record, waiting in gated_steps(trace):
            assert isinstance(record.event, EngineCall)
            yield Violation(
                record.index,
                f"the engine steps once in {len(waiting)} micro-batches, but it counts the calls of `step` itself: "
                "the update comes K times too late, or never; expected one call for each backward",
                story(trace, *waiting),
                certain=record.event.call == "counted step",
            )
