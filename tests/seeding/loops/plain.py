"""Everything in one function; the epoch's last window may be shorter."""

import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.data import DataLoader

WINDOW = 4


def main(model: nn.Module, loader: DataLoader, epochs: int) -> None:
    model = model.cuda()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    scheduler = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda step: min(1.0, (step + 1) / 100))
    scaler = torch.amp.GradScaler("cuda")
    for epoch in range(epochs):
        for i, (images, labels) in enumerate(loader):
            with torch.autocast("cuda", dtype=torch.float16):
                loss = F.cross_entropy(model(images.cuda()), labels.cuda())
            loss = loss / WINDOW
            scaler.scale(loss).backward()
            if (i + 1) % WINDOW == 0 or i + 1 == len(loader):
                scaler.unscale_(optimizer)
                nn.utils.clip_grad_norm_(model.parameters(), 1.0)
                before = scaler.get_scale()
                scaler.step(optimizer)
                scaler.update()
                optimizer.zero_grad(set_to_none=True)
                if before <= scaler.get_scale():
                    scheduler.step()
        print(epoch, loss.item())
