"""What a loop really does to its gradients: its source is executed on a probe, and every step is watched.

Micro-batch m's gradient is the m-th unit vector, so the gradient at a step *is* the list of factors with which
each micro-batch entered it.
"""

from __future__ import annotations

import sys
import traceback
from collections.abc import Iterator
from dataclasses import dataclass, field
from types import FrameType
from typing import Any

import torch
from torch import Tensor, nn
from torch.optim.optimizer import register_optimizer_step_pre_hook

from tests.differential.programs import Program

__all__ = ["SCALE", "Measured", "StepSeen", "measure"]

SCALE = 8.0
FILE = "train.py"


@dataclass(frozen=True, slots=True)
class StepSeen:
    """A call of an optimizer's own `step`: its line, whose it is, and each micro-batch's factor."""

    line: int
    optimizer: str
    factors: dict[int, float]


@dataclass(frozen=True, slots=True)
class Measured:
    """All steps in order, and the line on which torch raised, if it did, with what it said."""

    steps: tuple[StepSeen, ...]
    raised_at: int | None = None
    message: str = ""


class _Probe(nn.Module):
    def __init__(self, micro_batches: int) -> None:
        super().__init__()
        self.p = nn.Parameter(torch.zeros(micro_batches))

    def forward(self, x: Tensor) -> Tensor:
        return self.p * x


@dataclass
class _Loader:
    """Unit vectors, one a micro-batch; each pass goes on where the last one ended."""

    length: int
    micro_batches: int
    served: int = field(default=0)

    def __len__(self) -> int:
        return self.length

    def __iter__(self) -> Iterator[Tensor]:
        for _ in range(self.length):
            x = torch.zeros(self.micro_batches)
            x[self.served] = 1.0
            self.served += 1
            yield x


def measure(program: Program, length: int, epochs: int, use_amp: bool) -> Measured:
    """Run the loop for some epochs of `length` micro-batches."""
    probes = {name: _Probe(length * epochs) for name in program.models}
    steps: list[StepSeen] = []

    def watch(optimizer: torch.optim.Optimizer, args: Any, kwargs: Any) -> None:
        (held,) = optimizer.param_groups[0]["params"]
        name = next(name for name, probe in probes.items() if probe.p is held)
        grad = torch.zeros_like(held) if held.grad is None else held.grad
        factors = {micro: value for micro, value in enumerate(grad.tolist()) if value}
        steps.append(StepSeen(_line(sys._getframe()), f"optimizer_{name}", factors))

    namespace: dict[str, Any] = {}
    exec(compile(program.source, FILE, "exec"), namespace)
    models = {f"model_{name}": probe for name, probe in probes.items()}
    hook = register_optimizer_step_pre_hook(watch)
    try:
        namespace["train"](**models, loader=_Loader(length, length * epochs), epochs=epochs, use_amp=use_amp)
    except (RuntimeError, AssertionError) as error:
        lines = [
            frame.lineno for frame in traceback.extract_tb(error.__traceback__) if frame.filename == FILE
        ]
        return Measured(tuple(steps), lines[-1], str(error))
    finally:
        hook.remove()
    return Measured(tuple(steps))


def _line(frame: FrameType | None) -> int:
    """The line of the loop that is running."""
    while frame is not None and frame.f_code.co_filename != FILE:
        frame = frame.f_back
    assert frame is not None
    return frame.f_lineno
