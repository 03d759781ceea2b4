"""The model of timm against the installed package: `NativeScaler` unscales before it clips, and only then steps."""

from __future__ import annotations

import pytest

pytestmark = pytest.mark.models


@pytest.mark.parametrize(("threshold", "expected"), [(None, -5.0), (1.0, -1.0)])
def test_native_scaler(threshold: float | None, expected: float) -> None:
    utils = pytest.importorskip("timm.utils", reason="the extra `models` is not installed")
    import torch

    weight = torch.nn.Parameter(torch.zeros(1))
    optimizer = torch.optim.SGD([weight], lr=1.0)
    scaler = utils.NativeScaler(device="cpu")
    scaler._scaler = torch.amp.GradScaler("cpu", init_scale=8.0)
    scaler((weight * 2).sum(), optimizer, clip_grad=threshold, parameters=[weight], need_update=False)
    assert weight.grad is not None
    assert float(weight.grad) == 16.0
    assert float(weight.detach()) == 0.0
    scaler((weight * 3).sum(), optimizer, clip_grad=threshold, parameters=[weight], need_update=True)
    assert float(weight.detach()) == pytest.approx(expected)
    assert float(weight.grad) != 0.0, "zeroing is the caller's business"
