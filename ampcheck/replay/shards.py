"""One of two processes that each hold a shard of every model, FSDP's own.  Needs torch.

``python -m ampcheck.replay.shards RANK STORE`` reads one task a line on standard input, ``{"members", "ops",
"scenario"}``, and writes what it observed as one line of JSON, or ``{"broken": reason}``.  Both processes execute the
same script, each with gradients of its own; they meet in gloo, on the CPU (`ampcheck.replay.pair` starts them).
"""

# ampcheck: ignore-file[AMP101] what a trace says is done, right or wrong
from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterable, Iterator, Sequence
from datetime import timedelta
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch._C._distributed_c10d import FileStore
from torch.distributed.fsdp import FullyShardedDataParallel
from torch.distributed.fsdp.sharded_grad_scaler import ShardedGradScaler
from torch.distributed.tensor import DTensor

from ampcheck.replay.machine import Machine
from ampcheck.replay.observe import Vector
from ampcheck.replay.scenarios import WORLD, Scenario
from ampcheck.replay.script import Op
from ampcheck.replay.stage import values

__all__ = ["ShardMachine", "main"]

PATIENCE = timedelta(seconds=120)
"""How long one process waits for the other: also until it has imported torch, on a machine that is busy."""


class ShardMachine(Machine):
    """A rank whose models are sharded: what it sees of parameters and gradients is its own shard."""

    def _do_shard(self, op: Op) -> None:
        for owner, how in op["owners"].items():
            probe = self.models[owner]
            if how == "fsdp2":
                from torch.distributed.device_mesh import init_device_mesh
                from torch.distributed.fsdp import fully_shard

                fully_shard(probe, mesh=init_device_mesh("cpu", (WORLD,)))
            else:
                keeps = owner in op["keeping"]
                cpu = torch.device("cpu")
                wrapped: Any = FullyShardedDataParallel(probe, device_id=cpu, use_orig_params=keeps)
                self.models[owner] = wrapped
            if owner in self.optimizers and owner not in op["early"]:
                self.build_optimizer(owner)
        for name in self.scalers:
            if name not in op["plain"]:
                self.scalers[name] = ShardedGradScaler(
                    "cpu", init_scale=self.first_scale(name), growth_interval=self.scenario.growth_interval
                )

    def _do_clip(self, op: Op) -> None:
        if not op["own"] or op["empty"] or op["style"] != "norm":
            super()._do_clip(op)
            return
        for owner in op["owners"]:
            model: Any = self.models[owner]
            clip = getattr(model, "clip_grad_norm_", None)
            bound = self.bound(op)
            total = clip(bound) if clip else nn.utils.clip_grad_norm_(model.parameters(), bound)
            self.seen.clip_norm.append((op["micro"], float(total)))

    def grads(self, owners: Sequence[str]) -> Iterator[Tensor]:
        """The shards of the gradients that owners hold."""
        yield from map(_local, super().grads(owners))

    def gradient(self, owner: str) -> Vector:
        """The shard of an owner's gradient, zero where there is none."""
        parameters = self.models[owner].parameters()
        return values(_local(torch.zeros_like(p) if p.grad is None else p.grad) for p in parameters)

    def weights(self, owner: str) -> Vector:
        """The shard of an owner's parameters."""
        return values(_shards(self.models[owner].parameters()))


def _shards(parameters: Iterable[Tensor]) -> Iterator[Tensor]:
    return (_local(p.detach()) for p in parameters)


def _local(tensor: Tensor) -> Tensor:
    return tensor.to_local() if isinstance(tensor, DTensor) else tensor


def main(rank: int, store: str) -> int:
    """Execute tasks until there are no more."""
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)  # whatever a library prints must not end up among the answers
    torch.set_num_threads(1)
    files = FileStore(store, WORLD)
    dist.init_process_group("gloo", store=files, rank=rank, world_size=WORLD, timeout=PATIENCE)
    for line in sys.stdin:
        task = json.loads(line)
        try:
            machine = ShardMachine(task["members"], Scenario(**task["scenario"]), "cpu", rank)
            machine.run(task["ops"])
            answer = machine.finish().as_dict()
        except Exception as error:
            answer = {"broken": f"{type(error).__name__}: {error}"}
        answers.write(json.dumps(answer) + "\n")
        answers.flush()
    return 0


if __name__ == "__main__":
    sys.exit(main(int(sys.argv[1]), sys.argv[2]))
