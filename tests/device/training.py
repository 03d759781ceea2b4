"""A real net under real autocast on a device: one window of 4 micro-batches, right or faulty.  Needs torch."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor, nn

__all__ = ["Loop", "Trained", "distance", "trained"]

WINDOW = 4


@dataclass(frozen=True)
class Loop:
    """What a loop does; the defaults are right."""

    device: str
    precision: str = "float16"
    threshold: float = 1e6
    unscales: bool = True
    divided: bool = True
    scale: float = 1024.0


@dataclass(frozen=True)
class Trained:
    """The first step's update (of SGD with rate 1 it is the gradient), its norm, and the scale that was used."""

    update: Tensor
    norm: float
    scale: float


def trained(loop: Loop) -> Trained:
    """Train the same net on the same batches."""
    torch.manual_seed(0)
    net = nn.Sequential(nn.Linear(16, 32), nn.Tanh(), nn.Linear(32, 4)).to(loop.device)
    batches = [torch.randn(8, 16, device=loop.device) for _ in range(WINDOW)]
    goals = [torch.randn(8, 4, device=loop.device) for _ in range(WINDOW)]
    optimizer = torch.optim.SGD(net.parameters(), lr=1.0)
    half = loop.precision == "float16"
    scaler = torch.amp.GradScaler(loop.device, init_scale=loop.scale, enabled=half)
    before = _weights(net)
    for batch, goal in zip(batches, goals, strict=True):
        with torch.autocast(loop.device, dtype=torch.float16, enabled=half):
            loss = nn.functional.mse_loss(net(batch).float(), goal)
        scaler.scale(loss / WINDOW if loop.divided else loss).backward()
    if loop.unscales:
        scaler.unscale_(optimizer)
    nn.utils.clip_grad_norm_(net.parameters(), loop.threshold)
    scaler.step(optimizer)
    scaler.update()
    update = _weights(net) - before
    return Trained(update, float(update.norm()), loop.scale)


def distance(one: Tensor, other: Tensor) -> float:
    """How far two updates are apart, relative to the second."""
    return float((one - other).norm() / other.norm())


def _weights(net: nn.Module) -> Tensor:
    return torch.cat([p.detach().double().flatten() for p in net.parameters()])
