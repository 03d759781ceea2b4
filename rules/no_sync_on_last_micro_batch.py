"""AMP402 no-sync-on-last-micro-batch."""

from __future__ import annotations

from collections.abc import Iterator

from ampcheck.boundaries import is_sure, optimizers
from ampcheck.rule import Rule, Violation
from ampcheck.spans import spans
from ampcheck.syncing import bypasses, last_backward, passes, reduces
from ampcheck.trace import Trace
from ampcheck.windows import name, once_per_site, story


class NoSyncOnLastMicroBatch(Rule):
    """The last backward before a step runs without synchronisation.

    ## What it does
    Finds a step of a DDP or FSDP model whose last micro-batch ran inside `no_sync` (or with the model's own switch
    off), and whose gradients are not reduced by hand either.

    ## Why is this bad
    Each rank steps on gradients of its own, or of an incomplete window, and the copies of the model drift apart. With
    one process, or the same data on all ranks, nothing is to be seen.

    ## Example
    ```python
    with ddp_model.no_sync():
        for inputs, targets in micro_batches:
            (criterion(ddp_model(inputs), targets) / len(micro_batches)).backward()
    optimizer.step()
    ```

    ## Use instead
    ```python
    with ddp_model.no_sync():
        for inputs, targets in micro_batches[:-1]:
            (criterion(ddp_model(inputs), targets) / len(micro_batches)).backward()
    inputs, targets = micro_batches[-1]
    (criterion(ddp_model(inputs), targets) / len(micro_batches)).backward()
    optimizer.step()
    ```

    ## Known problems
    Local SGD, which averages parameters instead of gradients, looks the same.

    ## References
    - [DistributedDataParallel.no_sync](https://docs.pytorch.org/docs/stable/generated/torch.nn.parallel.DistributedDataParallel.html#torch.nn.parallel.DistributedDataParallel.no_sync):
      the first pass after the context reduces what was summed in it
    """

    code = "AMP402"
    name = "no-sync-on-last-micro-batch"
    severity = "error"
    oracle = ("divergence", "syncs")
    hint = "leave `no_sync` before the forward of the window's last micro-batch"

    def check(self, trace: Trace) -> Iterator[Violation]:
        """Yield the last backward of each window that no reduction follows."""
        if trace.complete:
            yield from once_per_site(trace, self._violations(trace))

    def _violations(self, trace: Trace) -> Iterator[Violation]:
        for optimizer in optimizers(trace):
            for span in spans(trace, optimizer):
                last = last_backward(trace, span)
                if last is None or span.step is None:
                    continue
                record, backward = last
                if reduces(trace, backward, optimizer) or bypasses(trace, backward, optimizer):
                    continue
                first = span.backwards[0][0]
                model = passes(trace, backward, optimizer)[0].model
                if is_sure(span.step.before.buffer(optimizer)):
                    yield Violation(
                        record.index,
                        f"the last backward before {name(trace, optimizer)} steps runs inside `no_sync` of "
                        f"{name(trace, model)}: every rank steps on its own gradients",
                        story(trace, None if first is record else first, span.step),
                    )
