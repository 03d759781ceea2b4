"""AMP403 no-sync-without-forward."""

from __future__ import annotations

from collections.abc import Iterator

from ampcheck.events import Backward
from ampcheck.rule import Rule, Violation
from ampcheck.trace import Trace
from ampcheck.windows import name, next_step, once_per_site, story


class NoSyncWithoutForward(Rule):
    """Only the backward is inside DDP's no_sync, where it has no effect.

    ## What it does
    Finds a backward inside `no_sync` whose forward pass through the DDP model ran outside of it.

    ## Why is this bad
    DDP reads its flag in the forward: the gradients are reduced on every micro-batch all the same, K times instead of
    once. The update is right. (FSDP reads it in the backward; there this is fine.)

    ## Example
    ```python
    loss = criterion(ddp_model(inputs), targets) / accumulation_steps
    with ddp_model.no_sync():
        loss.backward()
    ```

    ## Use instead
    ```python
    with ddp_model.no_sync():
        loss = criterion(ddp_model(inputs), targets) / accumulation_steps
        loss.backward()
    ```

    ## Known problems
    None known.

    ## References
    - [DistributedDataParallel.no_sync](https://docs.pytorch.org/docs/stable/generated/torch.nn.parallel.DistributedDataParallel.html#torch.nn.parallel.DistributedDataParallel.no_sync):
      the forward pass should be inside the context
    """

    code = "AMP403"
    name = "no-sync-without-forward"
    severity = "warning"
    oracle = ("syncs",)
    hint = "move the forward into `no_sync` as well"

    def check(self, trace: Trace) -> Iterator[Violation]:
        """Yield the unsynchronised backwards whose passes through DDP were all synchronised."""
        yield from once_per_site(trace, self._violations(trace))

    def _violations(self, trace: Trace) -> Iterator[Violation]:
        for record, backward in trace.of(Backward):
            ddp = [f for f in backward.loss.forwards if f.wrapper == "ddp" and not f.bypassed]
            if ddp and not backward.synced and all(f.synced for f in ddp):
                model = ddp[0].model
                yield Violation(
                    record.index,
                    f"only the backward is inside `no_sync`: {name(trace, model)} decided to reduce its gradients "
                    "in the forward",
                    story(trace, *(next_step(trace, record.index, o) for o in backward.reaches)),
                    predicts="K",
                )
