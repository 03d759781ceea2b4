"""Fabric with a loss scale: its optimizer's step unscales, and its clip does."""

import torch
from lightning.fabric import Fabric
from torch import Tensor, nn
from torch.utils.data import DataLoader


def train(module: nn.Module, loader: DataLoader[tuple[Tensor, Tensor]], epochs: int) -> None:
    fabric = Fabric(precision="16-mixed")
    model, optimizer = fabric.setup(module, torch.optim.SGD(module.parameters(), lr=0.1))
    for _ in range(epochs):
        for images, labels in loader:
            optimizer.zero_grad()
            loss = nn.functional.cross_entropy(model(images), labels)
            fabric.backward(loss)
            fabric.clip_gradients(model, optimizer, max_norm=1.0)
            optimizer.step()
