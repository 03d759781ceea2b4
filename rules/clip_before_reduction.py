"""AMP408 clip-before-reduction."""

from __future__ import annotations

from collections.abc import Iterator

from ampcheck.events import Backward, Clip, Reduce, Step
from ampcheck.rule import Rule, Violation
from ampcheck.syncing import reduces
from ampcheck.trace import Record, Trace
from ampcheck.windows import are_known, escapes_between, name, once_per_site, story


class ClipBeforeReduction(Rule):
    """Gradients are clipped, or stepped on, before they are reduced over ranks by hand.

    ## What it does
    Finds a clip or an optimizer step that comes before the hand-written reduction of the same gradients
    (`dist.all_reduce(p.grad)`, Horovod's `optimizer.synchronize()`, `xm.reduce_gradients(optimizer)`).

    ## Why is this bad
    Each rank clips its own gradient by its own norm, and the mean of what is left has another direction and length than
    the clipped mean. A step before the reduction leaves the ranks with different weights for good.

    ## Example
    ```python
    loss.backward()
    torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    for p in model.parameters():
        dist.all_reduce(p.grad)
        p.grad /= dist.get_world_size()
    optimizer.step()
    ```

    ## Use instead
    ```python
    loss.backward()
    for p in model.parameters():
        dist.all_reduce(p.grad)
        p.grad /= dist.get_world_size()
    torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    optimizer.step()
    ```

    ## Known problems
    Bounding each rank's own contribution on purpose (differential privacy) looks the same. Horovod's optimizer reduces
    in its `step` where nobody has called `synchronize` before.

    ## References
    - [Writing distributed applications with PyTorch](https://docs.pytorch.org/tutorials/intermediate/dist_tuto.html)
    - [Horovod: DistributedOptimizer.synchronize](https://horovod.readthedocs.io/en/stable/api.html#horovod.torch.DistributedOptimizer)
    """

    code = "AMP408"
    name = "clip-before-reduction"
    severity = "error"
    oracle = ("divergence", "gradient")
    hint = "reduce the gradients over ranks first, then unscale, clip and step"

    def check(self, trace: Trace) -> Iterator[Violation]:
        """Yield each clip or step of gradients that are reduced only later."""
        yield from once_per_site(trace, self._violations(trace))

    def _violations(self, trace: Trace) -> Iterator[Violation]:
        for record, reduction in trace.of(Reduce):
            for owner in reduction.owners:
                early = _early(trace, record, owner)
                if early is None:
                    continue
                what = "used by a step" if isinstance(early.event, Step) else "clipped, each rank's own,"
                contributions = record.before.buffer(owner).contributions
                sure = not any(c.assumed for c in contributions) and are_known(trace, owner)
                yield Violation(
                    early.index,
                    f"gradients of {name(trace, owner)} are {what} before they are reduced over ranks",
                    story(trace, contributions[0].record, record),
                    certain=sure and not escapes_between(trace, contributions[0].record, record.index, owner),
                )


def _early(trace: Trace, reduction: Record, owner: str) -> Record | None:
    """The first clip or step that has used the gradients which a reduction finds, before any rank knew of another's."""
    found = reduction.before.buffer(owner)
    if found.is_empty or found.opaque or "reduced" in found.marks:
        return None
    first = found.contributions[0].record
    if any(_is_reduced(trace, c.record, owner) for c in found.contributions):
        return None
    for record in trace.records[first + 1 : reduction.index]:
        match record.event:
            case Clip(owners=owners) if owner in owners:
                return record
            case Step(optimizer=optimizer) if optimizer == owner:
                return record
            case _:
                pass
    return None


def _is_reduced(trace: Trace, index: int, owner: str) -> bool:
    """Whether a backward has reduced its gradients itself."""
    event = trace.records[index].event
    return isinstance(event, Backward) and reduces(trace, event, owner)
