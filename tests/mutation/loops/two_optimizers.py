"""Two models with an optimizer each, one loss and one scaler."""

import torch
from torch import Tensor, nn
from torch.utils.data import DataLoader


def loss_of(encoder: nn.Module, decoder: nn.Module, images: Tensor) -> Tensor:
    with torch.amp.autocast("cuda", dtype=torch.float16):
        return nn.functional.mse_loss(decoder(encoder(images)), images)


def train(encoder: nn.Module, decoder: nn.Module, loader: DataLoader[Tensor], epochs: int) -> None:
    optimizer_e = torch.optim.SGD(encoder.parameters(), lr=0.1)
    optimizer_d = torch.optim.SGD(decoder.parameters(), lr=0.1)
    scaler = torch.amp.GradScaler("cuda")
    for _ in range(epochs):
        for images in loader:
            optimizer_e.zero_grad()
            optimizer_d.zero_grad()
            loss = loss_of(encoder, decoder, images.cuda())
            scaler.scale(loss).backward()
            scaler.unscale_(optimizer_e)
            scaler.unscale_(optimizer_d)
            nn.utils.clip_grad_norm_(encoder.parameters(), 1.0)
            nn.utils.clip_grad_norm_(decoder.parameters(), 1.0)
            scaler.step(optimizer_e)
            scaler.step(optimizer_d)
            scaler.update()
