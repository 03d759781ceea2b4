"""Each batch of the loader is an update, made in micro-batches that fit into memory."""

import torch
from torch import Tensor, nn
from torch.utils.data import DataLoader


class Learner:
    def __init__(self, net: nn.Module, micro_batches: int) -> None:
        self.net = net.cuda()
        self.micro_batches = micro_batches
        self.opt = torch.optim.SGD(self.net.parameters(), lr=0.01, momentum=0.9)
        self.sched = torch.optim.lr_scheduler.MultiStepLR(self.opt, [10_000, 20_000])
        self.amp = torch.amp.GradScaler("cuda")

    def learn(self, batch: Tensor, goal: Tensor) -> float:
        total = 0.0
        chunks = zip(batch.chunk(self.micro_batches), goal.chunk(self.micro_batches), strict=True)
        for number, (x, y) in enumerate(chunks):
            with torch.autocast("cuda", dtype=torch.float16):
                loss = nn.functional.mse_loss(self.net(x.cuda()), y.cuda())
            total += loss.item()
            loss = loss / self.micro_batches
            self.amp.scale(loss).backward()
            if number + 1 == self.micro_batches:
                self.amp.unscale_(self.opt)
                nn.utils.clip_grad_norm_(self.net.parameters(), 10.0)
                before = self.amp.get_scale()
                self.amp.step(self.opt)
                self.amp.update()
                self.opt.zero_grad(set_to_none=True)
                if before <= self.amp.get_scale():
                    self.sched.step()
        return total


def main(net: nn.Module, loader: DataLoader, epochs: int) -> None:
    learner = Learner(net, micro_batches=4)
    for epoch in range(epochs):
        for batch, goal in loader:
            learner.learn(batch, goal)
