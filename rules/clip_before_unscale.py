"""AMP101 clip-before-unscale."""

from __future__ import annotations

import math
from collections.abc import Iterator

from ampcheck.events import Backward, Clip
from ampcheck.precedence import still_scaled
from ampcheck.rule import Rule, Violation
from ampcheck.trace import Record, Trace
from ampcheck.windows import names, next_backward, next_step, once_per_site, previous_step, story


class ClipBeforeUnscale(Rule):
    """Gradients are clipped while they still carry the loss scale.

    ## What it does
    Finds every clip, by norm or by value, by torch, by hand or in a tensor hook, that runs after
    `scaler.scale(loss).backward()` and before the gradients are unscaled.

    ## Why is this bad
    The gradients are S times too large when they are clipped, and `scaler.step` divides by S afterwards: the
    threshold M acts as M / S. With S = 65536 nearly every update has the norm M / 65536. A clip by value
    also turns an overflow into an ordinary number, so that the step runs where it should have been skipped.

    ## Example
    ```python
    scaler.scale(loss).backward()
    torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    scaler.step(optimizer)
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
    Where the step that follows is raw (`optimizer.step()`), only that step is reported (AMP113): one missing
    unscale is one finding; where `unscale_` follows the step, only that `unscale_` (AMP107). A clip that more
    backwards of its window follow is out of place already (AMP203): it is judged where it runs after the last one.
    A clip of unscaled and scaled gradients together belongs to AMP205. Parameters that no visible optimizer holds
    are reported as possible only. An infinite threshold is taken as a measurement.

    ## References
    - https://docs.pytorch.org/docs/stable/notes/amp_examples.html#gradient-clipping: unscale before clipping.
    - https://github.com/pytorch/examples/issues/1196: the fault in an official example.
    - For (3, 4), M = 1 and S = 8 the step sees (0.075, 0.1), of norm 0.125, where (0.6, 0.8) is right.
    """

    code = "AMP101"
    name = "clip-before-unscale"
    severity = "error"
    oracle = ("gradient", "clip-norm")
    hint = "call scaler.unscale_(optimizer) before the clip"

    def check(self, trace: Trace) -> Iterator[Violation]:
        """Yield the clips of gradients that carry a loss scale."""
        yield from once_per_site(trace, self._violations(trace))

    def _violations(self, trace: Trace) -> Iterator[Violation]:
        for record, clip in trace.of(Clip):
            if clip.threshold is not None and math.isinf(clip.threshold):
                continue
            held = tuple(o for o in clip.owners if not record.before.buffer(o).is_empty)
            scaled = still_scaled(trace, record, held)
            if scaled is None or scaled.owners != held:
                continue
            if any(_is_added_to(trace, record, owner) for owner in held):
                continue
            bound = "each component is bounded by" if clip.style == "value" else "the threshold acts as"
            steps = (next_step(trace, record.index, owner) for owner in held)
            yield Violation(
                record.index,
                f"gradients of {names(trace, held)} are clipped while they still carry the loss scale: "
                f"{bound} M / S, expected M",
                story(trace, *(c.record for c in scaled.contributions), *steps),
                certain=scaled.certain and not all(owner.startswith("free:") for owner in held),
                predicts="" if clip.by == "hook" else "1/S",
            )


def _is_added_to(trace: Trace, record: Record, owner: str) -> bool:
    """Whether another backward of the same window certainly adds to what a record clips."""
    backward, step = (find(trace, record.index, owner) for find in (next_backward, next_step))
    if step is None:  # the run ends inside a window, or steps are not to be seen here
        return previous_step(trace, record.index, owner) is not None
    if backward is None or step.index < backward.index:
        return False
    return isinstance(backward.event, Backward) and owner not in backward.event.assumed
