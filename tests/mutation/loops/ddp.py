"""Windows under DistributedDataParallel, synchronised once."""

from contextlib import nullcontext

import torch
from torch import Tensor, nn
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader


def loss_of(model: nn.Module, images: Tensor, labels: Tensor) -> Tensor:
    with torch.amp.autocast("cuda", dtype=torch.float16):
        return nn.functional.cross_entropy(model(images.cuda()), labels.cuda())


def train(module: nn.Module, loader: DataLoader[tuple[Tensor, Tensor]], epochs: int, window: int) -> None:
    model = DistributedDataParallel(module.cuda())
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    scaler = torch.amp.GradScaler("cuda")
    for _ in range(epochs):
        for i, (images, labels) in enumerate(loader):
            boundary = (i + 1) % window == 0 or i + 1 == len(loader)
            with nullcontext() if boundary else model.no_sync():
                loss = loss_of(model, images, labels)
                loss = loss / window
                scaler.scale(loss).backward()
            if boundary:
                scaler.step(optimizer)
                scaler.update()
                optimizer.zero_grad()
