"""Gradients that the user's own code clips, edits, reads, clears or reduces."""

from __future__ import annotations

import pytest

from ampcheck.events import PLAIN, Clip, Edit, Escape, Read, Reduce, Step, Unit, ZeroGrad
from ampcheck.trace import Trace
from tests.running.derived import derive, micros, only, story, training, usual

SCALED = Unit((("scaler", 1),))


def run(edit: str, before: str = "") -> Trace:
    body = (
        f"scaler.scale(model(x).mean() / k).backward()\nif (i + 1) % k == 0:\n    {edit}\n"
        "    scaler.step(optimizer)\n    scaler.update()\n    optimizer.zero_grad()"
    )
    return usual(
        derive(training(body.replace("{edit}", edit), before=before, arguments="k, noise, mask, other"))
    )


def each(statement: str) -> str:
    """A statement for the gradient of each parameter."""
    lines = statement.replace("\n", "\n            ")
    return f"for p in model.parameters():\n        if p.grad is not None:\n            {lines}"


@pytest.mark.parametrize(
    ("statement", "factor"),
    [
        ("p.grad /= k", Unit(window=-1)),
        ("p.grad.div_(k)", Unit(window=-1)),
        ("p.grad.mul_(1 / k)", Unit(window=-1)),
        ("p.grad.mul_(1.0 / k)", Unit(window=-1)),
        ("p.grad = p.grad / k", Unit(window=-1)),
        ("p.grad.data = p.grad.data / k", Unit(window=-1)),
        ("p.grad.data.div_(k)", Unit(window=-1)),
        ("p.grad *= k", Unit(window=1)),
        ("p.grad.mul_(mask)", PLAIN),
        ("p.grad *= 0.5", PLAIN),
        ("p.grad.mul_(1.0 / scaler.get_scale())", Unit((("scaler", -1),))),
        ("p.grad /= scaler.get_scale()", Unit((("scaler", -1),))),
    ],
)
def test_multiplications(statement: str, factor: Unit) -> None:
    event = next(e for _, e in run(each(statement)).of(Edit))
    assert (event.effect, event.factor, event.owners) == ("multiply", factor, ("optimizer",))


@pytest.mark.parametrize(
    ("statement", "effect"),
    [
        ("p.grad += noise", "shift"),
        ("p.grad.add_(noise)", "shift"),
        ("p.grad = p.grad + noise", "shift"),
        ("p.grad.add_(p.data, alpha=0.1)", "shift"),
        ("p.grad = p.grad.sign()", "nonlinear"),
        ("p.grad.sign_()", "nonlinear"),
        ("p.grad = torch.sign(p.grad)", "nonlinear"),
        ("p.grad.nan_to_num_()", "hide"),
        ("p.grad = torch.nan_to_num(p.grad)", "hide"),
        ("torch.nan_to_num(p.grad, out=p.grad)", "hide"),
        ("p.grad.masked_fill_(torch.isnan(p.grad), 0)", "hide"),
        ("p.grad = torch.where(torch.isfinite(p.grad), p.grad, 0)", "hide"),
    ],
)
def test_other_edits(statement: str, effect: str) -> None:
    event = next(e for _, e in run(each(statement)).of(Edit))
    assert event.effect == effect


@pytest.mark.parametrize(
    "statement",
    ["p.grad.clamp_(-1, 1)", "p.grad = p.grad.clamp(-1, 1)", "p.grad = torch.clamp(p.grad, -1, 1)"],
)
def test_clamps_are_clips_by_value(statement: str) -> None:
    event = next(e for _, e in run(each(statement)).of(Clip))
    assert (event.style, event.by) == ("value", "hand")


CLIPPED_BY_HAND = {
    "torch.sqrt": "total = torch.sqrt(sum(p.grad.pow(2).sum() for p in model.parameters()))",
    "a running total": (
        "total = 0.0\n    for p in model.parameters():\n"
        "        total += p.grad.norm().item() ** 2\n    total = total ** 0.5"
    ),
    "a sum of squares": "total = sum(p.grad.norm() ** 2 for p in model.parameters()) ** 0.5",
}


@pytest.mark.parametrize("norm", CLIPPED_BY_HAND.values(), ids=CLIPPED_BY_HAND)
def test_a_multiplication_by_a_coefficient_from_the_norm_is_a_clip(norm: str) -> None:
    trace = run(
        f"{norm}\n    coefficient = min(1.0, 1.0 / (total + 1e-6))\n    " + each("p.grad.mul_(coefficient)")
    )
    event = next(e for _, e in trace.of(Clip))
    assert (event.style, event.by, event.owners) == ("norm", "hand", ("optimizer",))


@pytest.mark.parametrize("statement", ["p.grad = None", "p.grad.zero_()", "p.grad.data.zero_()"])
def test_cleared_by_hand(statement: str) -> None:
    trace = run(each(statement))
    record, event = next(trace.of(ZeroGrad))
    assert event.owners == ("optimizer",)
    assert event.to_none == (statement == "p.grad = None")
    assert record.after.buffer("optimizer").is_empty


@pytest.mark.parametrize(
    "reduction", ["torch.distributed.all_reduce(p.grad)", "dist.all_reduce(p.grad.data)"]
)
def test_reduced_by_hand(reduction: str) -> None:
    event = next(e for _, e in run(each(reduction), before="import torch.distributed as dist").of(Reduce))
    assert event.owners == ("optimizer",)


def test_a_mere_test_for_finiteness_is_no_read() -> None:
    trace = run("ok = all(torch.isfinite(p.grad).all() for p in model.parameters())")
    assert not micros(trace, Read)
    assert not micros(trace, Edit)


def test_a_gradient_made_elsewhere_is_not_the_backwards_any_more() -> None:
    trace = run(each("p.grad = other"))
    record, _ = next(trace.of(Step))
    assert any(trace.of(Escape))
    assert record.before.buffer("optimizer").opaque


def test_a_helper_that_is_given_gradients() -> None:
    source = """
        def average(parameters, k):
            for p in parameters:
                if p.grad is not None:
                    p.grad.div_(k)

        def train(model, loader, k):
            optimizer = torch.optim.SGD(model.parameters(), 0.1)
            for i, (x, y) in enumerate(loader):
                model(x).mean().backward()
                if (i + 1) % k == 0:
                    average(model.parameters(), k)
                    optimizer.step()
                    optimizer.zero_grad()
    """
    trace = only(derive(source))
    assert story(trace, 2) == "backward edit step zero"
    assert [e.factor for _, e in trace.of(Edit)] == [Unit(window=-1)] * 2
    assert trace.window is not None
    assert "division" in trace.window.declared


def test_parameter_groups() -> None:
    trace = run(
        "for group in optimizer.param_groups:\n        for p in group['params']:\n            p.grad.div_(k)"
    )
    event = next(e for _, e in trace.of(Edit))
    assert (event.owners, event.factor) == (("optimizer",), Unit(window=-1))


def test_scaled_is_the_unit_of_gradients_until_they_are_unscaled() -> None:
    trace = run("scaler.unscale_(optimizer)\n    clip_grad_norm_(model.parameters(), 1.0)")
    record, _ = next(trace.of(Clip))
    assert record.before.buffer("optimizer").units == {Unit(window=-1)}
    bare = run("clip_grad_norm_(model.parameters(), 1.0)")
    record, _ = next(bare.of(Clip))
    assert record.before.buffer("optimizer").units == {SCALED.times(Unit(window=-1))}


@pytest.mark.parametrize(
    ("test", "picked"),
    [
        ("p.grad is not None", False),
        ("p.requires_grad and p.grad is not None", False),
        ("getattr(p, 'expert', False)", True),
        ("'expert' in name", True),
        ("p.grad is not None and name.endswith('bias')", True),
        ("clip", False),
    ],
)
def test_edits_of_parameters_that_a_test_picks_out(test: str, picked: bool) -> None:
    explored = derive(f"""
    def train(model, loader, clip):
        optimizer = torch.optim.SGD(model.parameters(), 0.1)
        for x, y in loader:
            optimizer.zero_grad()
            model(x).mean().backward()
            for name, p in model.named_parameters():
                if {test}:
                    p.grad.mul_(0.5)
            for p in model.parameters():
                p.grad.mul_(0.5)
            optimizer.step()
    """)
    edits = [edit.partial for trace in explored.traces for _, edit in trace.of(Edit)]
    assert set(edits[:2]) == {picked, False}


def test_edits_after_a_test_that_goes_on_with_the_next_parameter() -> None:
    explored = derive("""
    def train(model, loader):
        optimizer = torch.optim.SGD(model.parameters(), 0.1)
        for x, y in loader:
            model(x).mean().backward()
            for name, p in model.named_parameters():
                if "expert" not in name:
                    continue
                p.grad.mul_(0.5)
            optimizer.step()
            optimizer.zero_grad()
    """)
    assert {edit.partial for trace in explored.traces for _, edit in trace.of(Edit)} == {True}
