"""AMP404 loss-divided-by-world-size."""

from __future__ import annotations

from collections.abc import Iterator

from ampcheck.boundaries import optimizers
from ampcheck.events import Backward, Edit, Step
from ampcheck.rule import Rule, Violation
from ampcheck.syncing import passes, reduces
from ampcheck.trace import Record, Trace
from ampcheck.windows import name, next_step, once_per_site, story


class LossDividedByWorldSize(Rule):
    """The loss is divided by the number of ranks although DDP averages already.

    ## What it does
    Finds a loss (or gradients) of a DDP or FSDP model divided by the world size W.

    ## Why is this bad
    DDP's reduction is a mean over ranks. Another division makes the update W times too small, and differently so for
    every number of GPUs.

    ## Example
    ```python
    loss = criterion(ddp_model(inputs), targets) / dist.get_world_size()
    loss.backward()
    ```

    ## Use instead
    ```python
    loss = criterion(ddp_model(inputs), targets)
    loss.backward()
    ```

    ## Known problems
    With a communication hook that sums instead of averaging, the division is right. A loss that is also divided by
    something else (a number of tokens) makes the finding *possible* at most.

    ## References
    - [DistributedDataParallel](https://docs.pytorch.org/docs/stable/generated/torch.nn.parallel.DistributedDataParallel.html):
      gradients are averaged over ranks
    """

    code = "AMP404"
    name = "loss-divided-by-world-size"
    severity = "error"
    oracle = ("gradient",)
    hint = "drop the division by the world size from the loss; divide a copy for logging"

    def check(self, trace: Trace) -> Iterator[Violation]:
        """Yield the backwards and edits that divide by W what a reduction averages."""
        yield from once_per_site(trace, self._losses(trace))
        yield from once_per_site(trace, self._gradients(trace))

    def _losses(self, trace: Trace) -> Iterator[Violation]:
        for record, backward in trace.of(Backward):
            divided = [unit for unit in backward.loss.parts if unit.world < 0]
            if not divided:
                continue
            reached = [o for o in backward.reaches if o in optimizers(trace) and o not in backward.assumed]
            for optimizer in reached:
                model = _averaged_model(trace, record, optimizer)
                if model:
                    yield Violation(
                        record.index,
                        f"the loss is divided by the world size, and {name(trace, model)} averages over ranks as well",
                        story(trace, next_step(trace, record.index, optimizer)),
                        certain=not any(unit.other for unit in divided),
                        predicts="1/W",
                    )

    def _gradients(self, trace: Trace) -> Iterator[Violation]:
        for record, edit in trace.of(Edit):
            # Parameters that are picked out (experts) may be kept out of the reduction.
            if edit.effect != "multiply" or edit.factor.world >= 0 or edit.partial:
                continue
            for optimizer in (o for o in edit.owners if o in optimizers(trace)):
                buffer = record.before.buffer(optimizer)
                held = [c for c in buffer.contributions if 0 <= c.record < len(trace.records)]
                # With W in the loss the division only takes it out again.
                if not held or buffer.opaque or any(c.assumed or c.unit.world > 0 for c in held):
                    continue
                source = trace.records[held[-1].record]
                model = _averaged_model(trace, source, optimizer)
                if model:
                    yield Violation(
                        record.index,
                        f"the gradients are divided by the world size, and {name(trace, model)} has averaged them "
                        "over ranks",
                        story(trace, source, next_step(trace, record.index, optimizer)),
                        certain=not any(c.unit.other for c in held),
                        predicts="1/W",
                    )


def _averaged_model(trace: Trace, record: Record, optimizer: str) -> str:
    """The wrapped model behind a backward whose gradients its wrapper averages before the step; "" if none.

    Without synchronisation on this micro-batch the next one that has it averages.
    """
    found = passes(trace, record.event, optimizer) if isinstance(record.event, Backward) else ()
    for later in trace.records[record.index :]:
        event = later.event
        if isinstance(event, Step) and event.optimizer == optimizer:
            break
        if isinstance(event, Backward) and optimizer in event.reaches and reduces(trace, event, optimizer):
            return found[0].model if found else ""
    return ""
