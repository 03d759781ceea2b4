"""AMP201 clip-before-backward."""

from __future__ import annotations

from collections.abc import Iterator

from ampcheck.boundaries import is_sure, length
from ampcheck.clipping import follows_step, idle_clips, is_clipped, step_missed, sure_owners
from ampcheck.events import Backward
from ampcheck.rule import Rule, Violation
from ampcheck.trace import Record, Trace
from ampcheck.windows import name, next_backward, next_step, once_per_site, story


class ClipBeforeBackward(Rule):
    """Gradients are clipped before the backward that makes them.

    ## What it does
    Finds a clip that never meets gradients that are still to be used: the backward comes between the clip and the
    step. Inside an accumulation window this is `clip-inside-window`, after the step `clip-after-step`.

    ## Why is this bad
    The clip sees no gradients (it returns 0) or those of the last step. What the optimizer then uses is not
    bounded: with gradients of norm 5 and a threshold of 1 the step sees 5. Nothing raises or warns.

    ## Example
    ```python
    optimizer.zero_grad()
    loss = criterion(model(inputs), targets)
    clip_grad_norm_(model.parameters(), 1.0)
    loss.backward()
    optimizer.step()
    ```

    ## Use instead
    ```python
    optimizer.zero_grad()
    loss = criterion(model(inputs), targets)
    loss.backward()
    clip_grad_norm_(model.parameters(), 1.0)
    optimizer.step()
    ```

    ## Known problems
    A clip between the backwards of two losses of one step bounds the first loss alone; that may be meant and is not
    reported.

    ## References
    - [clip_grad_norm_](https://docs.pytorch.org/docs/stable/generated/torch.nn.utils.clip_grad_norm_.html)
    - [Automatic mixed precision examples: gradient clipping](https://docs.pytorch.org/docs/stable/notes/amp_examples.html#gradient-clipping)
    """

    code = "AMP201"
    name = "clip-before-backward"
    severity = "error"
    oracle = ("gradient",)
    hint = "move the clip between the last backward (and `scaler.unscale_`) and the step"

    def check(self, trace: Trace) -> Iterator[Violation]:
        """Yield each clip that is followed by the backward and then the step that it should have bounded."""
        yield from once_per_site(trace, self._violations(trace))

    def _violations(self, trace: Trace) -> Iterator[Violation]:
        for records in idle_clips(trace):
            if any(follows_step(trace, r, o) for r in records for o in sure_owners(trace, r)):
                continue
            for record in records:
                yield from self._at(trace, record)

    def _at(self, trace: Trace, record: Record) -> Iterator[Violation]:
        if step_missed(trace, record):
            return
        for optimizer in sure_owners(trace, record):
            backward = next_backward(trace, record.index, optimizer)
            step = next_step(trace, record.index, optimizer)
            if backward is None or step is None or step.index < backward.index:
                continue
            micros = {
                r.micro
                for r in trace.records[backward.index : step.index]
                if isinstance(r.event, Backward) and optimizer in r.event.reaches
            }
            waits = length(trace) > 1 and len(micros) > 1
            if waits or is_clipped(trace, step, optimizer) or not is_sure(step.before.buffer(optimizer)):
                continue
            yield Violation(
                record.index,
                f"the clip runs before the backward: the step of {name(trace, optimizer)} uses gradients "
                "that were never clipped",
                story(trace, backward, step),
            )
