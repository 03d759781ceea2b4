"""The model of Fabric against the installed package: who scales, who unscales, who refuses."""

from __future__ import annotations

from typing import Any

import pytest

pytestmark = pytest.mark.models
S = 8.0


def setup() -> tuple[Any, Any, Any, Any]:
    """Fabric with a scaler on the CPU, a model, its parameter and an optimizer."""
    pytest.importorskip("lightning", reason="the extra `models` is not installed")
    import torch
    from lightning.fabric import Fabric
    from lightning.fabric.plugins import MixedPrecision

    scaler = torch.amp.GradScaler("cpu", init_scale=S, growth_interval=10**6)
    fabric = Fabric(accelerator="cpu", devices=1, plugins=[MixedPrecision("16-mixed", "cpu", scaler=scaler)])
    model = torch.nn.Linear(1, 1, bias=False)
    torch.nn.init.zeros_(model.weight)
    optimizer = torch.optim.SGD(model.parameters(), lr=1.0)
    weight = model.weight
    model, optimizer = fabric.setup(model, optimizer)
    return fabric, model, optimizer, weight


def test_backward_scales_and_does_not_divide() -> None:
    import torch

    fabric, model, optimizer, weight = setup()
    fabric.backward(model(torch.full((1, 1), 5.0)).sum())
    assert float(weight.grad.detach()) == 5 * S
    optimizer.step()
    assert float(weight.grad.detach()) == 5
    assert float(weight.detach()) == -5


def test_clip_gradients_unscales_and_torch_does_not() -> None:
    import torch

    fabric, model, optimizer, weight = setup()
    fabric.backward(model(torch.full((1, 1), 5.0)).sum())
    assert float(fabric.clip_gradients(model, optimizer, max_norm=1.0).detach()) == 5
    optimizer.step()
    assert float(weight.detach()) == pytest.approx(-1)
    optimizer.zero_grad()
    fabric.backward(model(torch.full((1, 1), 5.0)).sum())
    assert float(torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0).detach()) == 5 * S
    optimizer.step()
    assert float(weight.detach()) == pytest.approx(-1 - 1 / S)


def test_a_plain_backward_is_refused() -> None:
    import torch

    _, model, _, _ = setup()
    with pytest.raises(RuntimeError, match=r"requires you to call `fabric\.backward"):
        model(torch.ones(1, 1)).sum().backward()
