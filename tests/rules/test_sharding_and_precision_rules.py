"""AMP206-208, 406, 409, 603, 605 and 607 on traces built by hand: what they find, where, and what they leave alone."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pytest

from ampcheck.events import Clip, Forward, Recompute, Site
from ampcheck.registry import built_in
from ampcheck.rule import Violation
from ampcheck.trace import Role, Trace
from tests.tracing import (
    Item,
    autocast,
    backward,
    build,
    choice,
    clip,
    edit,
    forward,
    loop,
    raw_step,
    step,
    trace,
    unscale,
    update,
    zero,
)

CODES = {"AMP206", "AMP207", "AMP208", "AMP406", "AMP409", "AMP603", "AMP605", "AMP607"}
RULES = tuple(rule for rule in built_in() if rule.code in CODES)


def found(subject: Trace) -> list[tuple[str, object, bool]]:
    pairs = [(rule.code, violation) for rule in RULES for violation in rule.check(subject)]
    return [(code, subject.records[v.record].event.site, v.certain) for code, v in pairs]


def violation(subject: Trace, code: str) -> Violation:
    (rule,) = (r for r in RULES if r.code == code)
    (one,) = rule.check(subject)
    return one


def at(code: str, item: Item, certain: bool = True) -> list[tuple[str, object, bool]]:
    return [(code, item.event.site, certain)]


# --- 206: a clip that finds nothing ---


def test_206_consumed_by_the_constructor():
    built = build("optimizer", "optimizer")
    empty = clip(exhausted=built)
    subject = trace(loop([backward(), unscale(), empty, step(), update(), zero()], before=[built]))
    assert found(subject) == at("AMP206", empty)
    one = violation(subject, "AMP206")
    assert "consumed by the constructor of `optimizer`" in one.message
    assert one.steps[0] == 0


def test_206_only_the_first_time():
    first = clip()
    assert isinstance(first.event, Clip)
    again = Item(replace(first.event, exhausted=first.event.site))

    def body(i: int) -> Sequence[Item]:
        return [backward(), unscale(), again if i else first, step(), update(), zero()]

    subject = trace(loop(body, epochs=1))
    assert found(subject) == at("AMP206", first)
    assert "after the first time" in violation(subject, "AMP206").message


def test_206_perhaps_made_anew():
    built = build("optimizer", "optimizer")
    empty = clip(exhausted=built, assumed=True)
    assert found(trace([built, backward(scaler=None), empty, raw_step(), zero()])) == at(
        "AMP206", empty, False
    )


# --- 208: a strict clip ---


@pytest.mark.parametrize("scaled", [True, False])
def test_208_needs_a_scaler(scaled):
    strict = clip(error_if_nonfinite=True)
    body = [backward(), unscale(), strict, step(), update(), zero()]
    plain = [backward(scaler=None), strict, raw_step(), zero()]
    assert found(trace(loop(body if scaled else plain))) == (at("AMP208", strict) if scaled else [])


# --- 207, 406, 409: FSDP ---


def roles(wrapper: str, scaler: str = "ShardedGradScaler") -> list[Role]:
    return [
        Role("scaler", "scaler", "scaler", detail=scaler),
        Role("optimizer", "optimizer", "optimizer", detail="torch.optim.AdamW", models=("model",)),
        Role("model", "model", "model", detail=wrapper),
    ]


@pytest.mark.parametrize(
    ("wrapper", "by", "style", "certain"),
    [
        ("fsdp1", "torch", "norm", True),
        ("fsdp1?", "torch", "norm", False),
        ("fsdp1 NO_SHARD", "torch", "norm", None),
        ("fsdp1", "model", "norm", None),
        ("fsdp1", "torch", "value", None),
        ("fsdp2", "torch", "norm", None),
        ("fsdp", "torch", "norm", None),
        ("ddp", "torch", "norm", None),
    ],
)
def test_207_where_gradients_are_plain_shards(wrapper, by, style, certain):
    bound = clip(by=by, style=style)
    items = [backward(forwards=[forward(wrapper=wrapper)]), unscale(), bound, step(), update(), zero()]
    subject = trace(loop(items), roles=roles(wrapper))
    assert found(subject) == ([] if certain is None else at("AMP207", bound, certain))


@pytest.mark.parametrize(
    ("wrapper", "scaler", "certain"),
    [
        ("fsdp1", "GradScaler", True),
        ("fsdp1?", "GradScaler", False),
        ("fsdp1", "ShardedGradScaler", None),
        ("fsdp1", "OwnScaler", None),
        ("fsdp2", "GradScaler", None),
        ("ddp", "GradScaler", None),
    ],
)
def test_406_where_the_scaler_is_built(wrapper, scaler, certain):
    built = build("scaler", "scaler")
    subject = trace(
        loop([backward(), step(), update(), zero()], before=[built]), roles=roles(wrapper, scaler)
    )
    assert found(subject) == ([] if certain is None else at("AMP406", built, certain))


@pytest.mark.parametrize(
    ("detail", "certain"),
    [
        ("fsdp1", True),
        ("fsdp1?", True),
        ("fsdp2", True),
        ("fsdp1 use_orig_params?", False),
        ("fsdp1 use_orig_params", None),
        ("ddp", None),
    ],
)
def test_409_sharded_too_late(detail, certain):
    built, wrapped = build("optimizer", "optimizer"), build("model", "wrapper", detail)
    body = [backward(scaler=None), raw_step(), zero()]
    late = trace(loop(body, before=[built, wrapped]), roles=roles(detail.split()[0]))
    assert found(late) == ([] if certain is None else at("AMP409", built, certain))
    in_time = trace(loop(body, before=[wrapped, built]), roles=roles(detail.split()[0]))
    assert found(in_time) == []


def test_409_an_optimizer_that_never_steps():
    before = [build("optimizer", "optimizer"), build("model", "wrapper", "fsdp2")]
    assert found(trace(loop([backward(scaler=None)], before=before), roles=roles("fsdp2"))) == []


# --- 603 and 607: autocast ---


def test_603_backward_under_autocast():
    inside = backward(autocast="bfloat16", scaler=None)
    assert found(trace(loop([autocast("bfloat16"), inside, raw_step(), zero()]))) == at("AMP603", inside)
    assert found(trace(loop([autocast("bfloat16"), backward(scaler=None), raw_step(), zero()]))) == []


OPTIMIZER = [Role("optimizer", "optimizer", "optimizer", detail="torch.optim.AdamW")]


def in_float16(scaler: str | None = None, option: str = "") -> Item:
    return backward(scaler=scaler, forwards=[Forward("model", autocast="float16", option=option)])


def test_607_a_raw_step():
    raw = raw_step()
    assert found(trace(loop([autocast(), in_float16(), raw, zero()]), roles=OPTIMIZER)) == at("AMP607", raw)


def test_607_silent_with_a_scale_or_in_bfloat16():
    scaled = [autocast(), in_float16("scaler"), step(), update(), zero()]
    in_bfloat16 = backward(scaler=None, forwards=[Forward("model", autocast="bfloat16")])
    assert found(trace(loop(scaled), roles=OPTIMIZER)) == []
    assert found(trace(loop([in_bfloat16, raw_step(), zero()]), roles=OPTIMIZER)) == []


def test_607_possible_where_something_is_open():
    raw = raw_step()
    by_option = trace(loop([in_float16(option="args.amp"), raw, zero()]), roles=OPTIMIZER)
    by_hand = trace(loop([in_float16(), edit("multiply"), raw, zero()]), roles=OPTIMIZER)
    on_device = trace(
        loop([in_float16(), raw, zero()]),
        roles=OPTIMIZER,
        choices=[choice("torch.cuda.is_available()", False)],
    )
    unknown = [replace(OPTIMIZER[0], detail="Adan")]
    wrapped = trace(loop([in_float16(), raw, zero()]), roles=unknown)
    off = [*OPTIMIZER, Role("scaler", "scaler", "scaler", detail="GradScaler")]
    switched_off = trace(
        loop([in_float16(), raw, zero()]), roles=off, choices=[choice("args.disable_scaler")]
    )
    for subject in (by_option, by_hand, on_device, wrapped, switched_off):
        assert found(subject) == at("AMP607", raw, False)


@pytest.mark.parametrize(("dtype", "certain"), [("bfloat16", True), ("", False)])
def test_605_certain_under_an_autocast_that_can_be_seen(dtype, certain):
    place = Site("train.py", 1, 1, 1, 9)
    again = Item(Recompute(site=place, function="Checkpoint", autocast=dtype))
    assert found(trace([autocast(dtype), again])) == [("AMP605", place, certain)]
