"""AMP202 clip-after-step."""

from __future__ import annotations

from collections.abc import Iterator

from ampcheck.boundaries import is_sure
from ampcheck.clipping import follows_step, idle_clips, is_clipped, step_missed, sure_owners
from ampcheck.precedence import inside_hooks
from ampcheck.rule import Rule, Violation
from ampcheck.trace import Trace
from ampcheck.windows import name, once_per_site, previous_backward, story


class ClipAfterStep(Rule):
    """Gradients are clipped after the optimizer has used them.

    ## What it does
    Finds a clip that follows the step (also a step that is hidden in a backward hook), with no clip before it.

    ## Why is this bad
    The update was made with unclipped gradients. The norm that the clip returns looks right, so that logs hide the
    mistake.

    ## Example
    ```python
    loss.backward()
    optimizer.step()
    clip_grad_norm_(model.parameters(), 1.0)
    optimizer.zero_grad()
    ```

    ## Use instead
    ```python
    loss.backward()
    clip_grad_norm_(model.parameters(), 1.0)
    optimizer.step()
    optimizer.zero_grad()
    ```

    ## Known problems
    None known.

    ## References
    - [clip_grad_norm_](https://docs.pytorch.org/docs/stable/generated/torch.nn.utils.clip_grad_norm_.html)
    """

    code = "AMP202"
    name = "clip-after-step"
    severity = "error"
    oracle = ("gradient",)
    hint = "move the clip before the step (under a GradScaler after `scaler.unscale_`)"

    def check(self, trace: Trace) -> Iterator[Violation]:
        """Yield each clip whose gradients the step of the same iteration has already used."""
        yield from once_per_site(trace, self._violations(trace))

    def _violations(self, trace: Trace) -> Iterator[Violation]:
        for records in idle_clips(trace):
            for record in records:
                if step_missed(trace, record):
                    continue
                for optimizer in sure_owners(trace, record):
                    step = follows_step(trace, record, optimizer)
                    if step and step.index in inside_hooks(trace):
                        continue  # an engine clips and steps after its hook: the hook's own step is the mistake
                    if step is None or step.before.buffer(optimizer).is_empty:
                        continue
                    if is_clipped(trace, step, optimizer) or not is_sure(step.before.buffer(optimizer)):
                        continue
                    yield Violation(
                        record.index,
                        f"the clip runs after {name(trace, optimizer)} has stepped: its update was not clipped",
                        story(trace, previous_backward(trace, step.index, optimizer), step),
                    )
