"""AMP105 unscale-inside-window."""

from __future__ import annotations

from collections.abc import Iterator

from ampcheck.events import Backward, Step, Unscale
from ampcheck.precedence import added_to_unscaled
from ampcheck.rule import Rule, Violation
from ampcheck.spans import is_stray
from ampcheck.trace import Record, Trace
from ampcheck.windows import (
    are_known,
    escapes_between,
    fresh,
    name,
    next_step,
    next_update,
    once_per_site,
    story,
)


class UnscaleInsideWindow(Rule):
    """Gradients are unscaled although more backwards of the same window follow.

    ## What it does
    Finds `scaler.unscale_(optimizer)` between the backwards of one window: on every micro-batch, on an early one
    only, or between the backwards of two losses.

    ## Why is this bad
    Later backwards add gradients that carry S to gradients that do not any more. A second `unscale_` raises; with
    `update` on every micro-batch torch says nothing, and early micro-batches are divided by S again and again.

    ## Example
    ```python
    for i, (x, y) in enumerate(loader):
        scaler.scale(loss_of(x, y) / k).backward()
        scaler.unscale_(optimizer)
        if (i + 1) % k == 0:
            scaler.step(optimizer)
            scaler.update()
            optimizer.zero_grad()
    ```

    ## Use instead
    ```python
    for i, (x, y) in enumerate(loader):
        scaler.scale(loss_of(x, y) / k).backward()
        if (i + 1) % k == 0:
            scaler.unscale_(optimizer)
            scaler.step(optimizer)
            scaler.update()
            optimizer.zero_grad()
    ```

    ## Known problems
    Where a test of the user's own leaves the window after `unscale_`, the update or zeroing that this path lacks is
    reported instead (AMP112, AMP313).

    ## References
    - https://docs.pytorch.org/docs/stable/notes/amp_examples.html#gradient-accumulation: gradients must stay scaled,
      by one and the same scale, until the window is complete.
    - For g = 1, 2, 3, K = 3, S = 8: 13.667 instead of 2 with one early `unscale_`; 1.0885 with `unscale_` and
      `update` on every micro-batch.
    """

    code = "AMP105"
    name = "unscale-inside-window"
    severity = "error"
    oracle = ("exception", "gradient")
    hint = "unscale once, after the window's last backward"

    def check(self, trace: Trace) -> Iterator[Violation]:
        """Yield the unscalings that a backward of the same window follows."""
        if trace.complete:
            yield from once_per_site(trace, self._violations(trace))

    def _violations(self, trace: Trace) -> Iterator[Violation]:
        for record, unscale in trace.of(Unscale):
            optimizer = unscale.optimizer
            backward = None if record.refused else added_to_unscaled(trace, record)
            if backward is None or not isinstance(backward.event, Backward):
                continue
            first = fresh(trace, record, optimizer)
            if record.before.buffer(optimizer).opaque or escapes_between(
                trace, first[0].record, backward.index, unscale.scaler, optimizer
            ):
                continue
            later = [
                r
                for r, again in trace.of(Unscale)
                if r.index > backward.index and again.optimizer == optimizer
            ]
            step = next_step(trace, record.index, optimizer)
            if step is not None and all(is_stray(trace, c, optimizer, step) for c in first):
                continue  # AMP317: what another optimizer's loss has left there should not be there at all
            yield Violation(
                record.index,
                f"gradients of {name(trace, optimizer)} are unscaled inside their window: the next backward adds "
                "scaled gradients to unscaled ones, expected one `unscale_` after the last backward",
                story(
                    trace,
                    *(c.record for c in first),
                    backward,
                    *later[:1],
                    step,
                    next_update(trace, step.index if step else record.index, unscale.scaler),
                ),
                certain=not _is_for_another(trace, record, backward)
                and are_known(trace, unscale.scaler)
                and optimizer not in backward.event.assumed
                and not any(c.assumed for c in first),
            )


def _is_for_another(trace: Trace, record: Record, backward: Record) -> bool:
    """Whether one call unscales several optimizers for the step of another: what this one holds is left over there."""
    together = {
        event.optimizer
        for r, event in trace.of(Unscale)
        if event.site == record.event.site and r.calls == record.calls and r.event != record.event
    }
    return any(
        isinstance(r.event, Step) and r.event.optimizer in together
        for r in trace.between(record.index, backward.index)
    )
