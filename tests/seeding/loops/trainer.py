"""A trainer class: its parts are attributes, its steps are methods."""

from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.utils.data import DataLoader


@dataclass
class Config:
    epochs: int = 3
    accumulate: int = 8
    max_norm: float = 0.5


class Trainer:
    def __init__(self, model: nn.Module, loader: DataLoader, config: Config) -> None:
        self.model = model.cuda()
        self.loader = loader
        self.config = config
        self.criterion = nn.CrossEntropyLoss()
        self.optimizer = torch.optim.AdamW(self.model.parameters(), lr=3e-4)
        self.scheduler = torch.optim.lr_scheduler.LinearLR(self.optimizer, total_iters=500)
        self.scaler = torch.amp.GradScaler("cuda")

    def fit(self) -> None:
        for epoch in range(self.config.epochs):
            self.model.train()
            for index, (images, labels) in enumerate(self.loader):
                self.micro_batch(images.cuda(), labels.cuda())
                if (index + 1) % self.config.accumulate == 0 or index + 1 == len(self.loader):
                    self.update()

    def micro_batch(self, images: Tensor, labels: Tensor) -> None:
        with torch.autocast("cuda", dtype=torch.float16):
            loss = self.criterion(self.model(images), labels)
        loss = loss / self.config.accumulate
        self.scaler.scale(loss).backward()

    def update(self) -> None:
        self.scaler.unscale_(self.optimizer)
        nn.utils.clip_grad_norm_(self.model.parameters(), self.config.max_norm)
        before = self.scaler.get_scale()
        self.scaler.step(self.optimizer)
        self.scaler.update()
        self.optimizer.zero_grad(set_to_none=True)
        if before <= self.scaler.get_scale():
            self.scheduler.step()
