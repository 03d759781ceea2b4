"""The model of Lightning against the installed package: units at each hook, optimizer steps, order.

The micro-batches' gradients are 1, 2, 4, ... (`loss = <p, g_k>`), the loss scale is 8 and the window 3.
"""

from __future__ import annotations

import textwrap
import warnings
from pathlib import Path
from typing import Any

import pytest

from ampcheck.check import traces_of
from ampcheck.events import Backward, Clip, Step, Unscale, ZeroGrad
from ampcheck.trace import Trace

pytestmark = pytest.mark.models
S, K, BATCHES = 8.0, 3, 7

AUTOMATIC = """
    import lightning as L
    import torch

    class Net(L.LightningModule):
        def __init__(self):
            super().__init__()
            self.p = torch.nn.Parameter(torch.zeros(1))

        def training_step(self, batch, batch_idx):
            return (self.p * batch).mean()

        def on_after_backward(self):
            seen("after backward", self.p.grad)
            torch.nn.utils.clip_grad_norm_(self.parameters(), 1e9)

        def on_before_optimizer_step(self, optimizer):
            seen("before step", self.p.grad)
            torch.nn.utils.clip_grad_norm_(self.parameters(), 1e9)

        def on_before_zero_grad(self, optimizer):
            seen("before zeroing", None)

        def configure_optimizers(self):
            return torch.optim.SGD(self.parameters(), lr=1.0)

    trainer = L.Trainer(precision="16-mixed", accumulate_grad_batches=3, **quiet)
    trainer.fit(Net(), loader)
"""

MANUAL = """
    import lightning as L
    import torch

    class Net(L.LightningModule):
        def __init__(self):
            super().__init__()
            self.automatic_optimization = False
            self.p = torch.nn.Parameter(torch.zeros(1))

        def training_step(self, batch, batch_idx):
            optimizer = self.optimizers()
            optimizer.zero_grad()
            self.manual_backward((self.p * batch).mean())
            seen("before clip", self.p.grad)
            self.clip_gradients(optimizer, gradient_clip_val=1.0)
            optimizer.step()
            seen("after step", self.p.grad)

        def configure_optimizers(self):
            return torch.optim.SGD(self.parameters(), lr=1.0)

    trainer = L.Trainer(precision="16-mixed", **quiet)
    trainer.fit(Net(), loader)
"""


def predicted(tmp_path: Path, source: str) -> Trace:
    """The model's run of the module's own statements."""
    path = tmp_path / "program.py"
    path.write_text(textwrap.dedent(source), encoding="utf-8")
    return next(t for t in traces_of(str(path)) if any(True for _ in t.of(Step)))


def measured(source: str) -> tuple[list[tuple[str, float | None]], int]:
    """What the installed Lightning does: the gradients that the hooks see, and how often SGD really steps."""
    pytest.importorskip("lightning", reason="the extra `models` is not installed")
    import torch
    from lightning.pytorch.plugins import MixedPrecision
    from torch.optim.optimizer import register_optimizer_step_pre_hook

    seen: list[tuple[str, float | None]] = []
    steps = 0

    def count(*_: Any) -> None:
        nonlocal steps
        steps += 1

    def note(what: str, gradient: Any) -> None:
        seen.append((what, None if gradient is None else float(gradient.detach())))

    scaler = torch.amp.GradScaler("cpu", init_scale=S, growth_interval=10**6)
    quiet: dict[str, Any] = {
        "accelerator": "cpu",
        "devices": 1,
        "max_epochs": 1,
        "logger": False,
        "enable_checkpointing": False,
        "enable_progress_bar": False,
        "enable_model_summary": False,
    }
    # On a CPU Lightning turns 16-mixed into bfloat16: its own plugin is given a scaler instead.
    quiet["plugins"] = [MixedPrecision("16-mixed", "cpu", scaler=scaler)]
    data: Any = torch.utils.data.DataLoader([torch.tensor([2.0**k]) for k in range(BATCHES)], batch_size=1)  # type: ignore[arg-type]
    hook = register_optimizer_step_pre_hook(count)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            code = textwrap.dedent(source).replace('precision="16-mixed", ', "")
            exec(compile(code, "program", "exec"), {"seen": note, "quiet": quiet, "loader": data})
    finally:
        hook.remove()
    return seen, steps


def test_automatic_optimisation(tmp_path: Path) -> None:
    seen, steps = measured(AUTOMATIC)
    trace = predicted(tmp_path, AUTOMATIC)
    assert trace.window is not None
    assert trace.window.length == K
    # The window of three, in the library's order; the epoch's last micro-batch steps on its own.
    first = [what for what, _ in seen[:5]]
    assert first == ["before zeroing", *["after backward"] * 3, "before step"]
    assert [g for _, g in seen[1:5]] == pytest.approx([S / K, S * 3 / K, S * 7 / K, 7 / K])
    epoch = [r for r in trace.records if r.epoch == 0]
    kinds = [type(r.event) for r in epoch if isinstance(r.event, (Backward, Clip, Step, Unscale, ZeroGrad))]
    assert kinds[:10] == [ZeroGrad, *[Backward, Clip] * 3, Unscale, Clip, Step]
    units = [{str(u) for o in e.owners for u in r.before.buffer(o).units} for r, e in trace.of(Clip)][:4]
    assert units == [{"S / K"}, {"S / K"}, {"S / K"}, {"1 / K"}]
    assert steps == sum(isinstance(r.event, Step) for r in epoch) == 3


def test_manual_optimisation_clips_scaled_gradients(tmp_path: Path) -> None:
    seen, steps = measured(MANUAL)
    trace = predicted(tmp_path, MANUAL)
    assert [what for what, _ in seen[:2]] == ["before clip", "after step"]
    assert [gradient for _, gradient in seen[:2]] == pytest.approx([S, 1 / S])
    record, clip = next(trace.of(Clip))
    assert {str(u) for o in clip.owners for u in record.before.buffer(o).units} == {"S"}
    epoch = [r for r in trace.records if r.epoch == 0]
    assert steps == BATCHES
    assert sum(isinstance(r.event, Step) for r in epoch) == sum(isinstance(r.event, Backward) for r in epoch)


def test_a_second_step_and_a_second_backward_in_automatic_optimisation() -> None:
    source = """
        import lightning as L
        import torch

        class Net(L.LightningModule):
            def __init__(self):
                super().__init__()
                self.p = torch.nn.Parameter(torch.zeros(1))

            def training_step(self, batch, batch_idx):
                optimizer = self.optimizers(use_pl_optimizer=False)
                loss = (self.p * batch).pow(2).mean()
                optimizer.step()
                {backward}
                return loss

            def configure_optimizers(self):
                return torch.optim.SGD(self.parameters(), lr=1.0)

        L.Trainer(**quiet).fit(Net(), loader)
    """
    _, steps = measured(source.format(backward=""))
    assert steps == 2 * BATCHES
    with pytest.raises(RuntimeError, match="backward through the graph a second time"):
        measured(source.format(backward="loss.backward()"))
