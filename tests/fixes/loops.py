"""Small faulty loops for the tests of fixes, and how a fix is made by its edits alone."""

from __future__ import annotations

from collections.abc import Iterable

from ampcheck.finding import Edit

__all__ = ["CLIPPED", "PREAMBLE", "edited"]

PREAMBLE = """\
import torch
import torch.nn.functional as F


def train(model, loader, k, max_norm, use_amp):
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    scaler = torch.amp.GradScaler("cuda")
"""

CLIPPED = f"""\
{PREAMBLE}
    for x, y in loader:
        optimizer.zero_grad()
        with torch.autocast("cuda", dtype=torch.float16):
            loss = F.cross_entropy(model(x), y)
        scaler.scale(loss).backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), max_norm)  # keep the norm in bounds
        scaler.step(optimizer)
        scaler.update()
"""
"""AMP101: the clip sees scaled gradients."""


def edited(text: str, edits: Iterable[Edit]) -> str:
    """A text with replacements made, which must be in order of place and apart."""
    lines = text.split("\n")
    starts = [0]
    for line in lines:
        starts.append(starts[-1] + len(line) + 1)
    parts: list[str] = []
    at = 0
    for edit in edits:
        start = starts[edit.site.line - 1] + edit.site.column - 1
        stop = starts[edit.site.end_line - 1] + edit.site.end_column - 1
        assert at <= start <= stop
        parts += [text[at:start], edit.text]
        at = stop
    return "".join([*parts, text[at:]])
