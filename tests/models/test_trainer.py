"""The model of the Hugging Face Trainer against the installed package, and against a plain loop."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.models.predicted import BATCHES, predict, same

pytestmark = pytest.mark.models

K = 3

HEAD = """
from transformers import Trainer


class Probing(Trainer):
{members}
"""

MEAN = """
def compute_loss(self, model, inputs, return_outputs=False, num_items_in_batch=None):
    loss = model(inputs["x"])["loss"].mean()
    return (loss, None) if return_outputs else loss
"""

DIVIDED = """
def compute_loss(self, model, inputs, return_outputs=False, num_items_in_batch=None):
    return model(inputs["x"])["loss"].mean() / self.args.gradient_accumulation_steps
"""

SCALED = """
loss_is_scaled_for_ga = True

def compute_loss(self, model, inputs, return_outputs=False, num_items_in_batch=None):
    return model(inputs["x"])["loss"].mean()
"""

UNSCALED = """
loss_is_scaled_for_ga = False

def compute_loss(self, model, inputs, return_outputs=False, num_items_in_batch=None):
    return model(inputs["x"])["loss"].mean()
"""

OWN_STEP = """
def training_step(self, model, inputs, num_items_in_batch=None):
    loss = model(inputs["x"])["loss"].mean()
    self.accelerator.backward(loss)
    return loss.detach()
"""


def program(members: str) -> str:
    return HEAD.format(members="\n".join("    " + line for line in members.strip().splitlines()))


@pytest.fixture
def installed(tmp_path: Path) -> Any:
    """Trains a probe with the real Trainer; the gradients at each optimizer step, and the Trainer's own count."""
    torch = pytest.importorskip("torch")
    transformers = pytest.importorskip("transformers", reason="the extra `models` is not installed")

    class Probe(torch.nn.Module):  # type: ignore[misc,name-defined]
        def __init__(self) -> None:
            super().__init__()
            self.p = torch.nn.Parameter(torch.zeros(2))

        def forward(self, x: Any, labels: Any = None) -> Any:
            return {"loss": (self.p * x).sum(-1).mean()}

    class Taking(Probe):
        def forward(self, x: Any, labels: Any = None, **kwargs: Any) -> Any:
            return {"loss": (self.p * x).sum(-1).mean()}

    def run(source: str, takes_kwargs: bool = False) -> tuple[list[tuple[float, float]], int]:
        names: dict[str, Any] = {}
        exec(compile(source, "program.py", "exec"), names)
        model = Taking() if takes_kwargs else Probe()
        seen: list[tuple[float, float]] = []

        class Watch(transformers.TrainerCallback):  # type: ignore[misc,name-defined]
            def on_pre_optimizer_step(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
                first, second = model.p.grad.tolist()
                seen.append((first, second))

        class InOrder(names["Probing"]):  # type: ignore[misc,name-defined,valid-type]
            def _get_train_sampler(self, *_: Any) -> Any:
                return torch.utils.data.SequentialSampler(self.train_dataset)

        arguments = transformers.TrainingArguments(
            output_dir=str(tmp_path / "out"),
            per_device_train_batch_size=1,
            gradient_accumulation_steps=K,
            num_train_epochs=2,
            max_grad_norm=1e9,
            learning_rate=0.1,
            use_cpu=True,
            report_to=[],
            save_strategy="no",
            disable_tqdm=True,
            remove_unused_columns=False,
        )
        data = [{"x": torch.tensor(g), "labels": torch.ones(1)} for g in BATCHES]
        trainer = InOrder(model=model, args=arguments, train_dataset=data, callbacks=[Watch()])
        trainer.train()
        return seen, trainer.state.global_step

    return run


def by_hand(factor: float = 1 / K) -> list[tuple[float, float]]:
    """A plain loop over the same batches: windows of K, each micro-batch times a factor; tails are flushed."""
    steps = []
    for _ in range(2):
        for start in range(0, len(BATCHES), K):
            window = BATCHES[start : start + K]
            steps.append((sum(g[0] for g in window) * factor, sum(g[1] for g in window) * factor))
    return steps


def whole(steps: list[tuple[float, float]]) -> list[tuple[float, float]]:
    """Without the tails: the Trainer divides those by their own length, its model by the window's."""
    return [step for i, step in enumerate(steps) if i % 3 != 2]


@pytest.mark.parametrize(
    ("members", "takes_kwargs", "factor"),
    [
        (MEAN, False, 1 / K),
        (MEAN, True, 1.0),
        (DIVIDED, False, 1 / K**2),
        (DIVIDED, True, 1 / K),
        (SCALED, False, 1.0),
        (UNSCALED, True, 1 / K),
        (OWN_STEP, False, 1.0),
    ],
)
def test_same_gradients_as_the_trainer_and_as_a_plain_loop(
    members: str, takes_kwargs: bool, factor: float, installed: Any, tmp_path: Path
) -> None:
    source = program(members)
    options = {"takes **kwargs": takes_kwargs, "fp16": False}
    predicted = predict(source, tmp_path, window=K, **options)
    (optimizer,) = predicted.gradients
    gradients, steps = installed(source, takes_kwargs)
    same(whole(gradients), whole(by_hand(factor)))
    same(whole(gradients), whole(predicted.gradients[optimizer]))
    assert steps == len(predicted.gradients[optimizer])
    (count,) = predicted.schedule.values()
    assert count == steps


STEPPING = """
def training_step(self, model, inputs, num_items_in_batch=None):
    loss = super().training_step(model, inputs, num_items_in_batch)
    if not getattr(self, "hooked", False):
        self.hooked, self.real_steps = True, 0
        self.optimizer.optimizer.register_step_post_hook(self.count)
        self.add_callback(self.stepping())
    return loss

def count(self, *_):
    self.real_steps += 1
    print("steps", self.real_steps)

def stepping(self):
    from transformers import TrainerCallback

    class StepEarly(TrainerCallback):
        def on_pre_optimizer_step(self, args, state, control, optimizer=None, **kwargs):
            optimizer.optimizer.step()

    return StepEarly()
"""

TWICE = """
def compute_loss(self, model, inputs, return_outputs=False, num_items_in_batch=None):
    loss = model(inputs["x"])["loss"].mean()
    loss.backward(retain_graph=True)
    return (loss, None) if return_outputs else loss
"""


def test_a_step_in_a_callback_is_one_more(installed: Any, capsys: pytest.CaptureFixture[str]) -> None:
    _, steps = installed(program(STEPPING))
    assert f"steps {2 * steps}" in capsys.readouterr().out.splitlines()


def test_a_backward_in_compute_loss_counts_besides(installed: Any) -> None:
    seen, _ = installed(program(TWICE))
    same(whole(seen), whole(by_hand(1 + 1 / K)))
