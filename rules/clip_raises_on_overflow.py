"""AMP208 clip-raises-on-overflow."""

from __future__ import annotations

from collections.abc import Iterator

from ampcheck.boundaries import is_sure, next_touch
from ampcheck.events import Clip, Step
from ampcheck.rule import Rule, Violation
from ampcheck.trace import Trace
from ampcheck.windows import are_known, name, once_per_site, previous_backward, story


class ClipRaisesOnOverflow(Rule):
    """A clip with `error_if_nonfinite=True` raises on the overflows that a GradScaler is there to skip.

    ## What it does
    Finds `clip_grad_norm_(..., error_if_nonfinite=True)` of gradients that the next `scaler.step` uses.

    ## Why is this bad
    A scaler lets gradients overflow now and then: it skips that step and lowers the scale. A fresh scaler starts at
    65536 and often overflows in its very first steps. The clip raises before the scaler can skip, and ends the run.

    ## Example
    ```python
    scaler.scale(loss).backward()
    scaler.unscale_(optimizer)
    torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0, error_if_nonfinite=True)
    scaler.step(optimizer)
    scaler.update()
    ```

    ## Use instead
    ```python
    scaler.scale(loss).backward()
    scaler.unscale_(optimizer)
    torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    scaler.step(optimizer)  # skips the step when a gradient is not finite
    scaler.update()
    ```

    ## Known problems
    Without a scaler, or with a disabled one, the check is right and not reported; neither is a clip inside a `try`
    whose handler may deal with the exception.

    ## References
    - https://docs.pytorch.org/docs/stable/generated/torch.nn.utils.clip_grad_norm_.html: `error_if_nonfinite`.
    - https://docs.pytorch.org/docs/stable/amp.html#torch.amp.GradScaler.step: steps are skipped on inf or NaN.
    """

    code = "AMP208"
    name = "clip-raises-on-overflow"
    severity = "warning"
    oracle = ("exception",)
    hint = "drop error_if_nonfinite: scaler.step skips such steps by itself"

    def check(self, trace: Trace) -> Iterator[Violation]:
        """Yield the strict clips before a step through a scaler."""
        yield from once_per_site(trace, self._violations(trace))

    def _violations(self, trace: Trace) -> Iterator[Violation]:
        for record, clip in trace.of(Clip):
            if not clip.error_if_nonfinite or clip.style != "norm":
                continue
            for owner in clip.owners:
                touch = next_touch(trace, record.index, owner)
                step = touch.event if touch else None
                if not isinstance(step, Step) or step.scaler is None:
                    continue
                yield Violation(
                    record.index,
                    f"the clip raises on the first overflow, before {name(trace, step.scaler)} can skip the step of "
                    f"{name(trace, owner)}",
                    story(trace, previous_backward(trace, record.index, owner), touch),
                    certain=are_known(trace, step.scaler) and is_sure(record.before.buffer(owner)),
                )
