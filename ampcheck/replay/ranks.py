"""Two ranks in one process: two threads, each with a real DistributedDataParallel.  Needs torch.

All wrappers live in one process group of size one, whose all-reduce is replaced by a communication hook: a barrier,
a mean over the threads, a count.  Gradients that are reduced by hand meet in the same way.  So the reducer, its
buckets and ``no_sync`` are torch's own, and ranks that do not reduce really diverge.  CPU only: on CUDA both
backwards would share one device thread, and a hook that waits could block it for good.
"""

from __future__ import annotations

import threading
from collections.abc import Sequence
from typing import Any

import torch
import torch.distributed as dist
from torch._C._distributed_c10d import GradBucket, HashStore
from torch.nn.parallel import DistributedDataParallel

from ampcheck.replay.machine import Machine
from ampcheck.replay.observe import Observed, norm
from ampcheck.replay.scenarios import Scenario
from ampcheck.replay.script import Cast, Op
from ampcheck.replay.stage import Probe

__all__ = ["execute_ranks"]

PATIENCE = 60.0
"""Seconds that one rank waits for the other in an all-reduce."""


class _Exchange:
    """The all-reduce of one owner's gradients between threads."""

    def __init__(self, ranks: int) -> None:
        self.barrier = threading.Barrier(ranks)
        self.slots: list[torch.Tensor | None] = [None] * ranks
        self.count = 0

    def hook(self, rank: int, bucket: GradBucket) -> torch.futures.Future[torch.Tensor]:
        """The all-reduce of a bucket."""
        future: torch.futures.Future[torch.Tensor] = torch.futures.Future()
        future.set_result(self.mean(rank, bucket.buffer()))
        return future

    def mean(self, rank: int, gradient: torch.Tensor) -> torch.Tensor:
        """The mean over ranks; every rank has to come."""
        self.slots[rank] = gradient.clone()
        self.barrier.wait(PATIENCE)
        mean = torch.stack([s for s in self.slots if s is not None]).mean(dim=0)
        if (
            self.barrier.wait(PATIENCE) == 0
        ):  # exactly one thread counts, and none overwrites a slot too early
            self.count += 1
        return mean


def execute_ranks(members: Cast, ops: Sequence[Op], scenario: Scenario) -> Observed:
    """Run a script on every rank at once; what is observed is that of rank 0, with what concerns all ranks.

    Raises `RuntimeError` where one rank waits for another in vain.
    """
    _join_group()
    exchanges = {owner: _Exchange(scenario.ranks) for owner in members["wrapped"]}
    by_hand = {owner: _Exchange(scenario.ranks) for owner in members["reduced"]}
    machines = []
    for rank in range(scenario.ranks):  # here, since their constructors talk to each other
        wrappers: dict[str, Any] = {}
        for owner, exchange in exchanges.items():
            wrapper = DistributedDataParallel(Probe((0.0, 0.0)))
            # A lambda: torch insists on real annotations or none, and on the name `bucket`.
            wrapper.register_comm_hook(exchange, lambda state, bucket, rank=rank: state.hook(rank, bucket))
            wrappers[owner] = wrapper
        machines.append(
            Machine(members, scenario, "cpu", rank, wrappers, lambda o, r, g: by_hand[o].mean(r, g))
        )
    failures: list[BaseException] = []

    def work(machine: Machine) -> None:
        try:
            machine.run(ops)
        except BaseException as error:
            failures.append(error)
            for exchange in (*exchanges.values(), *by_hand.values()):
                exchange.barrier.abort()

    threads = [threading.Thread(target=work, args=(m,), daemon=True) for m in machines]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if failures:
        reason = str(failures[0]) or "one waited for the other in vain"
        raise RuntimeError(f"the ranks of the replay did not meet: {reason}") from failures[0]
    seen = [m.finish() for m in machines]
    first = seen[0]
    first.syncs = {owner: exchange.count for owner, exchange in exchanges.items()}
    first.divergence = max(
        (
            norm([x - y for x, y in zip(a, b, strict=True)]) / (norm(a) or 1.0)
            for other in seen[1:]
            for owner in {**exchanges, **by_hand}
            for a, b in zip(first.gradient.get(owner, ()), other.gradient.get(owner, ()), strict=False)
        ),
        default=0.0,
    )
    return first


def _join_group() -> None:
    if not dist.is_gloo_available():
        raise RuntimeError("this torch has no gloo, in which the ranks of the replay meet")
    if not dist.is_initialized():
        dist.init_process_group("gloo", store=HashStore(), rank=0, world_size=1)
