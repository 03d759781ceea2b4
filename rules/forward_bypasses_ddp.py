"""AMP405 forward-bypasses-ddp."""

from __future__ import annotations

from collections.abc import Iterator

from ampcheck.boundaries import is_sure, optimizers
from ampcheck.rule import Rule, Violation
from ampcheck.spans import spans
from ampcheck.syncing import bypasses, last_backward
from ampcheck.trace import Trace
from ampcheck.windows import name, once_per_site, story


class ForwardBypassesDdp(Rule):
    """A training forward goes around DDP, so that its gradients are never reduced.

    ## What it does
    Finds a backward before a step whose forward called `ddp_model.module(...)` instead of `ddp_model(...)`.

    ## Why is this bad
    DDP prepares the reduction in its own forward. Without it every rank steps on its own gradients and the copies of
    the model drift apart, without any error.

    ## Example
    ```python
    loss = criterion(ddp_model.module(inputs), targets)
    loss.backward()
    ```

    ## Use instead
    ```python
    loss = criterion(ddp_model(inputs), targets)
    loss.backward()
    ```

    ## Known problems
    Going around DDP in evaluation, or on micro-batches before the window's last one, is right.

    ## References
    - [DistributedDataParallel](https://docs.pytorch.org/docs/stable/generated/torch.nn.parallel.DistributedDataParallel.html)
    """

    code = "AMP405"
    name = "forward-bypasses-ddp"
    severity = "error"
    oracle = ("divergence", "syncs")
    hint = "call the DDP model itself in training"

    def check(self, trace: Trace) -> Iterator[Violation]:
        """Yield the last backward of each window whose passes all go around DDP."""
        if trace.complete:
            yield from once_per_site(trace, self._violations(trace))

    def _violations(self, trace: Trace) -> Iterator[Violation]:
        for optimizer in optimizers(trace):
            for span in spans(trace, optimizer):
                last = last_backward(trace, span)
                if last is None or span.step is None:
                    continue
                record, backward = last
                around = bypasses(trace, backward, optimizer)
                if around and is_sure(span.step.before.buffer(optimizer)):
                    yield Violation(
                        record.index,
                        f"the forward behind this backward goes around DDP ({name(trace, around.model)} through "
                        "`.module`): no rank's gradients are reduced",
                        story(trace, span.step),
                    )
