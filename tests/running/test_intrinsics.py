"""What library models can ask, each question asked by a test of a loop: how it comes out shows in the events."""

from __future__ import annotations

import pytest

from ampcheck.events import Backward, Edit, EngineCall, Step
from ampcheck.running import Exploration
from tests.running.derived import derive, only

LOOP = """
    from ampcheck.models import (accepts, at_last_batch, doubtful, engine_call, instance_of, kind_of, own, quantity,
        shape_of, unknown, unknown_loader, unscale_latest)

    class Net(nn.Module):
        def forward(self, x): return x

    class Deep(Net):
        def forward(self, x): return x

    class Plain:
        def run(self, x, *, flag=1): return x

    def takes(x, **kwargs): return x

    def train(model, loader, given, train_loader, my_optimizer, lr_scheduler, amp_scaler, val_set, args):
        optimizer = torch.optim.SGD(model.parameters(), 0.1)
        scheduler = torch.optim.lr_scheduler.StepLR(optimizer, 1)
        scaler = GradScaler("cuda")
        net, deep, plain = Net(), Deep(), Plain()
        for x in loader:
            scaler.scale(model(x).mean()).backward()
            {body}
            optimizer.zero_grad()
"""


def explored(body: str) -> Exploration:
    return derive(LOOP.format(body=body.replace("\n", "\n            ")))


def decided(expression: str) -> bool | None:
    """How an expression comes out as a test; None where both ways are tried."""
    found = explored(f"if {expression}:\n    scaler.step(optimizer)\n    scaler.update()")
    ways = {any(trace.of(Step)) for trace in found.traces}
    return ways.pop() if len(ways) == 1 else None


@pytest.mark.parametrize(
    ("value", "kind"),
    [
        ("optimizer", "optimizer"),
        ("scheduler", "scheduler"),
        ("scaler", "scaler"),
        ("model", "model"),
        ("net", "model"),
        ("[optimizer]", "sequence"),
        ("3", "other"),
        ("my_optimizer", "optimizer"),
        ("lr_scheduler", "scheduler"),
        ("amp_scaler", "scaler"),
        ("train_loader", "loader"),
        ("val_set", "other"),
        ("args", "other"),
        ("given", "unknown"),
        ("plain", "unknown"),
    ],
)
def test_kinds_by_role_else_by_name(value: str, kind: str) -> None:
    assert decided(f'kind_of({value}) == "{kind}"') is True
    assert decided(f'kind_of({value}) != "{kind}"') is False


@pytest.mark.parametrize(
    ("value", "shape"),
    [
        ("[1, 2]", "sequence"),
        ("(1,)", "sequence"),
        ('{"a": 1}', "dict"),
        ('"16-mixed"', "text"),
        ("None", "none"),
        ("takes", "function"),
        ("plain.run", "function"),
        ("functools.partial(takes, 1)", "function"),
        ("given", ""),
        ("optimizer", ""),
    ],
)
def test_shapes_are_always_decided(value: str, shape: str) -> None:
    assert decided(f'shape_of({value}) == "{shape}"') is True


@pytest.mark.parametrize(
    ("value", "cls", "holds"),
    [
        ("deep", "Deep", True),
        ("deep", "Net", True),
        ("net", "Deep", False),
        ("plain", "Net", False),
        ("given", "Net", False),
        ("DDP(deep)", "Net", True),
    ],
)
def test_instances_of_classes_that_can_be_seen(value: str, cls: str, holds: bool) -> None:
    assert decided(f"instance_of({value}, {cls})") is holds


@pytest.mark.parametrize(
    ("function", "name", "holds"),
    [
        ("plain.run", "flag", True),
        ("plain.run", "other", False),
        ("takes", "anything", True),
        ("functools.partial(plain.run, 1)", "other", False),
        ("given", "anything", True),
    ],
)
def test_what_a_function_takes(function: str, name: str, holds: bool) -> None:
    assert decided(f'accepts({function}, "{name}")') is holds


def test_what_nobody_knows_is_tried_both_ways() -> None:
    assert decided('unknown("whether")') is None
    assert decided('doubtful("which version")') is None


def test_nothing_certain_rests_on_what_is_doubtful() -> None:
    found = explored('if doubtful("version"):\n    scaler.step(optimizer)\n    scaler.update()')
    (stepping,) = [trace for trace in found.traces if list(trace.of(Step))]
    assert [(guard.text, guard.doubtful) for guard in stepping.choices] == [("version", True)]
    plain = explored('if unknown("whether"):\n    scaler.step(optimizer)\n    scaler.update()')
    (stepping,) = [trace for trace in plain.traces if list(trace.of(Step))]
    assert [guard.doubtful for guard in stepping.choices] == [False]


def test_the_last_batch_is_the_last_of_each_epoch() -> None:
    trace = only(explored("if at_last_batch():\n    scaler.step(optimizer)\n    scaler.update()"))
    every = only(explored("scaler.step(optimizer)\nscaler.update()"))
    last = {record.epoch: record.micro for record, _ in every.of(Step)}
    assert {record.epoch: record.micro for record, _ in trace.of(Step)} == last
    assert len(list(trace.of(Step))) == len(last)


def test_an_engine_call_names_the_roles_among_its_objects() -> None:
    trace = only(explored('engine_call("mine", "setup", optimizer, [scaler, 3], given, 4)'))
    events = {event for _, event in trace.of(EngineCall)}
    assert {(e.library, e.call, e.roles) for e in events} == {("mine", "setup", ("optimizer", "scaler"))}


def test_what_an_engine_owns_is_marked() -> None:
    trace = only(explored('own("mine", optimizer, [model])\nscaler.step(optimizer)\nscaler.update()'))
    engines = {name: role.engine for name, role in trace.roles.items()}
    assert (engines["optimizer"], engines["model"], engines["scaler"]) == ("mine", "mine", "")


def test_unscaling_the_latest_gradients_divides_by_the_scale() -> None:
    trace = only(explored("unscale_latest(scaler, optimizer)"))
    (edit,) = {event for _, event in trace.of(Edit)}
    assert (edit.owners, edit.latest) == (("optimizer",), True)
    assert edit.factor is not None
    assert edit.factor.scale == (("scaler", -1),)


def test_what_is_divided_by_a_quantity_is_normalised_by_it() -> None:
    found = derive(
        LOOP.format(body="optimizer.step()").replace(
            "scaler.scale(model(x).mean())", '(model(x).sum() / quantity("items"))'
        )
    )
    for _, event in only(found).of(Backward):
        assert {unit.other for unit in event.loss.parts} == {frozenset({"items"})}
