"""AMP406 plain-scaler-under-fsdp."""

from __future__ import annotations

from collections.abc import Iterator

from ampcheck.events import Build, Step
from ampcheck.rule import Rule, Violation
from ampcheck.sharding import sharded_flat, wraps
from ampcheck.trace import Trace
from ampcheck.windows import name, once_per_site, story


class PlainScalerUnderFsdp(Rule):
    """A GradScaler decides on each rank by itself whether to skip the step of an FSDP1 model.

    ## What it does
    Finds `torch.amp.GradScaler` (or one of its older names) where it steps the optimizer of a model inside
    `torch.distributed.fsdp.FullyShardedDataParallel`.

    ## Why is this bad
    Under FSDP1 each rank holds a shard of every gradient. An overflow in one shard is seen by one rank only: that rank
    skips the step and halves its scale, the others step. From then on the ranks' scales and parameters belong
    to different histories, and nothing raises or warns.

    ## Example
    ```python
    model = FullyShardedDataParallel(model)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4)
    scaler = torch.amp.GradScaler("cuda")
    scaler.scale(loss).backward()
    scaler.step(optimizer)
    scaler.update()
    ```

    ## Use instead
    ```python
    model = FullyShardedDataParallel(model)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4)
    scaler = ShardedGradScaler()  # from torch.distributed.fsdp.sharded_grad_scaler
    scaler.scale(loss).backward()
    scaler.step(optimizer)
    scaler.update()
    ```

    ## Known problems
    FSDP2 (`fully_shard`) works with either scaler since torch 2.5. Under `ShardingStrategy.NO_SHARD` every rank sees
    all gradients, and nothing is reported; where the strategy is an option, the finding is *possible* only.

    ## References
    - https://docs.pytorch.org/docs/stable/fsdp.html
    - https://github.com/pytorch/pytorch/blob/main/torch/distributed/fsdp/sharded_grad_scaler.py
    - Measured on two ranks with an infinity in one shard, S = 8: rank 0 skips and goes on with S = 4, rank 1 steps
      and keeps S = 8.
    """

    code = "AMP406"
    name = "plain-scaler-under-fsdp"
    severity = "error"
    oracle = ("shards",)
    hint = "use torch.distributed.fsdp.sharded_grad_scaler.ShardedGradScaler"

    def check(self, trace: Trace) -> Iterator[Violation]:
        """Yield the plain scalers that step sharded gradients, where they are built if that can be seen."""
        yield from once_per_site(trace, self._violations(trace))

    def _violations(self, trace: Trace) -> Iterator[Violation]:
        built = {build.role: record for record, build in trace.of(Build) if build.kind == "scaler"}
        for record, step in trace.of(Step):
            scaler = trace.roles.get(step.scaler) if step.scaler else None
            sharding = sharded_flat(trace, step.optimizer)
            if scaler is None or scaler.detail != "GradScaler" or sharding is None:
                continue
            yield Violation(
                built.get(scaler.id, record).index,
                f"{name(trace, scaler.id)} looks for overflows in one rank's shard of "
                f"{name(trace, sharding.model)}: ranks may skip different steps",
                story(trace, *wraps(trace, (sharding.model,)), record),
                certain=sharding.certain,
            )
