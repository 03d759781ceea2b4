"""Local functions share what the training function has built."""

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.utils.data import DataLoader


def fit(model: nn.Module, loader: DataLoader, epochs: int, every: int, clip: float) -> list[float]:
    optimizer = torch.optim.RMSprop(model.parameters(), lr=1e-3)
    scheduler = torch.optim.lr_scheduler.StepLR(optimizer, step_size=1000)
    scaler = torch.amp.GradScaler("cuda")
    history: list[float] = []

    def forward_backward(images: Tensor, labels: Tensor) -> None:
        with torch.autocast("cuda", dtype=torch.float16):
            loss = F.cross_entropy(model(images), labels)
        history.append(loss.item())
        loss = loss / every
        scaler.scale(loss).backward()

    def take_step() -> None:
        scaler.unscale_(optimizer)
        nn.utils.clip_grad_norm_(model.parameters(), clip)
        before = scaler.get_scale()
        scaler.step(optimizer)
        scaler.update()
        optimizer.zero_grad()
        if before <= scaler.get_scale():
            scheduler.step()

    for epoch in range(epochs):
        for number, (images, labels) in enumerate(loader):
            forward_backward(images.cuda(), labels.cuda())
            if (number + 1) % every == 0 or number == len(loader) - 1:
                take_step()
    return history
