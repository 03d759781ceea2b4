"""Norms of gradients: where they are taken, and what becomes of them."""

from __future__ import annotations

import pytest

from ampcheck.events import Clip, Edit, Read
from ampcheck.trace import Trace
from tests.running.derived import derive, training, usual


def run(body: str, arguments: str = "k, limit, log, writer, stats") -> Trace:
    scaled = "scaler.scale(model(x).mean()).backward()\n"
    end = "\nscaler.step(optimizer)\nscaler.update()\noptimizer.zero_grad()"
    return usual(derive(training(scaled + body + end, arguments=arguments)))


def uses(body: str) -> list[str]:
    """The uses of the norms that are taken, at each place once."""
    return list({e.site: e.use for _, e in run(body).of(Read)}.values())


NORM = "norm = torch.stack([p.grad.norm() for p in model.parameters()]).norm()\n"


@pytest.mark.parametrize(
    ("then", "use"),
    [
        ("writer.add_scalar('norm', norm, i)", "shown"),
        ("print(f'{norm.item():.3f}')", "shown"),
        ("print('norm', float(norm))", "shown"),
        ("log.update({'norm': norm.item()})", "shown"),
        ("stats['norm'] = norm.item()", "kept"),
        ("unseen(norm)", "kept"),
        ("if norm > limit:\n    optimizer.zero_grad()\n    continue", "tested"),
        ("if torch.isfinite(norm):\n    stats.count()", ""),
        ("if math.isnan(norm.item()):\n    continue", ""),
        ("if norm == float('inf'):\n    continue", ""),
        ("if norm != norm:\n    continue", ""),
        ("pass", ""),
        ("norm = norm / scaler.get_scale()\nprint(norm)", ""),
        ("norm = norm * (1.0 / scaler.get_scale())\nprint(norm)", ""),
        ("print(norm / model.head.weight.grad.norm())", ""),
        ("for p in model.parameters():\n    p.grad.mul_(limit / norm)", "clip"),
    ],
)
def test_uses(then: str, use: str) -> None:
    assert uses(NORM + then)[:1] == [use]


@pytest.mark.parametrize(
    "taken",
    [
        "sum(p.grad.pow(2).sum() for p in model.parameters()).sqrt()",
        "max(p.grad.abs().max() for p in model.parameters())",
        "torch.norm(torch.cat([p.grad.flatten() for p in model.parameters()]))",
        "torch.linalg.vector_norm(model.head.weight.grad)",
        "torch.nn.utils.get_total_norm([p.grad for p in model.parameters()])",
        "torch.nn.utils.clip_grad_norm_(model.parameters(), math.inf)",
        "clip_grad_norm_(model.parameters(), float('inf'))",
        "model.head.weight.grad.mean()",
    ],
)
def test_ways_to_take_one(taken: str) -> None:
    assert uses(f"print({taken})") == ["shown"]


def test_the_norm_of_divided_gradients_is_a_true_one() -> None:
    assert not uses(
        "scale = scaler.get_scale()\nprint(max((p.grad / scale).norm() for p in model.parameters()))"
    )


def test_a_limit_that_is_seldom_exceeded_is_a_clip_all_the_same() -> None:
    body = NORM + "if limit < norm:\n    for p in model.parameters():\n        p.grad.mul_(limit / norm)"
    explored = derive(training(f"model(x).mean().backward()\n{body}\noptimizer.step()", arguments="limit"))
    assert {e.use for t in explored.traces for _, e in t.of(Read)} == {"clip"}


@pytest.mark.parametrize(
    "coefficient", ["limit * scaler.get_scale() / norm", "limit / (norm / scaler.get_scale())"]
)
def test_a_coefficient_in_the_unit_of_scaled_gradients_is_no_clip_of_them(coefficient: str) -> None:
    trace = run(f"{NORM}for p in model.parameters():\n    p.grad.mul_({coefficient})")
    assert not any(trace.of(Clip))
    assert {e.effect for _, e in trace.of(Edit)} == {"multiply"}


def test_what_a_root_returns_is_kept() -> None:
    body = f"scaler.scale(model(x).mean()).backward()\n{NORM}scaler.step(optimizer)"
    source = training(body, after="return norm")
    assert {e.use for _, e in usual(derive(source)).of(Read)} >= {"kept"}


def test_a_hook_takes_one() -> None:
    source = training(
        "scaler.scale(model(x).mean()).backward()\nscaler.step(optimizer)\nscaler.update()",
        before="for p in model.parameters():\n    p.register_hook(lambda g: print(g.norm()))",
    )
    assert {e.use for _, e in usual(derive(source)).of(Read)} == {"shown"}
