"""timm's scaler is called: it scales, differentiates, unscales, clips, steps and updates."""

import torch
from timm.utils import NativeScaler
from torch import Tensor, nn
from torch.utils.data import DataLoader


def loss_of(model: nn.Module, images: Tensor, labels: Tensor) -> Tensor:
    with torch.amp.autocast("cuda", dtype=torch.float16):
        return nn.functional.cross_entropy(model(images.cuda()), labels.cuda())


def train(model: nn.Module, loader: DataLoader[tuple[Tensor, Tensor]], epochs: int, window: int) -> None:
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    loss_scaler = NativeScaler()
    for _ in range(epochs):
        for i, (images, labels) in enumerate(loader):
            last = (i + 1) % window == 0 or i + 1 == len(loader)
            loss = loss_of(model, images, labels)
            loss = loss / window
            loss_scaler(loss, optimizer, clip_grad=1.0, parameters=model.parameters(), need_update=last)
            if last:
                optimizer.zero_grad()
