"""Who plays which part: by definition first, by name and use last."""

from __future__ import annotations

import pytest

from ampcheck.events import (
    AverageUpdate,
    Backward,
    ScheduleStep,
    Step,
    Unscale,
)
from ampcheck.trace import Role, Trace
from tests.running.derived import dedented, derive, loop, micros, only, story, units, usual


def steps(trace: Trace) -> list[tuple[str | None, str]]:
    """Which scaler steps which optimizer, each pair once."""
    return list(dict.fromkeys((event.scaler, event.optimizer) for _, event in trace.of(Step)))


def role(trace: Trace, identifier: str) -> Role:
    return trace.roles[identifier]


STEPPED = (
    "scaler.scale(model(x).mean()).backward()\nscaler.step(optimizer)\nscaler.update()\noptimizer.zero_grad()"
)


@pytest.mark.parametrize(
    "constructor",
    [
        'torch.amp.GradScaler("cuda")',
        "torch.cuda.amp.GradScaler()",
        'torch.GradScaler("cuda")',
        'GradScaler("xpu")',
        "torch.amp.grad_scaler.GradScaler()",
        "ShardedGradScaler()",
        "torch_npu.npu.amp.GradScaler()",
    ],
)
def test_scalers_by_their_class(constructor: str) -> None:
    imports = "import torch_npu\nfrom torch.distributed.fsdp.sharded_grad_scaler import ShardedGradScaler\n"
    trace = only(derive(imports + loop(STEPPED, before=f"scaler = {constructor}")))
    assert steps(trace) == [("scaler", "optimizer")]
    assert units(trace) == ["S"]
    assert all(r.known for r in trace.roles_of("scaler"))


def test_a_subclass_of_a_scaler_is_one() -> None:
    source = "class MyScaler(GradScaler):\n    pass\n\n" + loop(STEPPED, before="scaler = MyScaler()")
    trace = only(derive(source))
    assert steps(trace) == [("scaler", "optimizer")]
    assert role(trace, "scaler").known


def test_a_class_of_the_project_that_is_only_called_so_is_none() -> None:
    source = """
        class GradScaler:
            def scale(self, loss):
                return loss
            def step(self, optimizer):
                optimizer.step()
            def update(self):
                pass

    """
    trace = only(derive(dedented(source) + loop(STEPPED, before="scaler = GradScaler()")))
    assert story(trace, 0) == "backward step zero"
    assert not trace.roles_of("scaler")


@pytest.mark.parametrize("origin", ["sklearn.preprocessing", "paddle.amp", "mylib"])
def test_a_scaler_of_another_library_is_not_torchs(origin: str) -> None:
    """Paddle's namesake is Paddle's; one that no import explains is not known to be torch's."""
    source = f"from {origin} import GradScaler\n" + loop(STEPPED, before="scaler = GradScaler()")
    for trace in derive(source).traces:
        assert not [r for r in trace.roles_of("scaler") if r.known and r.detail == "GradScaler"]


@pytest.mark.parametrize(
    "constructor",
    [
        "torch.optim.SGD(model.parameters(), 0.1)",
        "torch.optim.AdamW(params=model.parameters(), lr=1e-3)",
        "torch.optim.AdamW([{'params': model.parameters(), 'lr': 0.1}])",
        "torch.optim.Adam(list(model.parameters()))",
        "torch.optim.Adam(filter(lambda p: p.requires_grad, model.parameters()))",
        "torch.optim.Adam([p for p in model.parameters() if p.requires_grad])",
        "torch.optim.Adam(p for p in model.parameters() if p.requires_grad)",
        "torch.optim.Adam((p for n, p in model.named_parameters()))",
        "bnb.optim.AdamW8bit(model.parameters())",
    ],
)
def test_optimizers_by_their_class_and_parameters(constructor: str) -> None:
    source = f"""
        import bitsandbytes as bnb
        def train(model, loader):
            opt = {constructor}
            for x, y in loader:
                model(x).mean().backward()
                opt.step()
                opt.zero_grad()
    """
    trace = only(derive(source))
    assert role(trace, "opt").known
    assert role(trace, "opt").models == ("model",)
    assert story(trace, 0) == "backward step zero"


def test_an_optimizer_of_a_submodule_reaches_only_losses_through_it() -> None:
    source = """
        def train(model, other, loader):
            opt_a = torch.optim.SGD(model.parameters(), 0.1)
            opt_b = torch.optim.SGD(other.parameters(), 0.1)
            for x, y in loader:
                model(x).mean().backward()
                other(x).mean().backward()
                (model(x) + other(x)).mean().backward()
                opt_a.step()
                opt_b.step()
    """
    trace = only(derive(source))
    reached = [b.reaches for _, b in trace.of(Backward)]
    assert reached[:3] == [("opt_a",), ("opt_b",), ("opt_a", "opt_b")]
    assert not any(b.assumed for _, b in trace.of(Backward))


def test_a_loss_from_nowhere_reaches_all_optimizers_as_far_as_one_can_tell() -> None:
    source = """
        def train(model, other, losses):
            opt_a = torch.optim.SGD(model.parameters(), 0.1)
            opt_b = torch.optim.SGD(other.parameters(), 0.1)
            for loss in losses:
                loss.backward()
                opt_a.step()
                opt_b.step()
    """
    event = next(b for _, b in only(derive(source)).of(Backward))
    assert set(event.reaches) == set(event.assumed) == {"opt_a", "opt_b"}


@pytest.mark.parametrize(
    ("scheduler", "counts"),
    [
        ("torch.optim.lr_scheduler.OneCycleLR(optimizer, 0.1, 10)", "updates"),
        ("torch.optim.lr_scheduler.StepLR(optimizer, 10)", "unknown"),
        ("get_linear_schedule_with_warmup(optimizer, 1, 10)", "updates"),
        ("transformers.get_cosine_schedule_with_warmup(optimizer, 1, 10)", "updates"),
    ],
)
def test_schedulers_by_their_class(scheduler: str, counts: str) -> None:
    body = "model(x).mean().backward()\noptimizer.step()\nwarm.step()\noptimizer.zero_grad()"
    source = "import transformers\nfrom transformers import get_linear_schedule_with_warmup\n" + loop(
        body, before=f"warm = {scheduler}"
    )
    trace = only(derive(source))
    event = next(e for _, e in trace.of(ScheduleStep))
    assert (event.scheduler, event.optimizers, event.counts) == ("warm", ("optimizer",), counts)


def test_a_metric_makes_it_a_metric_schedule() -> None:
    body = "model(x).mean().backward()\noptimizer.step()\nscheduler.step(metric)\noptimizer.zero_grad()"
    before = "scheduler = torch.optim.lr_scheduler.ReduceLROnPlateau(optimizer)"
    trace = only(derive(loop(body, before=before, arguments="metric")))
    assert {event.counts for _, event in trace.of(ScheduleStep)} == {"metric"}


@pytest.mark.parametrize(
    ("average", "call"),
    [
        ("torch.optim.swa_utils.AveragedModel(model)", "update_parameters(model)"),
        ("ModelEMA(model)", "update(model)"),
        ("timm.utils.EMA(model)", "update(model)"),
    ],
)
def test_averages(average: str, call: str) -> None:
    body = f"model(x).mean().backward()\noptimizer.step()\noptimizer.zero_grad()\nema.{call}"
    source = "import timm\nfrom utils import ModelEMA\n" + loop(body, before=f"ema = {average}")
    trace = only(derive(source))
    assert len(micros(trace, AverageUpdate)) == 3


@pytest.mark.parametrize(
    "call",
    [
        "noise_scheduler.step(x, i, y)",
        "env.step(x)",
        "profiler.step()",
        "bar.update(1)",
        "metric.update(x)",
        "meter.update(x, 1)",
        "scaler.transform(x)",
    ],
)
def test_namesakes_do_nothing(call: str) -> None:
    body = f"model(x).mean().backward()\noptimizer.step()\noptimizer.zero_grad()\n{call}"
    arguments = "noise_scheduler, env, profiler, bar, metric, meter, scaler"
    for trace in derive(loop(body, arguments=arguments)).traces:
        assert story(trace, 0) == "backward step zero"


def test_a_standard_scaler_is_no_loss_scaler() -> None:
    body = "x = scaler.fit_transform(x)\nmodel(x).mean().backward()\noptimizer.step()\noptimizer.zero_grad()"
    source = "from sklearn.preprocessing import StandardScaler\n" + loop(
        body, before="scaler = StandardScaler()"
    )
    assert story(only(derive(source)), 0) == "backward step zero"


@pytest.mark.parametrize("name", ["scaler", "fp16_scaler", "amp_scaler", "gradscaler_g", "state.scaler"])
def test_scalers_by_their_name(name: str) -> None:
    source = f"""
        def train(model, optimizer, loader, {name.split(".")[0]}):
            for x, y in loader:
                {name}.scale(model(x).mean()).backward()
                {name}.unscale_(optimizer)
                {name}.step(optimizer)
                {name}.update()
                optimizer.zero_grad()
    """
    trace = usual(derive(source))
    assert story(trace, 0) == "backward unscale step update zero"
    assert steps(trace) == [(name, "optimizer")]
    assert not role(trace, "optimizer").known


@pytest.mark.parametrize("name", ["optimizer_g", "self_opt", "optim", "adam", "opt"])
def test_optimizers_by_their_name(name: str) -> None:
    source = f"""
        def train(model, {name}, loader):
            for x, y in loader:
                {name}.zero_grad()
                model(x).mean().backward()
                {name}.step()
    """
    trace = usual(derive(source))
    assert story(trace, 0) == "zero backward step"
    assert not role(trace, name).known


def test_whatever_a_scaler_unscales_and_steps_is_an_optimizer() -> None:
    source = """
        def train(model, thing, loader):
            scaler = GradScaler("cuda")
            for x, y in loader:
                scaler.scale(model(x).mean()).backward()
                scaler.unscale_(thing)
                scaler.step(thing)
                scaler.update()
                thing.zero_grad()
    """
    trace = usual(derive(source))
    assert steps(trace) == [("scaler", "thing")]
    assert [event.optimizer for _, event in trace.of(Unscale)] == ["thing"] * 3
