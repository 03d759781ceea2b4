"""Batches are dictionaries; micro-batches are counted by hand, from one in each epoch."""

import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.data import DataLoader


def finetune(model: nn.Module, loader: DataLoader, *, epochs: int, accumulation: int, clip: float) -> None:
    scaler = torch.amp.GradScaler("cuda", init_scale=2.0**14)
    optimizer = torch.optim.AdamW(model.parameters(), lr=2e-5, weight_decay=0.01)
    scheduler = torch.optim.lr_scheduler.LinearLR(optimizer, start_factor=0.1, total_iters=500)
    model.train()
    for epoch in range(epochs):
        count = 0
        for batch in loader:
            count += 1
            with torch.autocast("cuda", dtype=torch.float16):
                loss = F.cross_entropy(model(batch["tokens"].cuda()), batch["labels"].cuda())
            loss = loss / accumulation
            scaler.scale(loss).backward()
            if count % accumulation == 0 or count == len(loader):
                scaler.unscale_(optimizer)
                nn.utils.clip_grad_norm_(model.parameters(), clip)
                before = scaler.get_scale()
                scaler.step(optimizer)
                scaler.update()
                optimizer.zero_grad()
                if before <= scaler.get_scale():
                    scheduler.step()
