"""Windows end at a remainder of K - 1; the loss is a criterion's, and each epoch is validated."""

import torch
from torch import nn
from torch.utils.data import DataLoader


@torch.no_grad()
def validate(net: nn.Module, loader: DataLoader) -> float:
    net.eval()
    right = sum((net(images.cuda()).argmax(1) == labels.cuda()).sum().item() for images, labels in loader)
    net.train()
    return right / len(loader.dataset)


def main(net: nn.Module, loader: DataLoader, held_out: DataLoader, epochs: int, window: int) -> None:
    criterion = nn.CrossEntropyLoss()
    optimizer = torch.optim.NAdam(net.parameters(), lr=1e-3)
    scheduler = torch.optim.lr_scheduler.StepLR(optimizer, step_size=2000)
    scaler = torch.amp.GradScaler("cuda")
    best = 0.0
    for epoch in range(epochs):
        for i, (images, labels) in enumerate(loader):
            images, labels = images.cuda(non_blocking=True), labels.cuda(non_blocking=True)
            with torch.autocast("cuda", dtype=torch.float16):
                loss = criterion(net(images), labels)
            loss = loss / window
            scaler.scale(loss).backward()
            if i % window == window - 1 or i == len(loader) - 1:
                scaler.unscale_(optimizer)
                nn.utils.clip_grad_norm_(net.parameters(), 5.0)
                before = scaler.get_scale()
                scaler.step(optimizer)
                scaler.update()
                optimizer.zero_grad()
                if before <= scaler.get_scale():
                    scheduler.step()
        accuracy = validate(net, held_out)
        best = max(best, accuracy)
        print(f"epoch {epoch}: accuracy {accuracy:.1%}, best {best:.1%}")
