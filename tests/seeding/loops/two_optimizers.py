"""An encoder and a decoder with an optimizer each, one loss, one scaler, one joint clip."""

import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.data import DataLoader


def train(encoder: nn.Module, decoder: nn.Module, loader: DataLoader, epochs: int, window: int) -> None:
    opt_encoder = torch.optim.Adam(encoder.parameters(), lr=1e-4)
    opt_decoder = torch.optim.SGD(decoder.parameters(), lr=1e-2)
    scaler = torch.amp.GradScaler("cuda")
    for epoch in range(epochs):
        for i, images in enumerate(loader):
            images = images.cuda()
            with torch.autocast("cuda", dtype=torch.float16):
                loss = F.mse_loss(decoder(encoder(images)), images)
            loss = loss / window
            scaler.scale(loss).backward()
            if (i + 1) % window == 0 or i + 1 == len(loader):
                scaler.unscale_(opt_encoder)
                scaler.unscale_(opt_decoder)
                nn.utils.clip_grad_norm_([*encoder.parameters(), *decoder.parameters()], 1.0)
                scaler.step(opt_encoder)
                scaler.step(opt_decoder)
                scaler.update()
                opt_encoder.zero_grad()
                opt_decoder.zero_grad()
