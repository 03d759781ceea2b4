"""AMP702 backward-bypasses-engine."""

from __future__ import annotations

from collections.abc import Iterator

from ampcheck.engines import bypassed, engine_of, is_engine_backward
from ampcheck.events import Backward, Step
from ampcheck.precedence import divided_without_scaling, inside_hooks
from ampcheck.rule import Measured, Rule, Violation
from ampcheck.trace import Trace
from ampcheck.windows import are_known, name, once_per_site, story

INSTEAD = {
    "accelerate": "accelerator.backward(loss)",
    "deepspeed": "engine.backward(loss)",
    "fabric": "fabric.backward(loss)",
    "lightning": "self.manual_backward(loss)",
}


class BackwardBypassesEngine(Rule):
    """`loss.backward()` is called where an engine must do it.

    ## What it does
    Finds plain backwards into an optimizer that was given to Accelerate with fp16, to Fabric with mixed precision, to
    DeepSpeed, or to Lightning's manual optimisation with fp16.

    ## Why is this bad
    The engine's backward scales the loss. Without it the scaler divides gradients by S that were never multiplied, or
    the engine raises: Fabric and DeepSpeed at stage 0 say so, GradScaler fails its first assertion.

    ## Example
    ```python
    model, optimizer = fabric.setup(model, optimizer)
    loss = model(batch)
    loss.backward()
    optimizer.step()
    ```

    ## Use instead
    ```python
    model, optimizer = fabric.setup(model, optimizer)
    loss = model(batch)
    fabric.backward(loss)
    optimizer.step()
    ```

    ## Known problems
    From DeepSpeed 0.18 on a plain backward works at ZeRO stages 1 to 3 without fp16: possible only, unless the stage is
    known to be 0.

    ## References
    - lightning/fabric/wrappers.py: "The current strategy and precision selection requires you to call
      `fabric.backward(loss)` instead of `loss.backward()`."
    - deepspeed/runtime/engine.py: "Direct calls to tensor.backward() are not supported in this configuration."
    """

    code = "AMP702"
    name = "backward-bypasses-engine"
    severity = "error"
    oracle = ("exception", "gradient")
    measured = (
        Measured(
            "fabric",
            "Fabric raises: it requires you to call `fabric.backward(loss)`",
            "Lightning 2.6.6, tests/models/test_fabric.py",
        ),
        Measured(
            "deepspeed-zero0",
            "DeepSpeed raises at stage 0: it requires `engine.backward(loss)`",
            "DeepSpeed 0.19.8, tests/models/test_deepspeed.py",
        ),
    )
    hint = "call the engine's backward instead"

    def check(self, trace: Trace) -> Iterator[Violation]:
        """Yield the plain backwards into optimizers of engines."""
        yield from once_per_site(trace, self._violations(trace))

    def _violations(self, trace: Trace) -> Iterator[Violation]:
        yield from self._around_accelerate(trace)
        for record, owner in bypassed(trace):
            backward, engine = record.event, engine_of(trace, owner)
            assert isinstance(backward, Backward)
            instead = INSTEAD[engine.split("-")[0]]
            yield Violation(
                record.index,
                f"the backward into {name(trace, owner)} goes around its engine, expected `{instead}`",
                certain=are_known(trace, owner)
                and owner not in backward.assumed
                and (not engine.startswith("deepspeed") or engine == "deepspeed-zero0"),
            )

    def _around_accelerate(self, trace: Trace) -> Iterator[Violation]:
        """Plain backwards whose gradients the step of an Accelerator's optimizer divides by its own scale."""
        hooks = inside_hooks(trace)
        for record, step in trace.of(Step):
            optimizer = step.optimizer
            if engine_of(trace, optimizer) not in ("accelerate", "trainer"):
                continue
            if record.before.buffer(optimizer).opaque:
                continue
            for contribution in divided_without_scaling(trace, record):
                backward = trace.records[contribution.record]
                # `compute_loss` should not differentiate at all.
                in_hook = hooks.get(backward.index, "Trainer.training_step") != "Trainer.training_step"
                if not isinstance(backward.event, Backward) or in_hook or is_engine_backward(trace, backward):
                    continue
                yield Violation(
                    backward.index,
                    f"the backward into {name(trace, optimizer)} goes around Accelerate, whose loss scale its step "
                    "divides by, expected `accelerator.backward(loss)`",
                    story(trace, record),
                    certain=are_known(trace, optimizer) and not contribution.assumed,
                )
