"""The rules about engines, on traces built by hand: each mistake is found, what the engine's protocol allows is not."""

from __future__ import annotations

import pytest

from ampcheck.registry import built_in
from ampcheck.trace import Role, Trace
from tests.tracing import Item, backward, boundary, clip, engine_call, loop, raw_step, trace, when, zero

CODES = {"AMP108", "AMP209", "AMP314", "AMP407", "AMP701", "AMP702"}
RULES = {rule.code: rule for rule in built_in() if rule.code in CODES}


def found(subject: Trace) -> list[str]:
    """``AMP209 EngineCall``, with a question mark where it is only possible."""
    return [
        f"{rule.code}{'' if violation.certain else '?'} {type(subject.records[violation.record].event).__name__}"
        for rule in RULES.values()
        for violation in rule.check(subject)
    ]


def owned(engine: str) -> Role:
    """The optimizer, owned by an engine."""
    return Role("optimizer", "optimizer", "optimizer", True, "torch.optim.SGD", engine=engine)


def own_backward() -> list[Item]:
    """A backward that its engine announces."""
    return [engine_call("backward"), backward(scaler=None)]


@pytest.mark.parametrize(
    ("engine", "expected"),
    [("deepspeed-zero2", ["AMP209 EngineCall"]), ("deepspeed", ["AMP209? EngineCall"])],
)
def test_a_clip_that_an_engine_ignores(engine: str, expected: list[str]) -> None:
    body = [*own_backward(), engine_call("clip", "optimizer"), raw_step(), zero()]
    assert found(trace(loop(body), roles=[owned(engine)])) == expected


def test_a_clip_that_it_does_not_ignore() -> None:
    body = [*own_backward(), clip(), raw_step(), zero()]
    assert not found(trace(loop(body), roles=[owned("deepspeed-zero0")]))


@pytest.mark.parametrize(
    ("call", "expected"), [("counted step", ["AMP314 EngineCall"]), ("step", ["AMP314? EngineCall"])]
)
def test_a_step_that_waits_for_the_boundary(call: str, expected: list[str]) -> None:
    def body(i: int) -> list[Item]:
        at = boundary((i + 1) % 3 == 0, "(i + 1) % k == 0")
        return [*own_backward(), *when(at, engine_call(call, "optimizer"))]

    assert found(trace(loop(body), window=3, roles=[owned("deepspeed-zero1")])) == expected


def test_a_step_on_every_micro_batch() -> None:
    body = [*own_backward(), engine_call("counted step", "optimizer")]
    assert not found(trace(loop(body), window=3, roles=[owned("deepspeed-zero1")]))


def test_two_steps_for_one_backward() -> None:
    # Of one place in the source, as here, a second time may be meant: there it is possible only.
    counted = engine_call("counted step", "optimizer")
    roles = [owned("deepspeed-zero1")]
    assert found(trace(loop([*own_backward(), counted, counted]), window=3, roles=roles)) == [
        "AMP108? EngineCall"
    ]
    once = engine_call("step", "optimizer")
    assert not found(trace(loop([*own_backward(), once, once]), window=3, roles=roles))


@pytest.mark.parametrize(
    ("engine", "expected"),
    [
        ("deepspeed-zero2", ["AMP407 EngineCall"]),
        ("deepspeed-zero3", ["AMP407 EngineCall"]),
        ("deepspeed", ["AMP407? EngineCall"]),
        ("deepspeed-zero1", []),
    ],
)
def test_no_sync(engine: str, expected: list[str]) -> None:
    body = [engine_call("no_sync", "optimizer"), *own_backward()]
    assert found(trace(loop(body), roles=[owned(engine)])) == expected


@pytest.mark.parametrize(
    ("engine", "expected"),
    [
        ("fabric-mixed", ["AMP702 Backward"]),
        ("lightning-manual-fp16", ["AMP702 Backward"]),
        ("accelerate-fp16", ["AMP702 Backward"]),
        ("deepspeed-zero0", ["AMP702 Backward"]),
        ("deepspeed-zero1", ["AMP702? Backward"]),
        ("fabric", []),
        ("", []),
    ],
)
def test_a_plain_backward(engine: str, expected: list[str]) -> None:
    body = [backward(scaler=None), raw_step(), zero()]
    assert found(trace(loop(body), roles=[owned(engine)])) == expected
    body = [*own_backward(), raw_step(), zero()]
    assert not found(trace(loop(body), roles=[owned(engine)]))


def test_gradients_that_a_function_finds() -> None:
    elsewhere = backward(scaler=None, found=True)
    assert not found(trace(loop([elsewhere, raw_step(), zero()]), roles=[owned("fabric-mixed")]))


def hooked(hook: str, *items: Item) -> list[Item]:
    """What happens in a hook, before the trainer's own work."""
    return [
        engine_call(f"hook {hook}", library="lightning"),
        *items,
        engine_call(f"end {hook}", library="lightning"),
        *own_backward(),
        raw_step(),
        zero(),
    ]


def test_what_hooks_do() -> None:
    roles = [owned("lightning")]
    assert found(trace(loop(hooked("training_step", raw_step())), roles=roles)) == ["AMP701 Step"]
    assert found(trace(loop(hooked("training_step", backward())), roles=roles)) == ["AMP701 Backward"]
    assert not found(trace(loop(hooked("on_after_backward", backward())), roles=roles))
    assert not found(trace(loop(hooked("training_step")), roles=roles))
    assert not found(trace(loop(hooked("training_step", raw_step())), roles=[owned("")]))
