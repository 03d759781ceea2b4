"""AMP102 grad-read-before-unscale."""

from __future__ import annotations

from collections.abc import Iterator

from ampcheck.events import Clip, Edit, Read
from ampcheck.precedence import StillScaled, still_scaled
from ampcheck.rule import Rule, Violation
from ampcheck.trace import Record, Trace
from ampcheck.windows import names, next_step, once_per_site, story, window


class GradReadBeforeUnscale(Rule):
    """A norm of gradients is logged or tested while they still carry the loss scale.

    ## What it does
    Finds norms, means and elements of gradients, taken in the loop, in a function that it calls or in a
    tensor hook, after `scaler.scale(loss).backward()` and before the gradients are unscaled, that are then
    logged or decide a branch.

    ## Why is this bad
    The figure is S times too large, and it jumps whenever the scale changes: a curve of it shows the scale
    and not the training, and a threshold that was chosen for true gradients is exceeded all the time.

    ## Example
    ```python
    scaler.scale(loss).backward()
    norm = torch.stack([p.grad.norm() for p in model.parameters()]).norm()
    writer.add_scalar("grad_norm", norm, step)
    scaler.step(optimizer)
    scaler.update()
    ```

    ## Use instead
    ```python
    scaler.scale(loss).backward()
    scaler.unscale_(optimizer)
    norm = torch.stack([p.grad.norm() for p in model.parameters()]).norm()
    writer.add_scalar("grad_norm", norm, step)
    scaler.step(optimizer)
    scaler.update()
    ```

    ## Known problems
    A norm that is only tested for finiteness, divided by the scale, or read after `scaler.step` (which
    unscales in place) is right. One that is the coefficient of a clip by hand is reported as AMP101 alone,
    and where the same gradients are clipped or edited before they are unscaled as well, only that is
    reported: one `unscale_` mends both. A norm that is returned to a caller or stored, out of sight, is
    reported as possible.

    ## References
    - https://docs.pytorch.org/docs/stable/notes/amp_examples.html#working-with-unscaled-gradients: "If you
      wish to modify or inspect the .grad attributes of parameters between backward() and
      scaler.step(optimizer), you should unscale".
    - Measured: 40 for 5 with (3, 4) and S = 8; after `scaler.step` it is 5.
    """

    code = "AMP102"
    name = "grad-read-before-unscale"
    severity = "warning"
    oracle = ("read-norm",)
    hint = "call scaler.unscale_(optimizer) before the norm is taken"

    def check(self, trace: Trace) -> Iterator[Violation]:
        """Yield the norms of gradients that carry a loss scale."""
        yield from once_per_site(trace, self._violations(trace))

    def _violations(self, trace: Trace) -> Iterator[Violation]:
        for record, read in trace.of(Read):
            if read.use not in ("shown", "tested", "kept"):
                continue
            scaled = still_scaled(trace, record, read.owners)
            if scaled is None or _is_touched_as_well(trace, record, scaled):
                continue
            steps = (next_step(trace, record.index, owner) for owner in scaled.owners)
            what = "decides a branch" if read.use == "tested" else "is taken"
            yield Violation(
                record.index,
                f"a norm of the gradients of {names(trace, scaled.owners)} {what} while they still carry the "
                "loss scale: it is S times too large",
                story(trace, *(c.record for c in scaled.contributions), *steps),
                certain=scaled.certain and read.use != "kept",
                predicts="S",
            )


def _is_touched_as_well(trace: Trace, record: Record, scaled: StillScaled) -> bool:
    """Whether the same gradients are also clipped or edited before they are unscaled."""
    for owner in scaled.owners:
        for other in window(trace, record.index, owner):
            match other.event:
                case Clip(owners=owners) | Edit(effect="shift" | "nonlinear" | "hide", owners=owners):
                    if owner in owners and still_scaled(trace, other, [owner]) is not None:
                        return True
    return False
