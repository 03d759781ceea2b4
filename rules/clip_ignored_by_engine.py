"""AMP209 clip-ignored-by-engine."""

from __future__ import annotations

from collections.abc import Iterator

from ampcheck.engines import engine_of
from ampcheck.events import EngineCall
from ampcheck.rule import Measured, Rule, Violation
from ampcheck.trace import Trace
from ampcheck.windows import names, once_per_site, story


class ClipIgnoredByEngine(Rule):
    """Gradients are clipped by torch where DeepSpeed has taken them away.

    ## What it does
    Finds torch's clips, and those written by hand, on parameters of a DeepSpeed engine with ZeRO stage 1, 2 or 3.

    ## Why is this bad
    The engine moves each gradient into its partition during the backward: `p.grad` is None afterwards, the clip returns
    0.0 and changes nothing. What bounds the update is the engine's own `gradient_clipping`: 1.0 where it is not set,
    none in older versions. Nothing raises or warns.

    ## Example
    ```python
    engine.backward(loss)
    torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    engine.step()
    ```

    ## Use instead
    ```python
    config = {"gradient_clipping": 1.0, "zero_optimization": {"stage": 2}}
    engine.backward(loss)
    engine.step()
    ```

    ## Known problems
    Where the stage is not in the code (a JSON file, a variable) the finding is only possible: at stage 0 the clip
    works.
    The replay cannot run DeepSpeed: a test of the library model against the installed package is the evidence.

    ## References
    - https://www.deepspeed.ai/docs/config-json/#gradient-clipping: the engine's own setting.
    - Measured with DeepSpeed 0.19.8: at stage 1 the clip returns 0.0, and with `gradient_clipping` 0 the step is whole.
    """

    code = "AMP209"
    name = "clip-ignored-by-engine"
    severity = "error"
    measured = (
        Measured(
            "deepspeed",
            "the clip returns 0.0 for a norm of 5.0, and the update is 5.0, expected 1.0 = M",
            "DeepSpeed 0.19.8, tests/models/test_deepspeed.py",
        ),
    )
    hint = 'set "gradient_clipping" in the DeepSpeed configuration'

    def check(self, trace: Trace) -> Iterator[Violation]:
        """Yield the clips of gradients that are not there."""
        yield from once_per_site(trace, self._violations(trace))

    def _violations(self, trace: Trace) -> Iterator[Violation]:
        last = None
        for record, call in trace.of(EngineCall):
            if call.call == "backward":
                last = record
            if call.call != "clip":
                continue
            stages = {engine_of(trace, role) for role in call.roles}
            yield Violation(
                record.index,
                f"the clip finds no gradients: DeepSpeed holds those of {names(trace, call.roles)} in partitions of "
                "its own, and this threshold bounds nothing",
                story(trace, last),
                certain="deepspeed" not in stages,
            )
