"""Who plays which part: by definition first, by name and use last, and through every container on the way."""

from __future__ import annotations

import pytest

from ampcheck.events import (
    AverageUpdate,
    Backward,
    Build,
    Clip,
    Convert,
    Escape,
    Forward,
    ScheduleStep,
    Step,
    Unscale,
    ZeroGrad,
)
from ampcheck.trace import Role, Trace
from tests.running.derived import derive, logged, loop, micros, only, story, training, units, usual


def steps(trace: Trace) -> list[tuple[str | None, str]]:
    """Which scaler steps which optimizer, each pair once."""
    return list(dict.fromkeys((event.scaler, event.optimizer) for _, event in trace.of(Step)))


def role(trace: Trace, identifier: str) -> Role:
    return trace.roles[identifier]


STEPPED = (
    "scaler.scale(model(x).mean()).backward()\nscaler.step(optimizer)\nscaler.update()\noptimizer.zero_grad()"
)


# --- by definition ----------------------------------------------------------------------------------------------


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
    trace = only(derive(_dedented(source) + loop(STEPPED, before="scaler = GradScaler()")))
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


# --- what is no role --------------------------------------------------------------------------------------------


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


# --- by name and use --------------------------------------------------------------------------------------------


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


# --- through aliases and containers -----------------------------------------------------------------------------

ALIASES = {
    "an alias": ("s = scaler", "s.{call}"),
    "a tuple": ("pair = (scaler, 1)", "pair[0].{call}"),
    "unpacking": ("s, _ = scaler, 1", "s.{call}"),
    "a list": ("held = [scaler]", "held[0].{call}"),
    "the end of a list": ("held = [None, scaler]", "held[-1].{call}"),
    "a dict": ("held = {'s': scaler}", "held['s'].{call}"),
    "a dict that is filled later": ("held = {}\nheld['s'] = scaler", "held['s'].{call}"),
    "get": ("held = {'s': scaler}", "held.get('s').{call}"),
    "append": ("held = []\nheld.append(scaler)", "held[0].{call}"),
    "an attribute": ("state.s = scaler", "state.s.{call}"),
    "a bound method": ("{method} = scaler.{method}", "{call}"),
    "partial": ("{method} = functools.partial(scaler.{method})", "{call}"),
    "a lambda": ("the = lambda: scaler", "the().{call}"),
    "a conditional expression": ("s = scaler if scaler else None", "s.{call}"),
    "or": ("s = scaler or None", "s.{call}"),
}


@pytest.mark.parametrize(("definition", "use"), ALIASES.values(), ids=ALIASES)
def test_a_scaler_is_followed_through(definition: str, use: str) -> None:
    calls = [("scale", "scale(model(x).mean())"), ("step", "step(optimizer)"), ("update", "update()")]
    per_method = "{method}" in definition
    before = "\n".join(definition.format(method=m) for m, _ in calls) if per_method else definition
    scale, step, update = (use.format(call=call) for _, call in calls)
    body = f"{scale}.backward()\n{step}\n{update}\noptimizer.zero_grad()"
    trace = only(derive(training(body, before=before, arguments="state")))
    assert story(trace, 0) == "backward step update zero"
    assert steps(trace) == [("scaler", "optimizer")]
    assert units(trace) == ["S"]


def test_a_loop_over_a_list_of_optimizers() -> None:
    source = """
        def train(a, b, loader):
            optimizers = [torch.optim.SGD(a.parameters(), 0.1), torch.optim.SGD(b.parameters(), 0.1)]
            scaler = GradScaler("cuda")
            for x, y in loader:
                for opt in optimizers:
                    opt.zero_grad()
                scaler.scale((a(x) + b(x)).mean()).backward()
                for opt in optimizers:
                    scaler.step(opt)
                scaler.update()
    """
    trace = only(derive(source))
    assert story(trace, 0) == "zero zero backward step step update"
    assert len(steps(trace)) == 2
    assert [r.models for r in trace.roles_of("optimizer")] == [("a",), ("b",)]


def test_a_loop_over_a_dict_of_optimizers() -> None:
    source = """
        def train(a, b, loader):
            optimizers = {"a": torch.optim.SGD(a.parameters(), 0.1), "b": torch.optim.SGD(b.parameters(), 0.1)}
            for x, y in loader:
                (a(x) + b(x)).mean().backward()
                for name, opt in optimizers.items():
                    opt.step()
                for opt in optimizers.values():
                    opt.zero_grad()
                optimizers["a"].zero_grad()
    """
    trace = only(derive(source))
    assert story(trace, 0) == "backward step step zero zero zero"
    assert len(steps(trace)) == 2


def test_zip_of_optimizers_and_schedulers() -> None:
    source = """
        def train(a, b, loader):
            opts = [torch.optim.SGD(a.parameters(), 0.1), torch.optim.SGD(b.parameters(), 0.1)]
            scheds = [torch.optim.lr_scheduler.StepLR(o, 1) for o in opts]
            for x, y in loader:
                (a(x) + b(x)).mean().backward()
                for opt, sched in zip(opts, scheds):
                    opt.step()
                    sched.step()
                    opt.zero_grad()
    """
    trace = only(derive(source))
    assert story(trace, 0) == "backward step schedule zero step schedule zero"


def test_a_property_alias() -> None:
    source = """
        class Trainer:
            def __init__(self, model):
                self.model = model
                self._scaler = GradScaler("cuda")
                self.optimizer = torch.optim.SGD(model.parameters(), 0.1)

            @property
            def grad_scaler(self):
                return self._scaler

            def fit(self, loader):
                for x, y in loader:
                    self.grad_scaler.scale(self.model(x).mean()).backward()
                    self._scaler.step(self.optimizer)
                    self.grad_scaler.update()
                    self.optimizer.zero_grad()
    """
    trace = only(derive(source))
    assert story(trace, 0) == "backward step update zero"
    assert steps(trace) == [("self._scaler", "self.optimizer")]


def test_an_attribute_that_another_method_sets() -> None:
    source = """
        class Trainer:
            def setup(self):
                self.scaler = GradScaler("cuda")
                self.optimizer = torch.optim.SGD(self.model.parameters(), 0.1)

            def fit(self, loader):
                for x, y in loader:
                    self.scaler.scale(self.model(x).mean()).backward()
                    self.scaler.step(self.optimizer)
                    self.scaler.update()
                    self.optimizer.zero_grad()
    """
    trace = only(derive(source))
    assert story(trace, 0) == "backward step update zero"
    assert role(trace, "self.scaler").detail == "GradScaler"
    assert role(trace, "self.optimizer").known


def test_an_attribute_of_a_base_class() -> None:
    source = """
        class Base:
            def __init__(self, model):
                self.model = model
                self.optimizer = torch.optim.SGD(model.parameters(), 0.1)

        class Trainer(Base):
            def __init__(self, model):
                super().__init__(model)
                self.scaler = GradScaler("cuda")

            def fit(self, loader):
                for x, y in loader:
                    self.scaler.scale(self.model(x).mean()).backward()
                    self.scaler.step(self.optimizer)
                    self.scaler.update()
                    self.optimizer.zero_grad()
    """
    trace = only(derive(source))
    assert story(trace, 0) == "backward step update zero"
    assert role(trace, "self.optimizer").known


def test_a_global_scaler() -> None:
    source = """
        scaler = GradScaler("cuda")

        def train(model, loader):
            optimizer = torch.optim.SGD(model.parameters(), 0.1)
            for x, y in loader:
                scaler.scale(model(x).mean()).backward()
                scaler.step(optimizer)
                scaler.update()
                optimizer.zero_grad()
    """
    trace = only(derive(source))
    assert steps(trace) == [("scaler", "optimizer")]
    assert role(trace, "scaler").detail == "GradScaler"


def test_arguments_at_the_call_tell_what_a_parameter_is() -> None:
    source = """
        def one_step(net, thing, gs, x):
            gs.scale(net(x).mean()).backward()
            gs.step(thing)
            gs.update()
            thing.zero_grad()

        def main(model, loader):
            opt = torch.optim.SGD(model.parameters(), 0.1)
            scaler = GradScaler("cuda")
            for x, y in loader:
                one_step(model, opt, gs=scaler, x=x)
    """
    trace = only(derive(source))
    assert trace.root == "main"
    assert steps(trace) == [("scaler", "opt")]
    assert role(trace, "opt").known


def test_two_objects_of_one_name_are_two_roles() -> None:
    source = """
        def train(model, other, loader):
            optimizer = torch.optim.SGD(model.parameters(), 0.1)
            for x, y in loader:
                model(x).mean().backward()
                optimizer.step()
                optimizer.zero_grad()
            optimizer = torch.optim.SGD(other.parameters(), 0.1)
            for x, y in loader:
                other(x).mean().backward()
                optimizer.step()
                optimizer.zero_grad()
    """
    trace = only(derive(source))
    assert len(trace.roles_of("optimizer")) == 2
    assert len({event.optimizer for _, event in trace.of(Step)}) == 2


# --- wrapped and frozen models ----------------------------------------------------------------------------------


def forwards(trace: Trace) -> set[Forward]:
    return {forward for _, b in trace.of(Backward) for forward in b.loss.forwards}


WRAPPED = """
    def train(model, loader):
        {wrap}
        optimizer = torch.optim.SGD(model.parameters(), 0.1)
        for x, y in loader:
            {forward}.mean().backward()
            optimizer.step()
            optimizer.zero_grad()
"""


@pytest.mark.parametrize(
    ("wrap", "forward", "wrapper", "bypassed"),
    [
        ("pass", "model(x)", "", False),
        ("model = DDP(model)", "model(x)", "ddp", False),
        (
            "model = nn.parallel.DistributedDataParallel(model.cuda(), device_ids=[0])",
            "model(x)",
            "ddp",
            False,
        ),
        ("model = torch.compile(DDP(model))", "model(x)", "ddp", False),
        ("model = DDP(torch.compile(model))", "model(x)", "ddp", False),
        ("model = DDP(model)", "model.module(x)", "ddp", True),
        ("model = nn.DataParallel(model)", "model(x)", "", False),
        ("model = nn.DataParallel(model)", "model.module(x)", "", False),
        (
            "model = nn.SyncBatchNorm.convert_sync_batchnorm(model)\n        model = DDP(model)",
            "model(x)",
            "ddp",
            False,
        ),
    ],
)
def test_wrapping(wrap: str, forward: str, wrapper: str, bypassed: bool) -> None:
    trace = only(derive(WRAPPED.format(wrap=wrap, forward=forward)))
    assert forwards(trace) == {Forward("model", wrapper, bypassed)}


def test_wrapping_in_a_helper() -> None:
    source = """
        def prepare(net, distributed):
            net = net.cuda()
            if distributed:
                net = DDP(net, device_ids=[0])
            return net

        def train(model, loader, distributed):
            model = prepare(model, distributed)
            optimizer = torch.optim.SGD(model.parameters(), 0.1)
            for x, y in loader:
                model(x).mean().backward()
                optimizer.step()
                optimizer.zero_grad()
    """
    explored = derive(source)
    wrappers = {tuple(logged(t)): {f.wrapper for f in forwards(t)} for t in explored.traces}
    assert wrappers == {("distributed",): {"ddp"}, ("not distributed",): {""}}
    assert all(b.reaches == ("optimizer",) for t in explored.traces for _, b in t.of(Backward))


def test_the_optimizer_may_be_built_before_the_wrapping() -> None:
    source = """
        def train(model, loader):
            optimizer = torch.optim.SGD(model.parameters(), 0.1)
            ddp = DDP(model)
            for x, y in loader:
                ddp(x).mean().backward()
                optimizer.step()
                optimizer.zero_grad()
    """
    trace = only(derive(source))
    assert {b.reaches for _, b in trace.of(Backward)} == {("optimizer",)}
    assert {f.wrapper for f in forwards(trace)} == {"ddp"}


@pytest.mark.parametrize(
    "freezing",
    ["teacher.requires_grad_(False)", "for p in teacher.parameters():\n    p.requires_grad = False"],
)
def test_a_frozen_model_takes_no_gradients(freezing: str) -> None:
    source = """
        def train(model, teacher, loader):
            opt = torch.optim.SGD(model.parameters(), 0.1)
            opt_t = torch.optim.SGD(teacher.parameters(), 0.1)
            {freezing}
            for x, y in loader:
                (model(x) - teacher(x)).mean().backward()
                opt.step()
                opt.zero_grad()
    """
    indented = freezing.replace("\n", "\n            ")
    trace = only(derive(source.format(freezing=indented)))
    assert {b.reaches for _, b in trace.of(Backward)} == {("opt",)}


def test_a_thawed_model_takes_them_again() -> None:
    source = """
        def train(model, loader):
            opt = torch.optim.SGD(model.parameters(), 0.1)
            model.requires_grad_(False)
            model.requires_grad_(True)
            for x, y in loader:
                model(x).mean().backward()
                opt.step()
                opt.zero_grad()
    """
    assert {b.reaches for _, b in only(derive(source)).of(Backward)} == {("opt",)}


def test_parameters_that_no_optimizer_holds_keep_gradients_of_their_own() -> None:
    source = """
        def train(model, head, loader):
            opt = torch.optim.SGD(model.parameters(), 0.1)
            head.train()
            for x, y in loader:
                head(model(x)).mean().backward()
                opt.step()
                opt.zero_grad()
    """
    assert {b.reaches for _, b in only(derive(source)).of(Backward)} == {("opt", "free:head")}


@pytest.mark.parametrize(
    "detaching",
    [
        "loss = loss.detach()\nloss.backward()",
        "with torch.no_grad():\n    loss = model(x).mean()\nloss.backward()",
    ],
)
def test_a_detached_loss_reaches_nothing(detaching: str) -> None:
    body = f"loss = model(x).mean()\n{detaching}\noptimizer.step()\noptimizer.zero_grad()"
    trace = only(derive(loop(body)))
    assert not any(owner for _, b in trace.of(Backward) for owner in b.reaches)


def test_a_detached_input_stops_the_gradient_there() -> None:
    """GAN: the discriminator's step on a detached fake does not reach the generator."""
    source = """
        def train(generator, critic, loader):
            opt_g = torch.optim.SGD(generator.parameters(), 0.1)
            opt_d = torch.optim.SGD(critic.parameters(), 0.1)
            for z in loader:
                fake = generator(z)
                critic(fake.detach()).mean().backward()
                opt_d.step()
                critic(fake).mean().backward()
                opt_g.step()
    """
    trace = only(derive(source))
    assert list(dict.fromkeys(b.reaches for _, b in trace.of(Backward))) == [("opt_d",), ("opt_g", "opt_d")]


def test_zeroing_a_model_clears_the_buffers_of_its_optimizers() -> None:
    source = """
        def train(a, b, loader):
            opt_a = torch.optim.SGD(a.parameters(), 0.1)
            opt_b = torch.optim.SGD(b.parameters(), 0.1)
            for x, y in loader:
                (a(x) + b(x)).mean().backward()
                opt_a.step()
                opt_b.step()
                a.zero_grad()
                b.zero_grad(set_to_none=False)
    """
    trace = only(derive(source))
    cleared = list(dict.fromkeys((z.owners, z.to_none) for _, z in trace.of(ZeroGrad)))
    assert cleared == [(("opt_a",), True), (("opt_b",), False)]


# --- clips ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("call", "style", "threshold", "whole"),
    [
        ("clip_grad_norm_(model.parameters(), 1.0)", "norm", 1.0, True),
        ("clip_grad_norm_(model.parameters(), max_norm=0.5)", "norm", 0.5, True),
        ("torch.nn.utils.clip_grad_norm_(model.parameters(), clip)", "norm", None, True),
        ("nn.utils.clip_grad_norm(model.parameters(), 1)", "norm", 1.0, True),
        ("clip_grad_value_(model.parameters(), clip_value=0.1)", "value", 0.1, True),
        ("clip_grad_norm_(list(model.parameters()), 1.0)", "norm", 1.0, True),
        ("clip_grad_norm_([p for p in model.parameters() if p.grad is not None], 1.0)", "norm", 1.0, True),
        ("clip_grad_norm_(optimizer.param_groups[0]['params'], 1.0)", "norm", 1.0, True),
    ],
)
def test_clips(call: str, style: str, threshold: float | None, whole: bool) -> None:
    body = f"model(x).mean().backward()\n{call}\noptimizer.step()\noptimizer.zero_grad()"
    trace = only(derive(loop(body, arguments="clip")))
    event = next(e for _, e in trace.of(Clip))
    assert (event.style, event.threshold, event.whole) == (style, threshold, whole)
    assert (event.owners, event.by, event.per_parameter) == (("optimizer",), "torch", False)


def test_an_infinite_threshold_only_reads_the_norm() -> None:
    body = """
        model(x).mean().backward()
        norm = clip_grad_norm_(model.parameters(), float("inf"))
        optimizer.step()
        optimizer.zero_grad()
    """
    trace = only(derive(loop(body)))
    assert story(trace, 0) in ("backward read step zero", "backward clip step zero")


@pytest.mark.parametrize("bound", ["math.inf", "torch.inf"])
def test_other_infinities_are_at_least_no_known_threshold(bound: str) -> None:
    body = f"model(x).mean().backward()\nclip_grad_norm_(model.parameters(), {bound})\noptimizer.step()"
    trace = only(derive(loop(body)))
    assert all(event.threshold is None for _, event in trace.of(Clip))


def test_one_parameter_at_a_time() -> None:
    body = """
        model(x).mean().backward()
        for p in model.parameters():
            clip_grad_norm_(p, 1.0)
        optimizer.step()
        optimizer.zero_grad()
    """
    event = next(e for _, e in only(derive(loop(body))).of(Clip))
    assert event.per_parameter


# --- precision, escape ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("cast", ["model.half()", "model = model.half()", "model.to(torch.float16)"])
def test_a_model_cast_to_half(cast: str) -> None:
    body = "model(x).mean().backward()\noptimizer.step()\noptimizer.zero_grad()"
    trace = only(derive(loop(body, before=cast)))
    assert [(event.model, event.dtype) for _, event in trace.of(Convert)] == [("model", "float16")]


def test_an_optimizer_in_unseen_hands_escapes() -> None:
    body = "unseen.mangle(optimizer)\nmodel(x).mean().backward()\noptimizer.step()\noptimizer.zero_grad()"
    trace = only(derive(loop(body, arguments="unseen")))
    assert [(event.roles, event.into) for _, event in trace.of(Escape)] == [(("optimizer",), "mangle")] * 3
    assert next(r for r, _ in trace.of(Step)).before.buffer("optimizer").opaque


@pytest.mark.parametrize(
    "call", ["save_checkpoint(model, optimizer)", "print(optimizer)", "adjust_lr(optimizer, i)"]
)
def test_harmless_hands(call: str) -> None:
    body = f"{call}\nmodel(x).mean().backward()\noptimizer.step()\noptimizer.zero_grad()"
    trace = only(derive(loop(body, arguments="save_checkpoint, adjust_lr")))
    assert not micros(trace, Escape)


def test_an_engines_own_objects_are_nobodys_business() -> None:
    source = """
        from accelerate import Accelerator

        def train(model, loader):
            accelerator = Accelerator()
            optimizer = torch.optim.SGD(model.parameters(), 0.1)
            model, optimizer, loader = accelerator.prepare(model, optimizer, loader)
            for x, y in loader:
                loss = model(x).mean()
                accelerator.backward(loss)
                accelerator.clip_grad_norm_(model.parameters(), 1.0)
                optimizer.step()
                optimizer.zero_grad()
    """
    for trace in derive(source).traces:
        assert not micros(trace, Backward)
        assert not micros(trace, Step)


def test_roles_are_built_where_they_are_constructed() -> None:
    body = "model(x).mean().backward()\noptimizer.step()\noptimizer.zero_grad()"
    trace = only(derive(training(body)))
    built = [(event.kind, event.role, event.site.line) for _, event in trace.of(Build)]
    assert built == [("optimizer", "optimizer", 3), ("scaler", "scaler", 4)]


def _dedented(text: str) -> str:
    import textwrap

    return textwrap.dedent(text).lstrip("\n")
