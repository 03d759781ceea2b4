"""The model of Accelerate against the installed package: the same programs, run by both."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.models.predicted import BATCHES, SCALE, predict, same

pytestmark = pytest.mark.models

HEAD = """
import torch
from accelerate import Accelerator


def train(model, other, loader, k):
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    second = torch.optim.SGD(other.parameters(), lr=0.1)
    scheduler = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda _: 1.0)
    unprepared = torch.optim.lr_scheduler.LambdaLR(second, lambda _: 1.0)
    accelerator = Accelerator({arguments})
    model, other, optimizer, second, loader, scheduler = accelerator.prepare(
        model, other, optimizer, second, loader, scheduler
    )
    for epoch in range(2):
        for step, x in enumerate(loader):
{body}
"""

GUARDED = """
with accelerator.accumulate(model):
    accelerator.backward(model(x).mean())
    if accelerator.sync_gradients:
        accelerator.clip_grad_norm_(model.parameters(), 1e9)
    optimizer.step()
    scheduler.step()
    optimizer.zero_grad()
"""

DIVIDED_AGAIN = """
with accelerator.accumulate(model):
    accelerator.backward(model(x).mean() / k)
    optimizer.step()
    optimizer.zero_grad()
"""

ZEROED_FIRST = """
with accelerator.accumulate(model):
    optimizer.zero_grad()
    accelerator.backward(model(x).mean())
    optimizer.step()
    unprepared.step()
"""

MODEL_ZEROED = """
with accelerator.accumulate(model):
    model.zero_grad()
    accelerator.backward(model(x).mean())
    optimizer.step()
"""

BY_HAND = """
accelerator.backward(model(x).mean() / k)
if (step + 1) % k == 0:
    optimizer.step()
    scheduler.step()
    optimizer.zero_grad()
"""

TWO_OPTIMIZERS = """
accelerator.backward(model(x).mean() + other(x).mean())
accelerator.clip_grad_norm_(list(model.parameters()) + list(other.parameters()), 1e9)
optimizer.step()
second.step()
optimizer.zero_grad()
second.zero_grad()
"""

AROUND_THE_ENGINE = """
accelerator.backward(model(x).mean())
model(x).mean().backward()
optimizer.step()
optimizer.zero_grad()
"""

ENTERED_TWICE = """
with accelerator.accumulate(model), accelerator.accumulate(other):
    accelerator.backward(model(x).mean() + other(x).mean())
    optimizer.step()
    second.step()
    optimizer.zero_grad()
    second.zero_grad()
"""

ACCUMULATING = 'gradient_accumulation_steps=k, mixed_precision="{0}"'
PLAIN = 'mixed_precision="{0}"'


def program(body: str, arguments: str) -> str:
    indented = "\n".join(" " * 12 + line for line in body.strip().splitlines())
    return HEAD.format(arguments=arguments, body=indented)


@pytest.fixture
def installed(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Runs a program with the real package; float16 gets a loss scaler for the CPU, where Accelerate has none."""
    torch = pytest.importorskip("torch")
    accelerate = pytest.importorskip("accelerate", reason="the extra `models` is not installed")
    from accelerate.state import AcceleratorState, GradientState
    from torch.optim.optimizer import register_optimizer_step_pre_hook

    class OnCpu(accelerate.Accelerator):  # type: ignore[misc,name-defined]
        def __init__(self, *args: Any, **keywords: Any) -> None:
            AcceleratorState._reset_state(True)
            GradientState._reset_state()
            wanted = keywords.pop("mixed_precision", "no")
            super().__init__(*args, cpu=True, **keywords)
            if wanted == "fp16":
                self.scaler = torch.amp.GradScaler("cpu", init_scale=SCALE)
                self.native_amp = True
                self.state._mixed_precision = "fp16"

    monkeypatch.setattr(accelerate, "Accelerator", OnCpu)

    class Probe(torch.nn.Module):  # type: ignore[misc,name-defined]
        def __init__(self) -> None:
            super().__init__()
            self.p = torch.nn.Parameter(torch.zeros(2))

        def forward(self, x: Any) -> Any:
            return (self.p * x).sum(-1)

    def run(source: str, k: int) -> tuple[dict[str, list[tuple[float, float]]], dict[str, int]]:
        names: dict[str, Any] = {}
        exec(compile(source, "program.py", "exec"), names)
        models = {"optimizer": Probe(), "second": Probe()}
        seen: dict[str, list[tuple[float, float]]] = {}
        owners = {id(m.p): name for name, m in models.items()}
        counted: dict[str, int] = {}

        def hook(optimizer: Any, *_: Any) -> None:
            (parameter,) = optimizer.param_groups[0]["params"]
            if parameter.grad is not None:
                first, second = parameter.grad.tolist()
                seen.setdefault(owners[id(parameter)], []).append((first, second))

        class Counting(torch.optim.lr_scheduler.LambdaLR):  # type: ignore[misc,name-defined]
            def step(self, *args: Any) -> None:
                if getattr(self, "_ready", False):
                    (parameter,) = self.optimizer.param_groups[0]["params"]
                    name = {"optimizer": "scheduler", "second": "unprepared"}[owners[id(parameter)]]
                    counted[name] = counted.get(name, 0) + 1
                super().step(*args)

            def __init__(self, *args: Any) -> None:
                super().__init__(*args)
                self._ready = True

        monkeypatch.setattr(torch.optim.lr_scheduler, "LambdaLR", Counting)
        handle = register_optimizer_step_pre_hook(hook)
        loader = torch.utils.data.DataLoader(torch.tensor(BATCHES), batch_size=1)
        try:
            names["train"](models["optimizer"], models["second"], loader, k)
        finally:
            handle.remove()
        return seen, counted

    return run


@pytest.mark.parametrize("precision", ["no", "fp16"])
@pytest.mark.parametrize(
    ("body", "arguments"),
    [
        (GUARDED, ACCUMULATING),
        (DIVIDED_AGAIN, ACCUMULATING),
        (ZEROED_FIRST, ACCUMULATING),
        (MODEL_ZEROED, ACCUMULATING),
        (BY_HAND, PLAIN),
    ],
)
def test_same_gradients_and_steps(
    body: str, arguments: str, precision: str, installed: Any, tmp_path: Path
) -> None:
    source = program(body, arguments.format(precision))
    predicted = predict(source, tmp_path)
    gradients, schedule = installed(source, 3)
    assert gradients.keys() == predicted.gradients.keys()
    for optimizer, found in gradients.items():
        same(found, predicted.gradients[optimizer])
    assert schedule == predicted.schedule


@pytest.mark.parametrize("precision", ["no", "fp16"])
@pytest.mark.parametrize("body", [TWO_OPTIMIZERS, AROUND_THE_ENGINE])
def test_same_gradients_without_accumulation(
    body: str, precision: str, installed: Any, tmp_path: Path
) -> None:
    source = program(body, PLAIN.format(precision))
    predicted = predict(source, tmp_path, window=1)
    gradients, _ = installed(source, 1)
    assert gradients.keys() == predicted.gradients.keys()
    for optimizer, found in gradients.items():
        same(
            found[:3], predicted.gradients[optimizer][:3]
        )  # an epoch of three batches, where none accumulate


def test_two_entries_make_windows_of_half_the_length(installed: Any, tmp_path: Path) -> None:
    source = program(ENTERED_TWICE, 'gradient_accumulation_steps=2, mixed_precision="no"')
    predicted = predict(source, tmp_path, window=2)
    gradients, _ = installed(source, 2)
    same(gradients["optimizer"][:6], predicted.gradients["optimizer"][:6])
    assert gradients["optimizer"][0] == pytest.approx((0.5, 0.25))


def test_an_unguarded_clip_raises_in_float16(installed: Any, tmp_path: Path) -> None:
    unguarded = GUARDED.replace("    if accelerator.sync_gradients:\n    ", "")
    source = program(unguarded, ACCUMULATING.format("fp16"))
    message = r"unscale_\(\) has already been called on this optimizer since the last update"
    assert any("unscale_() has already been called" in text for text in predict(source, tmp_path).refused)
    with pytest.raises(RuntimeError, match=message):
        installed(source, 3)
