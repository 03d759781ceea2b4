"""Traces derived from small source strings, and the few questions that the tests ask of them.

    explored = derive('''
    def train(model, loader, k):
        optimizer = torch.optim.SGD(model.parameters(), 0.1)
        for i, (x, y) in enumerate(loader):
            (model(x).mean() / k).backward()
            if (i + 1) % k == 0:
                optimizer.step()
                optimizer.zero_grad()
    ''')
    assert micros(only(explored), Step) == [2, 5]

The imports that every training script has (see `IMPORTS`) stand in front of each source; they are on one line, so
that line n of a source, counted from its first line of code, is line n + 1 of the file.
"""

from __future__ import annotations

import ast
import textwrap

from ampcheck import events as ev
from ampcheck.events import Backward, Event
from ampcheck.lowering import lower
from ampcheck.program import Module, Program
from ampcheck.running import Exploration, explore
from ampcheck.source import Source
from ampcheck.trace import Record, Trace

__all__ = [
    "dedented",
    "derive",
    "holding",
    "logged",
    "loop",
    "lowered",
    "micros",
    "only",
    "story",
    "training",
    "units",
    "usual",
]

IMPORTS = (
    "import contextlib, functools, itertools, math, torch; import torch.nn as nn; "
    "from contextlib import ExitStack, nullcontext; from torch.amp import GradScaler, autocast; "
    "from torch.nn.parallel import DistributedDataParallel as DDP; "
    "from torch.nn.utils import clip_grad_norm_, clip_grad_value_\n"
)

WORDS: dict[type[Event], str] = {
    ev.Backward: "backward",
    ev.Unscale: "unscale",
    ev.Clip: "clip",
    ev.Edit: "edit",
    ev.Read: "read",
    ev.Step: "step",
    ev.Update: "update",
    ev.ZeroGrad: "zero",
    ev.ScheduleStep: "schedule",
    ev.AverageUpdate: "average",
    ev.ReadScale: "read-scale",
    ev.Reduce: "reduce",
    ev.Jump: "jump",
    ev.Autocast: "autocast",
    ev.Convert: "convert",
    ev.Build: "build",
    ev.Differentiate: "differentiate",
    ev.ResultTest: "result",
    ev.Escape: "escape",
}


def dedented(source: str) -> str:
    """A source as it stands in a test, as it would stand in a file."""
    return textwrap.dedent(source).lstrip("\n")


def lowered(source: str) -> Module:
    """The sliced program of a source."""
    text = IMPORTS + dedented(source)
    return lower(Source("train.py", text, ast.parse(text)))


def derive(source: str) -> Exploration:
    """All runs of a source."""
    return explore(Program(lowered(source)))


def only(explored: Exploration) -> Trace:
    """The one trace of a program that leaves no choice open."""
    (trace,) = explored.traces
    assert not explored.truncations
    return trace


def usual(explored: Exploration) -> Trace:
    """The uneventful run: the first, in which nothing deviates."""
    return explored.traces[0]


def holding(explored: Exploration, **choices: bool) -> list[Trace]:
    """The runs in which invariant tests come out as given; `a_b` also names the test ``a.b``."""
    found = []
    for trace in explored.traces:
        chosen = {g.text.replace(".", "_"): g.holds for g in trace.choices if not g.varying}
        if all(chosen.get(text) == holds for text, holds in choices.items()):
            found.append(trace)
    return found


def story(trace: Trace, iteration: int | None = None, *, without: str = "build autocast jump") -> str:
    """The kinds of a run's events in order, as words; only those of the n-th iteration over batches if given."""
    left_out = without.split()
    records = trace.records if iteration is None else _iteration(trace, iteration)
    return " ".join(word for word in (WORDS[type(r.event)] for r in records) if word not in left_out)


def _iteration(trace: Trace, number: int) -> list[Record]:
    """The records of one iteration of the innermost loop over batches."""
    depth = max(len(r.iteration) for r in trace.records)
    inside = [r for r in trace.records if len(r.iteration) == depth]
    wanted = list(dict.fromkeys(r.iteration for r in inside))[number]
    return [r for r in inside if r.iteration == wanted]


def micros(trace: Trace, kind: type[Event]) -> list[int]:
    """The micro-batches in which events of a kind happen, in order."""
    return [record.micro for record, _ in trace.of(kind)]


def units(trace: Trace) -> list[str]:
    """The distinct units of the losses that are differentiated, in order: ``S / K``; parts joined by ``+``."""
    return list(dict.fromkeys(" + ".join(map(str, b.loss.parts)) for _, b in trace.of(Backward)))


def training(
    body: str, *, before: str = "", arguments: str = "k", after: str = "", scaled: bool = True
) -> str:
    """A function with an optimizer, a scaler and one loop over batches with `body` in it."""
    scaler = '    scaler = GradScaler("cuda")\n' if scaled else ""
    return (
        f"def train(model, loader, {arguments}):\n"
        "    optimizer = torch.optim.SGD(model.parameters(), 0.1)\n"
        f"{scaler}{_block(before, 4)}"
        "    for i, (x, y) in enumerate(loader):\n"
        f"{_block(body, 8)}{_block(after, 4)}"
    )


def loop(body: str, *, before: str = "", arguments: str = "k") -> str:
    """The same without a scaler: accumulation only."""
    return training(body, before=before, arguments=arguments, scaled=False)


def logged(trace: Trace) -> list[str]:
    """The invariant choices of a run: ``use_amp``, ``not debug``."""
    return [g.text if g.holds else f"not {g.text}" for g in trace.choices if not g.varying]


def _block(text: str, indent: int) -> str:
    return textwrap.indent(textwrap.dedent(text).strip("\n") + "\n", " " * indent) if text.strip() else ""
