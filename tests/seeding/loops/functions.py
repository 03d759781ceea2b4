"""Accumulation and update are functions of their own, and everything is handed to them."""

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.amp import GradScaler
from torch.optim import Optimizer
from torch.optim.lr_scheduler import LRScheduler
from torch.utils.data import DataLoader


def accumulate(model: nn.Module, scaler: GradScaler, batch: tuple[Tensor, Tensor], window: int) -> Tensor:
    tokens, labels = (part.cuda(non_blocking=True) for part in batch)
    with torch.autocast("cuda", dtype=torch.float16):
        loss = F.cross_entropy(model(tokens), labels)
    loss = loss / window
    scaler.scale(loss).backward()
    return loss.detach()


def update(
    model: nn.Module, optimizer: Optimizer, scaler: GradScaler, scheduler: LRScheduler, max_norm: float
) -> None:
    scaler.unscale_(optimizer)
    torch.nn.utils.clip_grad_norm_(model.parameters(), max_norm)
    before = scaler.get_scale()
    scaler.step(optimizer)
    scaler.update()
    optimizer.zero_grad()
    if before <= scaler.get_scale():
        scheduler.step()


def train(model: nn.Module, loader: DataLoader, epochs: int, window: int, max_norm: float = 1.0) -> None:
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-4)
    scheduler = torch.optim.lr_scheduler.OneCycleLR(optimizer, 1e-3, total_steps=10_000)
    scaler = GradScaler("cuda")
    for epoch in range(epochs):
        total = 0.0
        for step, batch in enumerate(loader, start=1):
            total += accumulate(model, scaler, batch, window).item()
            if step % window == 0 or step == len(loader):
                update(model, optimizer, scaler, scheduler, max_norm)
        print(f"epoch {epoch}: {total / len(loader):.3f}")
