"""Random small training loops, as source: most of them wrong, all of them runnable until torch refuses.

A program starts as a correct loop (one or two optimizers, a window of 1 to 4 micro-batches, perhaps `use_amp`, a
finiteness test or a flush of the tail) and then loses, doubles, moves or re-guards up to three statements.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from hypothesis import strategies as st

__all__ = ["Program", "Statement", "programs"]

AMP, NO_AMP, FINITE = "use_amp", "not use_amp", "torch.isfinite(loss)"

_BOUNDARIES = (
    "(i + 1) % {k} == 0",
    "i % {k} == {k} - 1",
    "i % {k} == 0",
    "not (i + 1) % {k}",
    "(i + 1) % {k} == 0 or i + 1 == len(loader)",
)

_DIVIDE = """for p in model_{name}.parameters():
    if p.grad is not None:
        p.grad /= {k}"""


@dataclass(frozen=True, slots=True)
class Statement:
    """A statement of the loop's body and the tests that it stands under, outermost first."""

    text: str
    tests: tuple[str, ...] = ()
    fixed: bool = False


@dataclass(frozen=True, slots=True)
class Program:
    """A training loop: its window, what its optimizers hold, and its statements."""

    window: int
    models: tuple[str, ...]
    body: tuple[Statement, ...]
    tail: tuple[Statement, ...] = ()

    @property
    def is_rich(self) -> bool:
        """Whether it has several optimizers, a guard besides the boundary, or a tail."""
        guards = {test for statement in self.body for test in statement.tests}
        return len(self.models) > 1 or bool(guards & {AMP, NO_AMP, FINITE}) or bool(self.tail)

    @property
    def source(self) -> str:
        """The loop as Python."""
        models = [f"model_{name}" for name in self.models]
        head = [
            "import torch",
            "from torch import nn",
            "",
            "",
            f"def train({', '.join(f'{m}: nn.Module' for m in models)}, loader, epochs: int, use_amp: bool):",
            *(f"    optimizer_{n} = torch.optim.SGD(model_{n}.parameters(), lr=1.0)" for n in self.models),
            '    scaler = torch.amp.GradScaler("cpu", init_scale=8.0)',
            "    for epoch in range(epochs):",
            "        for i, x in enumerate(loader):",
        ]
        return "\n".join([*head, *_lines(self.body, 3), *_lines(self.tail, 2), ""])


def _lines(statements: Sequence[Statement], depth: int) -> Iterator[str]:
    """Source lines; neighbours under the same tests share one `if`."""
    open_tests: tuple[str, ...] = ()
    for statement in statements:
        if statement.tests != open_tests:
            for level, test in enumerate(statement.tests):
                yield f"{'    ' * (depth + level)}if {test}:"
            open_tests = statement.tests
        for line in statement.text.splitlines():
            yield f"{'    ' * (depth + len(open_tests))}{line}"


@st.composite
def programs(draw: st.DrawFn) -> Program:
    """A correct loop with up to three changes."""
    window = draw(st.integers(1, 4))
    models = draw(st.sampled_from([("a",), ("a",), ("a", "b")]))
    guard = draw(st.sampled_from(["", "", AMP, FINITE]))
    boundary = draw(st.sampled_from(_BOUNDARIES)).format(k=window) if window > 1 else ""
    division = draw(st.sampled_from(["loss", "scaled", "gradients", "none"])) if window > 1 else "none"
    losses = draw(st.sampled_from(["joint", "apart"])) if len(models) > 1 else "joint"
    closing = tuple(_closing(models, window, division, draw(st.booleans()), draw(st.booleans())))
    backward = tuple(_backward(models, window, division, losses))
    finite = (FINITE,) if guard == FINITE else ()
    at_boundary = (*finite, *([boundary] if boundary else []))
    body = [*backward, *(replace(s, tests=at_boundary) for s in closing)]
    for _ in range(draw(st.integers(0, 3))):
        body = draw(_changed(tuple(body), boundary))
    if guard == AMP:
        body = list(_in_both_arms(body))
    flushes = window > 1 and "len(loader)" not in boundary and draw(st.booleans())
    tail = tuple(replace(s, tests=(f"(i + 1) % {window} != 0",)) for s in closing) if flushes else ()
    if guard == AMP:
        tail = tuple(_in_both_arms(tail))
    return Program(window, models, tuple(body), tail)


def _backward(models: Sequence[str], window: int, division: str, losses: str) -> Iterator[Statement]:
    """Forward, division and backward; two optimizers have one loss or a loss each."""
    forward = " + ".join(f"model_{name}(x).sum()" for name in models)
    names = ["loss"] if losses == "joint" else [f"loss_{name}" for name in models]
    if losses == "joint":
        yield Statement(f"loss = {forward}", fixed=True)
    else:
        yield from (Statement(f"loss_{name} = model_{name}(x).sum()", fixed=True) for name in models)
        yield Statement("loss = " + " + ".join(f"loss_{name}.detach()" for name in models), fixed=True)
    for name in names:
        if division == "loss":
            yield Statement(f"{name} = {name} / {window}", fixed=True)
        scaled = f"(scaler.scale({name}) / {window})" if division == "scaled" else f"scaler.scale({name})"
        yield Statement(f"{scaled}.backward(retain_graph=True)")


def _closing(
    models: Sequence[str], window: int, division: str, unscale: bool, zero_by_model: bool
) -> Iterator[Statement]:
    """What ends a window: divide by hand, unscale, clip, step, update, zero."""
    for name in models:
        if division == "gradients":
            yield Statement(_DIVIDE.format(name=name, k=window))
        if unscale:
            yield Statement(f"scaler.unscale_(optimizer_{name})")
            yield Statement(f"nn.utils.clip_grad_norm_(model_{name}.parameters(), 1e6)")
    for name in models:
        yield Statement(f"scaler.step(optimizer_{name})")
    yield Statement("scaler.update()")
    for name in models:
        yield Statement(f"{'model' if zero_by_model else 'optimizer'}_{name}.zero_grad()")


@st.composite
def _changed(draw: st.DrawFn, body: tuple[Statement, ...], boundary: str) -> list[Statement]:
    """One statement lost, doubled, moved, guarded otherwise, or stepped past the scaler."""
    free = [index for index, statement in enumerate(body) if not statement.fixed]
    if not free:
        return list(body)
    index = draw(st.sampled_from(free))
    first = max((i for i, statement in enumerate(body) if statement.fixed), default=-1) + 1
    statement, rest = body[index], [*body[:index], *body[index + 1 :]]
    change = draw(st.sampled_from(["lose", "double", "move", "guard", "raw"]))
    if change == "lose":
        return rest
    if change == "double":
        return [*body[: index + 1], statement, *body[index + 1 :]]
    if change == "move":
        place = draw(st.integers(first, len(rest)))
        return [*rest[:place], statement, *rest[place:]]
    if change == "guard" and boundary and "backward" not in statement.text:
        outer = tuple(test for test in statement.tests if test != boundary)
        tests = outer if boundary in statement.tests else (*outer, boundary)
        return [*body[:index], replace(statement, tests=tests), *body[index + 1 :]]
    raw = statement.text.replace("scaler.step(optimizer_a)", "optimizer_a.step()")
    return [*body[:index], replace(statement, text=raw), *body[index + 1 :]]


def _in_both_arms(body: Sequence[Statement]) -> Iterator[Statement]:
    """Each statement that names the scaler under ``if use_amp``, and what replaces it under its contrary."""
    for statement in body:
        plain = _without_scaler(statement.text)
        if plain == statement.text:
            yield statement
            continue
        yield replace(statement, tests=(AMP, *statement.tests))
        if plain:
            yield replace(statement, text=plain, tests=(NO_AMP, *statement.tests))


def _without_scaler(text: str) -> str:
    """The statement as it is written without mixed precision; empty when there is none."""
    if "unscale_" in text or "update" in text:
        return ""
    if text.startswith("scaler.step("):
        return text.removeprefix("scaler.step(").removesuffix(")") + ".step()"
    return re.sub(r"scaler\.scale\((\w+)\)", r"\1", text)
