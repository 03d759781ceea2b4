"""No accumulation: each batch is an update, and the schedule counts updates."""

import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.data import DataLoader


def train_one_epoch(
    model: nn.Module,
    loader: DataLoader,
    optimizer: torch.optim.Optimizer,
    scheduler: torch.optim.lr_scheduler.LRScheduler,
    scaler: torch.amp.GradScaler,
) -> None:
    model.train()
    for images, labels in loader:
        with torch.autocast("cuda", dtype=torch.float16):
            loss = F.cross_entropy(model(images.cuda()), labels.cuda())
        scaler.scale(loss).backward()
        scaler.unscale_(optimizer)
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        before = scaler.get_scale()
        scaler.step(optimizer)
        scaler.update()
        optimizer.zero_grad()
        if before <= scaler.get_scale():
            scheduler.step()


def main(model: nn.Module, loader: DataLoader, epochs: int) -> None:
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-4)
    scheduler = torch.optim.lr_scheduler.OneCycleLR(optimizer, 1e-3, total_steps=epochs * len(loader))
    scaler = torch.amp.GradScaler("cuda")
    for epoch in range(epochs):
        train_one_epoch(model, loader, optimizer, scheduler, scaler)
