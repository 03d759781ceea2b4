"""bfloat16 needs no scaler; windows and clip as elsewhere."""

import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.data import DataLoader


def train(model: nn.Module, loader: DataLoader, epochs: int, window: int) -> None:
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-4)
    scheduler = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, T_max=10_000)
    for epoch in range(epochs):
        for i, (images, labels) in enumerate(loader):
            with torch.autocast("cuda", dtype=torch.bfloat16):
                loss = F.cross_entropy(model(images.cuda()), labels.cuda())
            loss = loss / window
            loss.backward()
            if (i + 1) % window == 0 or i + 1 == len(loader):
                nn.utils.clip_grad_norm_(model.parameters(), 1.0)
                optimizer.step()
                optimizer.zero_grad()
                scheduler.step()
