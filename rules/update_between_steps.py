"""AMP110 update-between-steps."""

from __future__ import annotations

from collections.abc import Iterator

from ampcheck.events import Step, Update
from ampcheck.gradients import UNSCALED
from ampcheck.precedence import step_beyond_update
from ampcheck.rule import Rule, Violation
from ampcheck.trace import Trace
from ampcheck.windows import are_known, escapes_between, fresh, name, next_update, once_per_site, story


class UpdateBetweenSteps(Rule):
    """The scaler is updated between the steps of two optimizers that share it.

    ## What it does
    Finds `scaler.update()` after the step of one optimizer, while gradients of another already wait for theirs.

    ## Why is this bad
    `update` may halve or double the scale: the second optimizer's gradients were multiplied by the old one and are
    divided by the new one. If they were unscaled already, `update` forgets it and the step divides them again.

    ## Example
    ```python
    scaler.scale(loss_a + loss_b).backward()
    scaler.step(opt_a)
    scaler.update()
    scaler.step(opt_b)
    scaler.update()
    ```

    ## Use instead
    ```python
    scaler.scale(loss_a + loss_b).backward()
    scaler.step(opt_a)
    scaler.step(opt_b)
    scaler.update()
    ```

    ## Known problems
    Where the second optimizer's backward comes after the `update` (a GAN that updates after each phase), nothing is
    wrong and nothing is reported; nor for `update(new_scale)`, nor where each optimizer has a scaler of its own.

    ## References
    - https://docs.pytorch.org/docs/stable/notes/amp_examples.html#working-with-multiple-models-losses-and-optimizers:
      `update` once, after all optimizers of the iteration.
    - Measured: times 2 after an overflow in the first, times 1/2 after growth, times 1/S where it was unscaled.
    """

    code = "AMP110"
    name = "update-between-steps"
    severity = "error"
    oracle = ("gradient", "scale")
    hint = "call scaler.update() once, after the last optimizer's step"

    def check(self, trace: Trace) -> Iterator[Violation]:
        """Yield the updates between two optimizers' steps."""
        yield from once_per_site(trace, self._violations(trace))

    def _violations(self, trace: Trace) -> Iterator[Violation]:
        for record, update in trace.of(Update):
            steps = step_beyond_update(trace, record)
            if steps is None:
                continue
            first, second = (s.event for s in steps)
            if not isinstance(first, Step) or not isinstance(second, Step):
                continue
            waiting = fresh(trace, record, second.optimizer)
            buffer = record.before.buffer(second.optimizer)
            start = min(c.record for c in waiting)
            if buffer.opaque or escapes_between(
                trace, start, steps[1].index, update.scaler, second.optimizer
            ):
                continue
            unscaled = record.before.phase(update.scaler, second.optimizer) == UNSCALED
            what = "divided by S a second time" if unscaled else "divided by another scale than multiplied by"
            yield Violation(
                record.index,
                f"{name(trace, update.scaler)} is updated between the steps of {name(trace, first.optimizer)} and "
                f"{name(trace, second.optimizer)}: the latter's gradients are {what}; expected one update after both",
                story(
                    trace,
                    *(c.record for c in waiting),
                    *steps,
                    next_update(trace, steps[1].index, update.scaler),
                ),
                certain=are_known(trace, update.scaler) and not any(c.assumed for c in waiting),
                predicts="1/S" if unscaled else "",
            )
