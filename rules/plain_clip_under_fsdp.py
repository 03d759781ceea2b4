"""AMP207 plain-clip-under-fsdp."""

from __future__ import annotations

from collections.abc import Iterator

from ampcheck.events import Clip
from ampcheck.rule import Rule, Violation
from ampcheck.sharding import sharded_flat, wraps
from ampcheck.trace import Trace
from ampcheck.windows import name, next_step, once_per_site, previous_backward, story


class PlainClipUnderFsdp(Rule):
    """torch's own clip bounds each shard of an FSDP1 model by itself.

    ## What it does
    Finds `torch.nn.utils.clip_grad_norm_` on the parameters of a model inside
    `torch.distributed.fsdp.FullyShardedDataParallel`.

    ## Why is this bad
    Under FSDP1 each rank holds a shard of every gradient, as a plain tensor. The clip takes the norm of that shard
    alone, and bounds it by the whole threshold M: the full gradient ends with a norm of up to √W · M, and bent, since
    each shard is scaled by a factor of its own.

    ## Example
    ```python
    model = FullyShardedDataParallel(model)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4)
    loss.backward()
    torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    optimizer.step()
    ```

    ## Use instead
    ```python
    model = FullyShardedDataParallel(model)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4)
    loss.backward()
    model.clip_grad_norm_(1.0)
    optimizer.step()
    ```

    ## Known problems
    FSDP2 (`fully_shard`) has DTensors, whose norm is the full one: torch's clip is right there. Under
    `ShardingStrategy.NO_SHARD` it is right too; where the strategy is an option, the finding is *possible* only. A clip
    by value works on single elements, and is right.

    ## References
    - https://docs.pytorch.org/docs/stable/fsdp.html: `FullyShardedDataParallel.clip_grad_norm_`.
    - Measured on two ranks with the shards (3, 0) and (4, 0), M = 1: (1, 0) and (1, 0), of norm √2, where
      (0.6, 0.8) is right.
    """

    code = "AMP207"
    name = "plain-clip-under-fsdp"
    severity = "error"
    oracle = ("shards",)
    hint = "call clip_grad_norm_ of the FSDP model: `model.clip_grad_norm_(max_norm)`"

    def check(self, trace: Trace) -> Iterator[Violation]:
        """Yield torch's clips of gradients that are shards."""
        yield from once_per_site(trace, self._violations(trace))

    def _violations(self, trace: Trace) -> Iterator[Violation]:
        for record, clip in trace.of(Clip):
            if clip.by != "torch" or clip.style != "norm":
                continue
            for owner in clip.owners:
                sharding = sharded_flat(trace, owner)
                if sharding is None:
                    continue
                yield Violation(
                    record.index,
                    f"each rank clips its own shard of {name(trace, sharding.model)} by the whole threshold: the norm "
                    "ends at up to √W · M, expected M",
                    story(
                        trace,
                        *wraps(trace, (sharding.model,)),
                        previous_backward(trace, record.index, owner),
                        next_step(trace, record.index, owner),
                    ),
                    certain=sharding.certain,
                )
