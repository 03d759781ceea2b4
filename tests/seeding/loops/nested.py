"""An inner loop over the micro-batches of a step; the data never end."""

from collections.abc import Iterator

import torch
from torch import Tensor, nn
from torch.utils.data import DataLoader


def cycle(loader: DataLoader) -> Iterator[Tensor]:
    while True:
        yield from loader


def train(model: nn.Module, loader: DataLoader, steps: int, gradient_accumulate_every: int) -> None:
    optimizer = torch.optim.Adam(model.parameters(), lr=8e-5)
    scheduler = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, T_max=steps)
    scaler = torch.amp.GradScaler("cuda")
    batches = cycle(loader)
    for step in range(steps):
        for _ in range(gradient_accumulate_every):
            images = next(batches).cuda()
            with torch.autocast("cuda", dtype=torch.float16):
                loss = model(images).square().mean()
            loss = loss / gradient_accumulate_every
            scaler.scale(loss).backward()
        scaler.unscale_(optimizer)
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        before = scaler.get_scale()
        scaler.step(optimizer)
        scaler.update()
        optimizer.zero_grad()
        if before <= scaler.get_scale():
            scheduler.step()
