"""AMP303 zero-grad-before-step."""

from __future__ import annotations

from collections.abc import Iterator

from ampcheck.boundaries import is_conditional, is_eventful, next_touch, optimizers
from ampcheck.events import Backward, Clip, Edit, Escape, Read, Step, Unscale, Update, ZeroGrad
from ampcheck.rule import Rule, Violation
from ampcheck.spans import is_stray
from ampcheck.trace import Trace
from ampcheck.windows import are_known, fresh, name, once_per_site, story


class ZeroGradBeforeStep(Rule):
    """Gradients are zeroed before the optimizer has used them.

    ## What it does
    Finds a `zero_grad` between a window's last backward and its step, and gradients that are zeroed again and again
    with no step at all.

    ## Why is this bad
    The update is zero. A GradScaler raises `No inf checks were recorded for this optimizer.`; with
    `set_to_none=False`, after `unscale_` or without a scaler nothing is said, and momentum and weight decay
    still move the parameters.

    ## Example
    ```python
    loss.backward()
    optimizer.zero_grad()
    optimizer.step()
    ```

    ## Use instead
    ```python
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    ```

    ## Known problems
    Loops that only read gradients (saliency, Fisher information) need no step: where the reading can be seen they are
    left alone.

    ## References
    - [Optimizer.zero_grad](https://docs.pytorch.org/docs/stable/generated/torch.optim.Optimizer.zero_grad.html)
    """

    code = "AMP303"
    name = "zero-grad-before-step"
    severity = "error"
    oracle = ("exception", "gradient", "steps")
    hint = "zero the gradients after the step, or before the forward pass of the next window"

    def check(self, trace: Trace) -> Iterator[Violation]:
        """Yield each zeroing that robs the next step, or every step, of its gradients."""
        if trace.complete:
            yield from once_per_site(trace, self._robbed(trace))
            yield from once_per_site(trace, self._never_used(trace))

    def _robbed(self, trace: Trace) -> Iterator[Violation]:
        known = optimizers(trace)
        for record, zero in trace.of(ZeroGrad):
            for optimizer in zero.owners:
                step = next_touch(trace, record.index, optimizer)
                if optimizer not in known or step is None or not isinstance(step.event, Step):
                    continue
                lost = [c for c in fresh(trace, record, optimizer) if not c.assumed]
                if not lost or is_conditional(trace, record, optimizer):
                    continue
                if any(r.before.buffer(optimizer).opaque for r in (record, step)):
                    continue
                yield Violation(
                    record.index,
                    f"the gradients are zeroed before {name(trace, optimizer)} steps: it has nothing to step on",
                    story(trace, lost[-1].record, step),
                    predicts="0",
                )

    def _never_used(self, trace: Trace) -> Iterator[Violation]:
        # Where the step itself waits for a boundary that never holds, that is the mistake.
        if is_eventful(trace) or (trace.window and "step" in trace.window.declared):
            return
        used = {step.optimizer for _, step in trace.of(Step)}
        if used.issuperset(optimizers(trace)):
            return
        looked_at = {o for r in trace.records if isinstance(r.event, Read | Edit) for o in r.event.owners}
        looked_at |= {role for _, escape in trace.of(Escape) for role in escape.roles}
        # Where gradients are made ready for a step there is one, which this run skips.
        looked_at |= {o for _, clip in trace.of(Clip) for o in clip.owners}
        looked_at |= {unscale.optimizer for _, unscale in trace.of(Unscale)}
        if any(trace.of(Update)):
            return
        for optimizer in optimizers(trace):
            if optimizer in used | looked_at or not are_known(trace, optimizer):
                continue
            zeroed = [
                (r, c)
                for r, zero in trace.of(ZeroGrad)
                if optimizer in zero.owners
                and not is_conditional(trace, r, optimizer)
                and not r.before.buffer(optimizer).opaque
                for c in fresh(trace, r, optimizer)[-1:]
                if not c.assumed and not is_stray(trace, c, optimizer, r)
            ]
            if len({r.index for r, _ in zeroed}) < 3:
                continue
            record, lost = zeroed[0]
            again = next((r for r in trace.records[record.index :] if _reaches(r.event, optimizer)), None)
            yield Violation(
                record.index,
                f"the gradients of {name(trace, optimizer)} are zeroed again and again, and it never steps",
                story(trace, lost.record, again),
                # The step may hide in a call that is not understood.
                certain=False,
                predicts="0",
            )


def _reaches(event: object, optimizer: str) -> bool:
    return isinstance(event, Backward) and optimizer in event.reaches
