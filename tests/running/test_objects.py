"""Classes and objects of the project, and the methods of roles."""

from __future__ import annotations

import pytest

from ampcheck.events import (
    AverageUpdate,
    Backward,
    Build,
    Clip,
    Convert,
    ScheduleStep,
    Step,
    Update,
    ZeroGrad,
)
from tests.running.derived import derive, loop, micros, only, story, training

STEP = "optimizer.step()\noptimizer.zero_grad()"


@pytest.mark.parametrize(
    ("base", "kind"),
    [
        ("torch.optim.Optimizer", "optimizer"),
        ("torch.optim.SGD", "optimizer"),
    ],
)
def test_classes_of_the_project_by_their_base(base: str, kind: str) -> None:
    source = f"""
        class Mine({base}):
            pass

        class Derived(Mine):
            pass

        def train(model, loader):
            thing = Derived(model.parameters(), 0.1)
            for x, y in loader:
                model(x).mean().backward()
                thing.step()
                thing.zero_grad()
    """
    trace = only(derive(source))
    assert [event.kind for _, event in trace.of(Build)] == [kind]
    assert story(trace, 0) == "backward step zero"


def test_a_scheduler_of_the_project() -> None:
    source = """
        class Warmup(torch.optim.lr_scheduler.LRScheduler):
            pass

        def train(model, loader):
            optimizer = torch.optim.SGD(model.parameters(), 0.1)
            schedule = Warmup(optimizer)
            for x, y in loader:
                model(x).mean().backward()
                optimizer.step()
                schedule.step()
                optimizer.zero_grad()
    """
    trace = only(derive(source))
    assert story(trace, 0) == "backward step schedule zero"
    assert {event.optimizers for _, event in trace.of(ScheduleStep)} == {("optimizer",)}


def test_a_moving_average_by_its_name() -> None:
    source = "from timm.utils import ExponentialMovingAverage\n"
    body = f"model(x).mean().backward()\n{STEP}\nema.update()\nema.store()"
    trace = only(derive(source + loop(body, before="ema = ExponentialMovingAverage(model.parameters())")))
    assert len(micros(trace, AverageUpdate)) == 3


def test_a_module_of_the_project_and_its_parts() -> None:
    source = """
        class Net(nn.Module):
            def __init__(self):
                super().__init__()
                self.body = nn.Linear(2, 2)
                self.head = nn.Linear(2, 1)

            def forward(self, x):
                return self.head(self.body(x))

        def train(loader):
            net = Net()
            optimizer = torch.optim.SGD(net.parameters(), 0.1)
            for x, y in loader:
                loss = net(x).mean()
                loss.backward()
                clip_grad_norm_(net.parameters(), 1.0)
                optimizer.step()
                net.zero_grad()
    """
    trace = only(derive(source))
    assert story(trace, 0) == "backward clip step zero"
    assert next(e for _, e in trace.of(Clip)).whole


def test_an_attribute_of_an_attribute() -> None:
    source = """
        class State:
            pass

        class Trainer:
            def __init__(self, model):
                self.state = State()
                self.state.model = model
                self.state.scaler = GradScaler("cuda")
                self.state.optimizer = torch.optim.SGD(model.parameters(), 0.1)

            def fit(self, loader):
                state = self.state
                for x, y in loader:
                    state.scaler.scale(state.model(x).mean()).backward()
                    state.scaler.step(state.optimizer)
                    state.scaler.update()
                    state.optimizer.zero_grad()
    """
    trace = only(derive(source))
    assert story(trace, 0) == "backward step update zero"
    assert all(role.known for role in trace.roles_of("optimizer") + trace.roles_of("scaler"))


def test_contexts_may_be_entered_by_hand() -> None:
    body = (
        "context = model.no_sync()\ncontext.__enter__()\nmodel(x).mean().backward()\n"
        f"context.__exit__(None, None, None)\nmodel(x).mean().backward()\n{STEP}"
    )
    trace = only(derive(loop(body, before="model = DDP(model)")))
    assert [b.synced for _, b in trace.of(Backward)][:2] == [False, True]


@pytest.mark.parametrize(
    "call",
    [
        "optimizer.state_dict()",
        "scaler.state_dict()",
        "model.state_dict()",
        "scaler.get_growth_factor()",
        "optimizer.add_param_group({})",
        "scheduler.get_last_lr()",
    ],
)
def test_other_methods_of_roles_are_no_events(call: str) -> None:
    body = (
        f"held = {call}\nscaler.scale(model(x).mean()).backward()\nscaler.step(optimizer)\n"
        "scaler.update()\noptimizer.zero_grad()"
    )
    before = "scheduler = torch.optim.lr_scheduler.StepLR(optimizer, 1)"
    trace = only(derive(training(body, before=before)))
    assert story(trace, 0) == "backward step update zero"


def test_a_new_scale_makes_an_update_explicit() -> None:
    body = (
        "scaler.scale(model(x).mean()).backward()\nscaler.step(optimizer)\n"
        "scaler.update(new_scale=1.0)\noptimizer.zero_grad()"
    )
    assert {event.explicit for _, event in only(derive(training(body))).of(Update)} == {True}


def test_modules_are_cast_and_cleared() -> None:
    body = "model(x).mean().backward()\noptimizer.step()\nmodel.zero_grad(set_to_none=False)"
    trace = only(derive(loop(body, before="model = model.cuda().half()")))
    assert [event.dtype for _, event in trace.of(Convert)] == ["float16"]
    assert {event.to_none for _, event in trace.of(ZeroGrad)} == {False}


def test_fsdps_own_clip() -> None:
    body = f"model(x).mean().backward()\nmodel.clip_grad_norm_(1.0)\n{STEP}"
    before = "model = torch.distributed.fsdp.FullyShardedDataParallel(model)"
    trace = only(derive(loop(body, before=before)))
    assert [(e.style, e.owners) for _, e in trace.of(Clip)] == [("norm", ("optimizer",))] * 3
    assert {f.wrapper for _, b in trace.of(Backward) for f in b.loss.forwards} == {"fsdp1"}


def test_items_of_a_module() -> None:
    body = f"model[0](x).mean().backward()\n{STEP}"
    trace = only(derive(loop(body, before="model.train()")))
    assert {b.reaches for _, b in trace.of(Backward)} == {("optimizer",)}


def test_a_counter_that_is_resumed_counts_from_zero() -> None:
    body = """
        (model(x).mean() / accum).backward()
        state.step += 1
        if state.step % accum == 0:
            optimizer.step()
            optimizer.zero_grad()
    """
    trace = only(derive(loop(body, arguments="state, accum")))
    assert [record.micro for record, _ in trace.of(Step)] == [2, 5]


def test_a_method_by_its_class() -> None:
    source = """
        class Helper:
            def finish(self, optimizer):
                optimizer.step()
                optimizer.zero_grad()

        def train(model, loader):
            helper = Helper()
            optimizer = torch.optim.SGD(model.parameters(), 0.1)
            for x, y in loader:
                model(x).mean().backward()
                Helper.finish(helper, optimizer)
    """
    assert story(only(derive(source)), 0) == "backward step zero"


RECORD = """
    @dataclass{options}
    class Kept:
        label: str
        amount: int = 5
        opt: torch.optim.Optimizer | None = None
        made: object = field(init=False)
        total: ClassVar[int] = 0

    def train(model, loader):
        optimizer = torch.optim.SGD(model.parameters(), 0.1)
        kept = Kept({arguments})
        for x, y in loader:
            model(x).mean().backward()
            kept.opt.step()
            kept.opt.zero_grad()
"""


@pytest.mark.parametrize(
    ("options", "arguments"),
    [
        ("", "'a', 2, optimizer"),
        ("(frozen=True, slots=True)", "'a', opt=optimizer"),
        ("", "opt=optimizer, **settings"),
    ],
)
def test_a_dataclass_keeps_its_arguments(options: str, arguments: str) -> None:
    trace = only(derive(RECORD.format(options=options, arguments=arguments)))
    assert story(trace, 0) == "backward step zero"


def test_the_init_of_a_dataclass_runs_what_follows_it() -> None:
    source = """
        @dataclasses.dataclass
        class Engine:
            model: torch.nn.Module

            def __post_init__(self):
                self.optimizer = torch.optim.SGD(self.model.parameters(), 0.1)

        def train(model, loader):
            engine = Engine(model)
            for x, y in loader:
                model(x).mean().backward()
                engine.optimizer.step()
                engine.optimizer.zero_grad()
    """
    assert story(only(derive(source)), 0) == "backward step zero"
