"""DistributedDataParallel in two processes on gloo, with tensors of a device.  Needs torch.

``python -m tests.device.ranks DEVICE RANK STORE`` is one of the two; it prints one line of JSON.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from contextlib import nullcontext
from datetime import timedelta
from pathlib import Path
from typing import Any

__all__ = ["measured"]

WORLD = 2
WINDOW = 3
LIMIT = 120.0
STYLES = ("no_sync until the last", "never no_sync", "always no_sync")


def measured(device: str) -> dict[str, tuple[int, float]]:
    """By style, the all-reduces of two windows of three, and how far the ranks' gradients are apart at the step."""
    with tempfile.TemporaryDirectory() as folder:
        store = str(Path(folder) / "store")
        command = (sys.executable, "-m", "tests.device.ranks", device)
        processes = [
            subprocess.Popen((*command, str(rank), store), stdout=subprocess.PIPE, text=True)
            for rank in range(WORLD)
        ]
        try:
            seen = [json.loads(p.communicate(timeout=LIMIT)[0].splitlines()[-1]) for p in processes]
        finally:
            for process in processes:
                process.kill()
    found = {}
    for style in STYLES:
        (count, mine), (_, its) = (rank[style] for rank in seen)
        apart = max(abs(a - b) / max(abs(a), abs(b)) for a, b in zip(mine, its, strict=True))
        found[style] = (count, apart)
    return found


def _work(device: str, rank: int, store: str) -> dict[str, Any]:
    import torch
    import torch.distributed as dist
    from torch._C._distributed_c10d import FileStore
    from torch.nn.parallel import DistributedDataParallel

    files = FileStore(store, WORLD)
    dist.init_process_group(
        "gloo", store=files, rank=rank, world_size=WORLD, timeout=timedelta(seconds=LIMIT / 2)
    )
    seen: dict[str, Any] = {}
    for style in STYLES:
        module = torch.nn.Linear(4, 1, bias=False).to(device)
        torch.nn.init.ones_(module.weight)
        ddp = DistributedDataParallel(module)
        count = [0]

        def hook(state: Any, bucket: Any, count: list[int] = count) -> Any:
            count[0] += 1
            work = dist.all_reduce(bucket.buffer().div_(WORLD), async_op=True)
            return work.get_future().then(lambda future: future.value()[0])

        hook.__annotations__ = {}  # torch accepts its own types there, or none
        ddp.register_comm_hook(None, hook)
        gradients: list[float] = []
        for micro in range(2 * WINDOW):
            last = micro % WINDOW == WINDOW - 1
            free = style == "never no_sync" or (last and style != "always no_sync")
            x = torch.full((1, 4), 1.0 + micro + 10.0 * rank, device=device)
            with nullcontext() if free else ddp.no_sync():
                (ddp(x).sum() / WINDOW).backward()
            if last:
                gradients.append(
                    float(next(g.norm() for p in module.parameters() if (g := p.grad) is not None))
                )
                module.zero_grad()
        seen[style] = (count[0], gradients)
    dist.destroy_process_group()
    return seen


if __name__ == "__main__":
    print(json.dumps(_work(sys.argv[1], int(sys.argv[2]), sys.argv[3])))
