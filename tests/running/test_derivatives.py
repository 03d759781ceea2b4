"""What autograd.grad makes of a scaled loss, until it is divided by the scale or used without."""

from __future__ import annotations

import pytest

from ampcheck.events import Backward, Differentiate
from tests.running.derived import derive, training, units, usual

GRADS = "grads = torch.autograd.grad(scaler.scale(loss), model.parameters(), create_graph=True)\n"


def uses(body: str) -> list[str]:
    source = training(
        f"loss = model(x).mean()\n{body}\nscaler.step(optimizer)\nscaler.update()", arguments="lr, weight"
    )
    return list({e.site: e.use for _, e in usual(derive(source)).of(Differentiate)}.values())


@pytest.mark.parametrize(
    "penalty",
    [
        "(sum(g.pow(2).sum() for g in grads).sqrt() - 1) ** 2",
        "(torch.sqrt(sum(g.square().sum() for g in grads) + 1e-12) - 1).pow(2)",
        "weight * torch.cat([g.flatten() for g in grads]).norm()",
        "grads[0].norm()",
        "torch.stack([g.norm() for g in grads]).mean() * weight",
        "unseen(grads)",
    ],
)
def test_a_penalty(penalty: str) -> None:
    assert uses(f"{GRADS}scaler.scale(loss + {penalty}).backward()") == ["penalty"]


@pytest.mark.parametrize(
    "divided",
    [
        "grads = [g / scaler.get_scale() for g in grads]\nnorm = grads[0].norm()",
        "inverse = 1.0 / scaler.get_scale()\nnorm = sum((g * inverse).pow(2).sum() for g in grads).sqrt()",
        "norm = grads[0].norm() / scaler.get_scale()",
        "grads = unscale(grads, scaler)\nnorm = grads[0].norm()",
    ],
)
def test_divided_in_time(divided: str) -> None:
    assert uses(f"{GRADS}{divided}\nscaler.scale(loss + (norm - 1) ** 2).backward()") == [""]


def test_a_step_of_parameters() -> None:
    body = f"{GRADS}fast = [w - lr * g for w, g in zip(model.parameters(), grads)]\nscaler.scale(loss).backward()"
    assert uses(body) == ["step"]


@pytest.mark.parametrize(
    "kept",
    [
        "scaler.scale(loss).backward()\nfor p, g in zip(model.parameters(), grads):\n    p.grad = g",
        "scaler.scale(loss).backward()\nok = all(torch.isfinite(g).all() for g in grads)",
        "grads[0].norm().backward()",
    ],
)
def test_the_scale_may_stay_where_the_scaler_takes_it_out(kept: str) -> None:
    assert uses(GRADS + kept) == [""]


def test_weights_may_hold_the_scale() -> None:
    taken = (
        "torch.autograd.grad(loss, x, grad_outputs=scaler.scale(torch.ones_like(loss)), create_graph=True)"
    )
    assert uses(f"(g,) = {taken}\nscaler.scale(loss + (g.norm() - 1) ** 2).backward()") == ["penalty"]


def test_a_penalty_counts_once_in_the_unit_of_the_loss() -> None:
    body = f"loss = model(x).mean()\n{GRADS}scaler.scale(loss + (grads[0].norm() - 1) ** 2).backward()"
    assert units(usual(derive(training(body)))) == ["S"]


def test_of_an_unscaled_loss_nothing_is_said() -> None:
    body = "(g,) = torch.autograd.grad(loss, x, create_graph=True)\nscaler.scale(loss + g.norm()).backward()"
    assert uses(body) == []
    source = training(f"loss = model(x).mean()\n{body}")
    assert len(list(usual(derive(source)).of(Backward))) == 3
