"""Gradients followed through names, lists, helpers and calls."""

from __future__ import annotations

import pytest

from ampcheck.events import (
    PLAIN,
    Clip,
    Edit,
    Read,
    Reduce,
    Step,
    Unit,
)
from ampcheck.trace import Trace
from tests.running.derived import dedented, derive, loop, micros, only, story, usual

STEP = "optimizer.step()\noptimizer.zero_grad()"


def gradient(expression: str, before: str = "pass") -> Trace:
    body = f"model(x).mean().backward()\nfor p in model.parameters():\n    {expression}\n{STEP}"
    return usual(derive(loop(body, before=before, arguments="other, mask")))


@pytest.mark.parametrize(
    ("expression", "effect"),
    [
        ("p.grad.copy_(p.grad.detach().clone() * 0.5)", "multiply"),
        ("p.grad = p.grad.clone()", ""),
        ("p.grad = p.grad.to('cpu').float().view(-1)", ""),
        ("p.grad.copy_(other)", ""),
        ("p.grad = torch.zeros_like(p.grad)", ""),
        ("p.grad = p.grad * mask", "multiply"),
        ("p.grad = 2 * p.grad", "multiply"),
        ("p.grad.pow_(2)", "nonlinear"),
        ("p.grad.data.add_(p.data)", "shift"),
    ],
)
def test_edits(expression: str, effect: str) -> None:
    effects = {event.effect for _, event in gradient(expression).of(Edit)}
    assert effects == ({effect} if effect else set())


def test_gradients_are_seen_through_a_list() -> None:
    body = (
        "model(x).mean().backward()\ngrads = [p.grad for p in model.parameters()]\n"
        f"for g in grads:\n    g.mul_(0.5)\n{STEP}"
    )
    trace = only(derive(loop(body)))
    assert {(e.effect, e.factor) for _, e in trace.of(Edit)} == {("multiply", PLAIN)}


def test_a_loop_over_parameter_groups_clears() -> None:
    body = (
        "model(x).mean().backward()\noptimizer.step()\nfor group in optimizer.param_groups:\n"
        "    for p in group['params']:\n        p.grad = None"
    )
    trace = only(derive(loop(body)))
    assert story(trace, 0) == "backward step zero"


def test_a_reduction_in_a_helper() -> None:
    source = """
        import torch.distributed as dist

        def average_gradients(model, world_size):
            for parameter in model.parameters():
                dist.all_reduce(parameter.grad.data, op=dist.ReduceOp.SUM)
                parameter.grad.data /= world_size

    """
    body = f"model(x).mean().backward()\naverage_gradients(model, world_size)\n{STEP}"
    trace = only(derive(dedented(source) + loop(body, arguments="world_size")))
    assert story(trace, 0) == "backward reduce edit step zero"
    assert {e.factor for _, e in trace.of(Edit)} == {Unit(world=-1)}
    assert {e.owners for _, e in trace.of(Reduce)} == {("optimizer",)}


@pytest.mark.parametrize("bound", ["float('inf')", "0", "-1.0", "1e9"])
def test_a_clip_that_bounds_nothing_is_at_most_a_read(bound: str) -> None:
    body = f"model(x).mean().backward()\nnorm = clip_grad_norm_(model.parameters(), {bound})\n{STEP}"
    trace = only(derive(loop(body)))
    assert len(micros(trace, Read)) + len(micros(trace, Clip)) == 3


def test_an_explicit_error_on_overflow() -> None:
    body = (
        "model(x).mean().backward()\n"
        f"clip_grad_norm_(model.parameters(), 1.0, error_if_nonfinite=True)\n{STEP}"
    )
    assert all(e.error_if_nonfinite for _, e in only(derive(loop(body))).of(Clip))


def test_each_child_with_the_whole_threshold() -> None:
    body = (
        "model(x).mean().backward()\nfor layer in model.children():\n"
        f"    clip_grad_norm_(layer.parameters(), 1.0)\n{STEP}"
    )
    assert {e.per_parameter for _, e in only(derive(loop(body))).of(Clip)} == {True}


def test_a_name_for_a_gradient_is_the_gradient() -> None:
    body = f"model(x).mean().backward()\nfor p in model.parameters():\n    g = p.grad\n    g += other\n{STEP}"
    trace = only(derive(loop(body, arguments="other")))
    assert {event.effect for _, event in trace.of(Edit)} == {"shift"}


@pytest.mark.parametrize("norm", ["p.grad.norm()", "torch.norm(p.grad)", "p.grad.data.norm(2).item()"])
def test_a_division_by_the_own_norm_is_no_multiplication(norm: str) -> None:
    """Normalised gradients lose their unit: each is a clip with a coefficient of its own, whatever its size."""
    trace = gradient(f"p.grad.div_({norm})")
    assert [e for _, e in trace.of(Edit) if e.effect == "nonlinear"] or any(trace.of(Clip))


@pytest.mark.parametrize(
    "read", ["torch.isnan(norm)", "norm.isnan()", "math.isinf(norm)", "not norm.isfinite()"]
)
def test_a_test_on_the_norm_asks_for_finiteness(read: str) -> None:
    body = (
        "model(x).mean().backward()\nnorm = clip_grad_norm_(model.parameters(), 1.0)\n"
        f"if {read}:\n    optimizer.zero_grad()\n    continue\n{STEP}"
    )
    explored = derive(loop(body))
    assert micros(usual(explored), Step) == [0, 1, 2]
    assert {g.finite for t in explored.traces for g in t.choices} == {True}
