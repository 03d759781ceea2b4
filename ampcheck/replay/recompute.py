"""A checkpoint written by hand, with and without the forward's autocast.  Needs torch."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

__all__ = ["recomputed"]


def recomputed(device: str, dtype: torch.dtype, restores: bool) -> str:
    """The dtype in which a backward recomputes a matrix product whose forward ran under autocast to `dtype`."""
    seen: list[torch.dtype] = []

    class Checkpoint(torch.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: Tensor, weight: Tensor) -> Tensor:
            ctx.save_for_backward(x, weight)
            return x @ weight

        @staticmethod
        def backward(ctx: Any, *grads: Tensor) -> Any:
            inputs = [t.detach().requires_grad_() for t in ctx.saved_tensors]
            with torch.enable_grad(), torch.autocast(device, dtype=dtype, enabled=restores):
                output = inputs[0] @ inputs[1]
            seen.append(output.dtype)
            return torch.autograd.grad(output, inputs, grads[0].to(output.dtype))

    x, weight = (torch.ones(2, 2, device=device, requires_grad=True) for _ in range(2))
    with torch.autocast(device, dtype=dtype):
        loss = Checkpoint.apply(x, weight).sum()  # type: ignore[no-untyped-call]
    loss.backward()
    return str(seen[0]).removeprefix("torch.")
