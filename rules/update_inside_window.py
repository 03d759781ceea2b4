"""AMP109 update-inside-window."""

from __future__ import annotations

from collections.abc import Iterator

from ampcheck.events import Step, Update
from ampcheck.precedence import updates_idle_micro_batch
from ampcheck.rule import Rule, Violation
from ampcheck.trace import Trace
from ampcheck.windows import (
    are_known,
    escapes_between,
    name,
    once_per_site,
    previous_backward,
    previous_update,
    story,
)


class UpdateInsideWindow(Rule):
    """The loss scale is updated on micro-batches that do not step.

    ## What it does
    Finds `scaler.update()` on every micro-batch of a window whose `scaler.step` waits for the boundary.

    ## Why is this bad
    Inside the window nothing has been checked for overflow yet, so torch raises at the first micro-batch. If it
    did not, the gradients of one window would carry different scales.

    ## Example
    ```python
    for i, (x, y) in enumerate(loader):
        scaler.scale(loss_of(x, y) / k).backward()
        if (i + 1) % k == 0:
            scaler.step(optimizer)
            optimizer.zero_grad()
        scaler.update()
    ```

    ## Use instead
    ```python
    for i, (x, y) in enumerate(loader):
        scaler.scale(loss_of(x, y) / k).backward()
        if (i + 1) % k == 0:
            scaler.step(optimizer)
            scaler.update()
            optimizer.zero_grad()
    ```

    ## Known problems
    `scaler.update(new_scale)` is legal at any time. With `unscale_` on every micro-batch as well, torch is silent and
    the fault is AMP105; with `scaler.step` as well, AMP301.

    ## References
    - https://docs.pytorch.org/docs/stable/notes/amp_examples.html#gradient-accumulation: `update` only after a step.
    - torch raises `No inf checks were recorded prior to update.`
    """

    code = "AMP109"
    name = "update-inside-window"
    severity = "error"
    oracle = ("exception", "scale")
    hint = "update the scaler at the boundary, right after scaler.step"

    def check(self, trace: Trace) -> Iterator[Violation]:
        """Yield the updates on micro-batches that do not step."""
        if trace.complete and trace.window is not None:
            yield from once_per_site(trace, self._violations(trace))

    def _violations(self, trace: Trace) -> Iterator[Violation]:
        for record, update in trace.of(Update):
            step = updates_idle_micro_batch(trace, record)
            if step is None or not isinstance(step.event, Step):
                continue
            last = previous_update(trace, record.index, update.scaler)
            owner = step.event.optimizer
            if escapes_between(trace, last.index if last else -1, record.index, update.scaler, owner):
                continue
            yield Violation(
                record.index,
                f"{name(trace, update.scaler)} is updated on micro-batches that do not step "
                f"{name(trace, owner)}: torch raises, expected once per window, after the step",
                story(trace, previous_backward(trace, record.index, owner), step),
                certain=are_known(trace, update.scaler),
            )
