"""AMP108 step-twice."""

from __future__ import annotations

from collections.abc import Iterator

from ampcheck.engines import counted_twice
from ampcheck.events import Step
from ampcheck.precedence import repeated_step
from ampcheck.rule import Rule, Violation
from ampcheck.trace import Trace
from ampcheck.windows import (
    are_known,
    name,
    next_update,
    once_per_site,
    previous_backward,
    repeats_statement,
    share_gradients,
    story,
)


class StepTwice(Rule):
    """An optimizer is stepped twice on one window.

    ## What it does
    Finds a second step of an optimizer on the same gradients, scaled, raw, or one of each; `scaler.step` on
    every micro-batch of a window whose `update` waits for the boundary; and a second `engine.step()` for one
    backward of a DeepSpeed engine that counts micro-batches.

    ## Why is this bad
    torch raises at a second `scaler.step` before `update`. A raw and a scaled step are both taken: the parameters
    move by (1 + S)·g where the raw one comes first, by 2·g where it comes second. An engine counts its steps: called
    twice, it takes half a window for a whole one, divided by K.

    ## Example
    ```python
    scaler.scale(loss).backward()
    scaler.step(optimizer)
    optimizer.step()
    scaler.update()
    ```

    ## Use instead
    ```python
    scaler.scale(loss).backward()
    scaler.step(optimizer)
    scaler.update()
    ```

    ## Known problems
    Steps with a closure are not judged. One statement that runs twice in a micro-batch (a loop over optimizers) is
    reported as possible only. A step on every micro-batch with its `update` is AMP301; a step in the next window
    without `update` is AMP112.

    ## References
    - https://docs.pytorch.org/docs/stable/amp.html#torch.amp.GradScaler.step
    - torch raises `step() has already been called since the last update().`
    """

    code = "AMP108"
    name = "step-twice"
    severity = "error"
    oracle = ("exception", "steps", "gradient")
    hint = "step once per window: scaler.step(optimizer), then scaler.update()"

    def check(self, trace: Trace) -> Iterator[Violation]:
        """Yield the second steps on one window."""
        yield from once_per_site(trace, self._violations(trace))
        yield from once_per_site(trace, self._counted(trace))

    def _counted(self, trace: Trace) -> Iterator[Violation]:
        for first, second, optimizer in counted_twice(trace):
            yield Violation(
                second.index,
                "the engine counts this step as another micro-batch: its window is over after half of its "
                "micro-batches; expected one call for each backward",
                story(trace, first),
                certain=are_known(trace, optimizer) and not repeats_statement(first, second),
            )

    def _violations(self, trace: Trace) -> Iterator[Violation]:
        for record, step in trace.of(Step):
            first = repeated_step(trace, record)
            if first is None or not isinstance(first.event, Step):
                continue
            roles = [r for r in (step.scaler, first.event.scaler) if r]
            raw = step.scaler is None or first.event.scaler is None
            if share_gradients(trace, first, record, step.optimizer):
                how = "torch raises" if record.refused else "both steps are taken"
                message = (
                    f"{name(trace, step.optimizer)} is stepped a second time on the same gradients: {how}"
                )
            else:
                message = (
                    f"{name(trace, step.optimizer)} is stepped on every micro-batch, but "
                    f"{name(trace, step.scaler or '')} is updated once per window: torch raises at the second step"
                )
            update = next_update(trace, record.index, roles[0]) if roles else None
            yield Violation(
                record.index,
                f"{message}; expected one step per window",
                story(
                    trace,
                    previous_backward(trace, first.index, step.optimizer),
                    first,
                    previous_backward(trace, record.index, step.optimizer),
                    update,
                ),
                certain=are_known(trace, *roles, *([step.optimizer] if raw else []))
                and not repeats_statement(first, record),
            )
