"""Mixed precision is an option: the scaler is there all the same, and does nothing when it is off."""

import argparse

import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.data import DataLoader


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser()
    parser.add_argument("--amp", action="store_true")
    parser.add_argument("--accumulation-steps", type=int, default=4)
    parser.add_argument("--clip-grad", type=float, default=1.0)
    parser.add_argument("--epochs", type=int, default=100)
    return parser.parse_args()


def run(model: nn.Module, loader: DataLoader) -> None:
    args = parse()
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-4)
    scheduler = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, T_max=1000)
    scaler = torch.amp.GradScaler("cuda", enabled=args.amp)
    for epoch in range(args.epochs):
        for idx, (samples, targets) in enumerate(loader):
            with torch.autocast("cuda", dtype=torch.float16, enabled=args.amp):
                loss = F.cross_entropy(model(samples.cuda()), targets.cuda())
            loss = loss / args.accumulation_steps
            scaler.scale(loss).backward()
            if (idx + 1) % args.accumulation_steps == 0 or (idx + 1) == len(loader):
                scaler.unscale_(optimizer)
                nn.utils.clip_grad_norm_(model.parameters(), args.clip_grad)
                before = scaler.get_scale()
                scaler.step(optimizer)
                scaler.update()
                optimizer.zero_grad()
                if before <= scaler.get_scale():
                    scheduler.step()
