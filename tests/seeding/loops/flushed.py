"""Full windows inside the loop; what an epoch leaves over gets a step of its own behind it."""

import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.data import DataLoader


def train(model: nn.Module, loader: DataLoader, epochs: int, window: int) -> None:
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
    scheduler = torch.optim.lr_scheduler.PolynomialLR(optimizer, total_iters=10_000)
    scaler = torch.amp.GradScaler("cuda")
    for epoch in range(epochs):
        pending = 0
        for images, labels in loader:
            with torch.autocast("cuda", dtype=torch.float16):
                loss = F.cross_entropy(model(images.cuda()), labels.cuda())
            loss = loss / window
            scaler.scale(loss).backward()
            pending += 1
            if pending == window:
                scaler.unscale_(optimizer)
                nn.utils.clip_grad_norm_(model.parameters(), 1.0)
                before = scaler.get_scale()
                scaler.step(optimizer)
                scaler.update()
                optimizer.zero_grad()
                if before <= scaler.get_scale():
                    scheduler.step()
                pending = 0
        if pending:
            scaler.unscale_(optimizer)
            nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            scaler.step(optimizer)
            scaler.update()
            optimizer.zero_grad()
