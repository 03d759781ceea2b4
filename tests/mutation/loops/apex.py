"""apex: unscaled on leaving the context, clipped by its master parameters; every batch is an update."""

import torch
from apex import amp
from torch import Tensor, nn
from torch.utils.data import DataLoader


def train(model: nn.Module, loader: DataLoader[tuple[Tensor, Tensor]], epochs: int) -> None:
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    model, optimizer = amp.initialize(model, optimizer, opt_level="O1")
    for _ in range(epochs):
        for images, labels in loader:
            optimizer.zero_grad()
            loss = nn.functional.cross_entropy(model(images.cuda()), labels.cuda())
            with amp.scale_loss(loss, optimizer) as scaled_loss:
                scaled_loss.backward()
            nn.utils.clip_grad_norm_(amp.master_params(optimizer), 1.0)
            optimizer.step()
