"""DistributedDataParallel: windows synchronise once, at their last micro-batch."""

from contextlib import nullcontext

import torch
import torch.nn.functional as F
from torch import nn
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader


def train(module: nn.Module, loader: DataLoader, local_rank: int, epochs: int, window: int) -> None:
    model = DistributedDataParallel(module.cuda(), device_ids=[local_rank])
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-4)
    scheduler = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, T_max=10_000)
    scaler = torch.amp.GradScaler("cuda")
    for epoch in range(epochs):
        loader.sampler.set_epoch(epoch)
        for i, (images, labels) in enumerate(loader):
            last = (i + 1) % window == 0 or i + 1 == len(loader)
            with nullcontext() if last else model.no_sync():
                with torch.autocast("cuda", dtype=torch.float16):
                    loss = F.cross_entropy(model(images.cuda()), labels.cuda())
                loss = loss / window
                scaler.scale(loss).backward()
            if last:
                scaler.unscale_(optimizer)
                nn.utils.clip_grad_norm_(model.parameters(), max_norm=1.0)
                before = scaler.get_scale()
                scaler.step(optimizer)
                scaler.update()
                optimizer.zero_grad()
                if before <= scaler.get_scale():
                    scheduler.step()
