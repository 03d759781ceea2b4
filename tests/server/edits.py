"""Edits as somebody makes them who types: mostly whole statements, often half of one, now and then something undone."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from random import Random

__all__ = ["HELPERS", "TRAIN", "texts"]

HELPERS = """\
import torch


def clip(model, limit):
    return torch.nn.utils.clip_grad_norm_(model.parameters(), limit)


def is_boundary(i, k):
    return (i + 1) % k == 0
"""

TRAIN = """\
import torch
from torch.cuda.amp import GradScaler
from helpers import clip, is_boundary

LIMIT = 1.0


class Head(torch.nn.Module):
    def forward(self, x):
        return x


def evaluate(model, loader):
    total = 0
    for x in loader:
        total += model(x).sum()
    return total


def train(model, loader, accum, use_amp):
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    scaler = GradScaler(enabled=use_amp)
    for i, x in enumerate(loader):
        loss = model(x).mean() / accum
        scaler.scale(loss).backward()
        if is_boundary(i, accum):
            scaler.unscale_(optimizer)
            clip(model, LIMIT)
            scaler.step(optimizer)
            scaler.update()
            optimizer.zero_grad()
"""

STATEMENTS = (
    *("scaler.unscale_(optimizer)", "clip(model, LIMIT)", "optimizer.zero_grad()", "scaler.update()"),
    *("scaler.step(optimizer)", "optimizer.step()", "loss = loss / accum", "scaler.scale(loss).backward()"),
    *(
        "print(loss)  # shown",
        "if not torch.isfinite(loss): continue",
        "x = [",
        "return loss",
        "loss.backward()",
    ),
    *(
        "torch.nn.utils.clip_grad_norm_(",
        "model.parameters(), 1.0)",
        "pass",
        "accum = 4",
        "é = '\U0001f600'; a = 1",
    ),
)
CHARACTERS = "abel_().,=: 14\n#'\\\té\U0001f600"


def texts(text: str, seed: int, count: int) -> Iterator[str]:
    """The text after each of so many edits; one that stays broken for long is undone, as a person would do."""
    random = Random(seed)
    good, broken = text, 0
    for _ in range(count):
        text = good if broken > 4 else _edited(text, random)
        broken = 0 if _is_python(text) else broken + 1
        good = good if broken or len(text) > 6000 else text
        yield text


def _edited(text: str, random: Random) -> str:
    lines = text.split("\n")
    at = random.randrange(len(lines))
    indent = lines[at][: len(lines[at]) - len(lines[at].lstrip())]
    match random.randrange(9):
        case 0 | 1:
            lines.insert(at, indent + random.choice(STATEMENTS))
        case 2:
            del lines[at]
        case 3:
            lines.insert(at, random.choice(["", "", indent + "# a remark", ""]))
        case 4:
            lines[at] += random.choice(["  # noted", "  ", ""])
        case 5:
            other = random.randrange(len(lines))
            lines[at], lines[other] = lines[other], lines[at]
        case 6:
            lines[at] = ("    " + lines[at]) if random.random() < 0.5 else lines[at].removeprefix("    ")
        case _:
            place = random.randrange(len(lines[at]) + 1)
            kept = place + (random.random() < 0.5)
            lines[at] = lines[at][:place] + random.choice(CHARACTERS) + lines[at][kept:]
    return "\n".join(lines)


def _is_python(text: str) -> bool:
    try:
        ast.parse(text)
    except (SyntaxError, ValueError):
        return False
    return True
