"""The model of DeepSpeed against the installed package, in full precision on one process (fp16 is refused on a CPU)."""

from __future__ import annotations

import os
import sys
from typing import Any

import pytest

pytestmark = pytest.mark.models
K = 3


@pytest.fixture(scope="module")
def deepspeed() -> Any:
    """The package, with its C++ extension for shared memory left out: it would be compiled for minutes."""
    os.environ.setdefault("DS_ACCELERATOR", "cpu")
    module = pytest.importorskip("deepspeed", reason="the extra `models` does not bring DeepSpeed")
    sys.modules["deepspeed.comm.torch"].build_shm_op = lambda: None  # type: ignore[attr-defined]
    os.environ.update(RANK="0", WORLD_SIZE="1", LOCAL_RANK="0", MASTER_ADDR="127.0.0.1", MASTER_PORT="29517")
    return module


def engine_for(deepspeed: Any, stage: int, steps: int = K, **more: Any) -> tuple[Any, Any]:
    """An engine over one weight, SGD of rate 1, and the weight."""
    import torch

    model = torch.nn.Linear(1, 1, bias=False)
    torch.nn.init.zeros_(model.weight)
    optimizer = torch.optim.SGD(model.parameters(), lr=1.0)
    config = {
        "train_micro_batch_size_per_gpu": 1,
        "gradient_accumulation_steps": steps,
        "zero_optimization": {"stage": stage},
        "zero_allow_untested_optimizer": True,
        "gradient_clipping": 0.0,
        **more,
    }
    engine, *_ = deepspeed.initialize(model=model, optimizer=optimizer, config=config)
    return engine, engine.module.weight


def backward(engine: Any, gradient: float) -> None:
    """One micro-batch whose gradient is chosen."""
    import torch

    engine.backward(engine(torch.full((1, 1), gradient)).sum())


@pytest.mark.parametrize("stage", [0, 1])
def test_backward_divides_and_step_counts(deepspeed: Any, stage: int) -> None:
    engine, weight = engine_for(deepspeed, stage)
    for gradient in (1.0, 2.0, 4.0):
        assert float(weight.detach()) == 0.0
        backward(engine, gradient)
        engine.step()
    assert float(weight.detach()) == pytest.approx(-7 / K)


@pytest.mark.parametrize("stage", [0, 1])
def test_a_gated_step_never_updates(deepspeed: Any, stage: int) -> None:
    engine, weight = engine_for(deepspeed, stage)
    for index in range(2 * K):
        backward(engine, 1.0)
        if (index + 1) % K == 0:
            engine.step()
    assert float(weight.detach()) == 0.0


def test_torch_clips_nothing_under_zero(deepspeed: Any) -> None:
    import torch

    engine, weight = engine_for(deepspeed, 1, steps=1)
    backward(engine, 5.0)
    assert weight.grad is None
    assert float(torch.nn.utils.clip_grad_norm_(engine.module.parameters(), 1.0)) == 0.0
    engine.step()
    assert float(weight.detach()) == pytest.approx(-5)


def test_no_sync_is_refused_where_gradients_are_partitioned(deepspeed: Any) -> None:
    engine, _ = engine_for(deepspeed, 2)
    with pytest.raises(AssertionError, match="incompatible with gradient partitioning"), engine.no_sync():
        pass
    engine, _ = engine_for(deepspeed, 1)
    with engine.no_sync():
        pass


def test_a_plain_backward_is_refused_at_stage_zero(deepspeed: Any) -> None:
    import torch

    engine, _ = engine_for(deepspeed, 0)
    with pytest.raises(RuntimeError, match=r"engine\.backward"):
        engine(torch.ones(1, 1)).sum().backward()
