"""A training script of three hundred lines, as people write them: what `one_file.py` times ampcheck on."""

from __future__ import annotations

import argparse
import json
import math
import os
import random
import time
from pathlib import Path

import numpy as np
import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.data import DataLoader, Dataset


def parse_args():
    parser = argparse.ArgumentParser(description="Train a small transformer on token files.")
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--output", type=Path, default=Path("runs"))
    parser.add_argument("--epochs", type=int, default=10)
    parser.add_argument("--batch-size", type=int, default=16)
    parser.add_argument("--accumulation-steps", type=int, default=4)
    parser.add_argument("--learning-rate", type=float, default=3e-4)
    parser.add_argument("--weight-decay", type=float, default=0.1)
    parser.add_argument("--warmup", type=int, default=200)
    parser.add_argument("--clip", type=float, default=1.0)
    parser.add_argument("--layers", type=int, default=6)
    parser.add_argument("--width", type=int, default=384)
    parser.add_argument("--heads", type=int, default=6)
    parser.add_argument("--context", type=int, default=256)
    parser.add_argument("--vocabulary", type=int, default=32000)
    parser.add_argument("--dropout", type=float, default=0.1)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--log-every", type=int, default=50)
    parser.add_argument("--evaluate-every", type=int, default=1000)
    parser.add_argument("--resume", type=Path)
    parser.add_argument("--amp", action="store_true")
    parser.add_argument("--compile", action="store_true")
    return parser.parse_args()


def seed_everything(seed):
    random.seed(seed)
    np.random.seed(seed)
    torch.manual_seed(seed)
    torch.cuda.manual_seed_all(seed)


class Tokens(Dataset):
    """Windows of a fixed length over one long array of tokens."""

    def __init__(self, path, context, vocabulary):
        self.tokens = np.memmap(path, dtype=np.uint16, mode="r")
        self.context = context
        self.vocabulary = vocabulary
        if len(self.tokens) <= context:
            raise ValueError(f"{path}: fewer than {context} tokens")

    def __len__(self):
        return (len(self.tokens) - 1) // self.context

    def __getitem__(self, index):
        start = index * self.context
        window = self.tokens[start : start + self.context + 1].astype(np.int64)
        window = np.minimum(window, self.vocabulary - 1)
        return torch.from_numpy(window[:-1]), torch.from_numpy(window[1:])


class Attention(nn.Module):
    def __init__(self, width, heads, dropout):
        super().__init__()
        assert width % heads == 0
        self.heads = heads
        self.qkv = nn.Linear(width, 3 * width, bias=False)
        self.out = nn.Linear(width, width, bias=False)
        self.dropout = dropout

    def forward(self, x):
        batch, length, width = x.shape
        q, k, v = self.qkv(x).split(width, dim=2)
        q = q.view(batch, length, self.heads, width // self.heads).transpose(1, 2)
        k = k.view(batch, length, self.heads, width // self.heads).transpose(1, 2)
        v = v.view(batch, length, self.heads, width // self.heads).transpose(1, 2)
        dropout = self.dropout if self.training else 0.0
        y = F.scaled_dot_product_attention(q, k, v, dropout_p=dropout, is_causal=True)
        return self.out(y.transpose(1, 2).reshape(batch, length, width))


class Block(nn.Module):
    def __init__(self, width, heads, dropout):
        super().__init__()
        self.norm_1 = nn.LayerNorm(width)
        self.attention = Attention(width, heads, dropout)
        self.norm_2 = nn.LayerNorm(width)
        self.mlp = nn.Sequential(
            nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width), nn.Dropout(dropout)
        )

    def forward(self, x):
        x = x + self.attention(self.norm_1(x))
        return x + self.mlp(self.norm_2(x))


class Transformer(nn.Module):
    def __init__(self, args):
        super().__init__()
        self.context = args.context
        self.tokens = nn.Embedding(args.vocabulary, args.width)
        self.positions = nn.Embedding(args.context, args.width)
        self.blocks = nn.ModuleList(Block(args.width, args.heads, args.dropout) for _ in range(args.layers))
        self.norm = nn.LayerNorm(args.width)
        self.head = nn.Linear(args.width, args.vocabulary, bias=False)
        self.head.weight = self.tokens.weight
        self.apply(self._initialise)

    def _initialise(self, module):
        if isinstance(module, nn.Linear):
            nn.init.normal_(module.weight, mean=0.0, std=0.02)
            if module.bias is not None:
                nn.init.zeros_(module.bias)
        elif isinstance(module, nn.Embedding):
            nn.init.normal_(module.weight, mean=0.0, std=0.02)

    def forward(self, tokens):
        length = tokens.shape[1]
        positions = torch.arange(length, device=tokens.device)
        x = self.tokens(tokens) + self.positions(positions)
        for block in self.blocks:
            x = block(x)
        return self.head(self.norm(x))


def build_optimizer(model, args):
    decay, no_decay = [], []
    for parameter in model.parameters():
        (decay if parameter.dim() > 1 else no_decay).append(parameter)
    groups = [
        {"params": decay, "weight_decay": args.weight_decay},
        {"params": no_decay, "weight_decay": 0.0},
    ]
    return torch.optim.AdamW(groups, lr=args.learning_rate, betas=(0.9, 0.95))


def learning_rate(step, args, total):
    if step < args.warmup:
        return args.learning_rate * (step + 1) / args.warmup
    progress = (step - args.warmup) / max(1, total - args.warmup)
    return 0.1 * args.learning_rate + 0.45 * args.learning_rate * (1.0 + math.cos(math.pi * progress))


def set_learning_rate(optimizer, rate):
    for group in optimizer.param_groups:
        group["lr"] = rate


class Meter:
    def __init__(self):
        self.total = 0.0
        self.count = 0

    def add(self, value, count=1):
        self.total += value * count
        self.count += count

    @property
    def mean(self):
        return self.total / max(1, self.count)

    def reset(self):
        self.total, self.count = 0.0, 0


@torch.no_grad()
def evaluate(model, loader, device, args):
    model.eval()
    meter = Meter()
    for tokens, targets in loader:
        tokens, targets = tokens.to(device), targets.to(device)
        with torch.autocast(device.type, dtype=torch.float16, enabled=args.amp):
            logits = model(tokens)
            loss = F.cross_entropy(logits.flatten(0, 1), targets.flatten())
        meter.add(loss.item(), tokens.shape[0])
    model.train()
    return meter.mean


def save(path, model, optimizer, scaler, epoch, step, best):
    state = {
        "model": model.state_dict(),
        "optimizer": optimizer.state_dict(),
        "scaler": scaler.state_dict(),
        "epoch": epoch,
        "step": step,
        "best": best,
    }
    temporary = path.with_suffix(".tmp")
    torch.save(state, temporary)
    os.replace(temporary, path)


def load(path, model, optimizer, scaler, device):
    state = torch.load(path, map_location=device, weights_only=True)
    model.load_state_dict(state["model"])
    optimizer.load_state_dict(state["optimizer"])
    scaler.load_state_dict(state["scaler"])
    return state["epoch"] + 1, state["step"], state["best"]


def log(file, **entries):
    print("  ".join(f"{key} {value:.4g}" for key, value in entries.items()))
    file.write(json.dumps(entries) + "\n")
    file.flush()


def train(args):
    seed_everything(args.seed)
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    args.output.mkdir(parents=True, exist_ok=True)
    training = Tokens(args.data / "train.bin", args.context, args.vocabulary)
    validation = Tokens(args.data / "validation.bin", args.context, args.vocabulary)
    train_loader = DataLoader(training, args.batch_size, shuffle=True, num_workers=4, drop_last=True)
    validation_loader = DataLoader(validation, args.batch_size, num_workers=2)

    model = Transformer(args).to(device)
    optimizer = build_optimizer(model, args)
    scaler = torch.amp.GradScaler(device.type, enabled=args.amp)
    if args.compile:
        model = torch.compile(model)
    first_epoch, step, best = 0, 0, float("inf")
    if args.resume is not None:
        first_epoch, step, best = load(args.resume, model, optimizer, scaler, device)

    total = args.epochs * len(train_loader) // args.accumulation_steps
    meter = Meter()
    started = time.perf_counter()
    with open(args.output / "log.jsonl", "a") as file:
        for epoch in range(first_epoch, args.epochs):
            model.train()
            optimizer.zero_grad(set_to_none=True)
            for i, (tokens, targets) in enumerate(train_loader):
                tokens = tokens.to(device, non_blocking=True)
                targets = targets.to(device, non_blocking=True)
                with torch.autocast(device.type, dtype=torch.float16, enabled=args.amp):
                    logits = model(tokens)
                    loss = F.cross_entropy(logits.flatten(0, 1), targets.flatten())
                meter.add(loss.item())
                scaler.scale(loss / args.accumulation_steps).backward()

                if (i + 1) % args.accumulation_steps != 0:
                    continue
                set_learning_rate(optimizer, learning_rate(step, args, total))
                scaler.unscale_(optimizer)
                norm = nn.utils.clip_grad_norm_(model.parameters(), args.clip)
                scaler.step(optimizer)
                scaler.update()
                optimizer.zero_grad(set_to_none=True)
                step += 1

                if step % args.log_every == 0:
                    seconds = time.perf_counter() - started
                    log(file, step=step, loss=meter.mean, norm=float(norm), seconds=seconds)
                    meter.reset()
                if step % args.evaluate_every == 0:
                    current = evaluate(model, validation_loader, device, args)
                    log(file, step=step, validation=current)
                    if current < best:
                        best = current
                        save(args.output / "best.pt", model, optimizer, scaler, epoch, step, best)
            save(args.output / "last.pt", model, optimizer, scaler, epoch, step, best)
    return best


def main():
    args = parse_args()
    if args.accumulation_steps < 1:
        raise SystemExit("--accumulation-steps must be at least 1")
    best = train(args)
    print(f"best validation loss {best:.4f}")


if __name__ == "__main__":
    main()
