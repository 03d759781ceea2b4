"""How an optimizer's models are sharded over ranks, as far as it shows where they are wrapped.

FSDP1 (``torch.distributed.fsdp.FullyShardedDataParallel``) leaves each rank with plain tensors that are its own shard:
whatever takes a norm of them, or looks for an overflow in them, sees one shard.  FSDP2 (``fully_shard``) leaves
DTensors, of which torch's functions know that they are shards.  (torch/distributed/fsdp, 2.13.)
"""

from __future__ import annotations

from dataclasses import dataclass

from ampcheck.events import Build
from ampcheck.trace import Record, Trace

__all__ = ["Sharding", "sharded_flat", "wraps"]


@dataclass(frozen=True, slots=True)
class Sharding:
    """A model whose gradients are shards in plain tensors; not `certain` where its strategy is an option."""

    model: str
    certain: bool


def sharded_flat(trace: Trace, optimizer: str) -> Sharding | None:
    """The first of an optimizer's models that FSDP1 shards."""
    role = trace.roles.get(optimizer)
    for model in role.models if role else ():
        wrapped = trace.roles.get(model)
        if wrapped is not None and wrapped.detail in ("fsdp1", "fsdp1?"):
            return Sharding(model, wrapped.detail == "fsdp1")
    return None


def wraps(trace: Trace, models: tuple[str, ...]) -> tuple[Record, ...]:
    """The places where these models are wrapped by FSDP1 or FSDP2, themselves and not a part of them."""
    return tuple(
        record
        for record, build in trace.of(Build)
        if build.kind == "wrapper" and build.role in models and build.detail.startswith(("fsdp1", "fsdp2"))
    )
