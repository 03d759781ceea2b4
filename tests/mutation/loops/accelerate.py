"""Accelerate: everything is prepared, a window of micro-batches is an update."""

import torch
from accelerate import Accelerator
from torch import nn
from torch.utils.data import DataLoader


def train(model: nn.Module, loader: DataLoader[dict[str, torch.Tensor]], epochs: int, window: int) -> None:
    accelerator = Accelerator(mixed_precision="fp16", gradient_accumulation_steps=window)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    model, optimizer, loader = accelerator.prepare(model, optimizer, loader)
    for _ in range(epochs):
        for batch in loader:
            with accelerator.accumulate(model):
                loss = nn.functional.cross_entropy(model(batch["pixels"]), batch["labels"])
                accelerator.backward(loss)
                if accelerator.sync_gradients:
                    accelerator.clip_grad_norm_(model.parameters(), 1.0)
                optimizer.step()
                optimizer.zero_grad()
