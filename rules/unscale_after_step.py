"""AMP107 unscale-after-step."""

from __future__ import annotations

from collections.abc import Iterator

from ampcheck.events import Step, Unscale
from ampcheck.precedence import follows_step
from ampcheck.rule import Rule, Violation
from ampcheck.trace import Trace
from ampcheck.windows import (
    are_known,
    escapes_between,
    name,
    next_backward,
    next_step,
    once_per_site,
    previous_backward,
    repeats_statement,
    story,
)


class UnscaleAfterStep(Rule):
    """Gradients are unscaled after the step that used them.

    ## What it does
    Finds `scaler.unscale_(optimizer)` behind `scaler.step(optimizer)` in the same window.

    ## Why is this bad
    `scaler.step` has unscaled already. Before `update`, torch raises. After `update`, the call divides old gradients
    once more and marks the optimizer as unscaled: the next step does not unscale and sees S·g.

    ## Example
    ```python
    scaler.scale(loss).backward()
    scaler.step(optimizer)
    scaler.unscale_(optimizer)
    torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    scaler.update()
    ```

    ## Use instead
    ```python
    scaler.scale(loss).backward()
    scaler.unscale_(optimizer)
    torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    scaler.step(optimizer)
    scaler.update()
    ```

    ## Known problems
    With a backward in between, what is missing is the `update` (AMP112). A raw step before `unscale_` is AMP113.

    ## References
    - https://docs.pytorch.org/docs/stable/amp.html#torch.amp.GradScaler.unscale_
    - torch raises `unscale_() is being called after step().`
    """

    code = "AMP107"
    name = "unscale-after-step"
    severity = "error"
    oracle = ("exception", "gradient")
    hint = "move unscale_ before the clip and scaler.step"

    def check(self, trace: Trace) -> Iterator[Violation]:
        """Yield the unscalings of gradients that a scaled step has used."""
        yield from once_per_site(trace, self._violations(trace))

    def _violations(self, trace: Trace) -> Iterator[Violation]:
        for record, unscale in trace.of(Unscale):
            optimizer, step = unscale.optimizer, follows_step(trace, record)
            if step is None or not isinstance(step.event, Step) or step.event.scaler != unscale.scaler:
                continue
            if record.before.buffer(optimizer).opaque or escapes_between(
                trace, step.index, record.index, unscale.scaler, optimizer
            ):
                continue
            what = "torch raises" if record.refused else "the next step is not unscaled and sees S·g"
            later = (find(trace, record.index, optimizer) for find in (next_backward, next_step))
            yield Violation(
                record.index,
                f"gradients of {name(trace, optimizer)} are unscaled after the step that used them: {what}; "
                "expected before the step",
                story(
                    trace,
                    previous_backward(trace, step.index, optimizer),
                    step,
                    *(() if record.refused else later),
                ),
                certain=are_known(trace, unscale.scaler) and not repeats_statement(step, record),
                predicts="" if record.refused else "S",
            )
