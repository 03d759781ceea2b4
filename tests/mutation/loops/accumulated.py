"""Mixed precision with a clip; a window of micro-batches is an update."""

import torch
from torch import Tensor, nn
from torch.utils.data import DataLoader


def loss_of(model: nn.Module, images: Tensor, labels: Tensor) -> Tensor:
    with torch.amp.autocast("cuda", dtype=torch.float16):
        return nn.functional.cross_entropy(model(images.cuda()), labels.cuda())


def train(model: nn.Module, loader: DataLoader[tuple[Tensor, Tensor]], epochs: int, window: int) -> None:
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    scaler = torch.amp.GradScaler("cuda")
    for _ in range(epochs):
        for i, (images, labels) in enumerate(loader):
            loss = loss_of(model, images, labels)
            loss = loss / window
            scaler.scale(loss).backward()
            if (i + 1) % window == 0 or i + 1 == len(loader):
                scaler.unscale_(optimizer)
                nn.utils.clip_grad_norm_(model.parameters(), 1.0)
                scaler.step(optimizer)
                scaler.update()
                optimizer.zero_grad()
