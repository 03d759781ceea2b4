"""Models: wrapped, frozen, detached from; and whose gradients a backward, a zero or a clip concerns."""

from __future__ import annotations

import pytest

from ampcheck.events import (
    Backward,
    Build,
    Clip,
    Convert,
    Escape,
    Forward,
    Step,
    ZeroGrad,
)
from ampcheck.trace import Role, Trace
from tests.running.derived import derive, logged, loop, micros, only, story, training


def steps(trace: Trace) -> list[tuple[str | None, str]]:
    """Which scaler steps which optimizer, each pair once."""
    return list(dict.fromkeys((event.scaler, event.optimizer) for _, event in trace.of(Step)))


def role(trace: Trace, identifier: str) -> Role:
    return trace.roles[identifier]


STEPPED = (
    "scaler.scale(model(x).mean()).backward()\nscaler.step(optimizer)\nscaler.update()\noptimizer.zero_grad()"
)


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
        import colossalai

        def train(model, loader):
            booster = colossalai.Booster()
            optimizer = torch.optim.SGD(model.parameters(), 0.1)
            model, optimizer, loader = booster.boost(model, optimizer, loader)
            for x, y in loader:
                loss = model(x).mean()
                booster.backward(loss, optimizer)
                booster.clip_grad_norm_(model.parameters(), 1.0)
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
