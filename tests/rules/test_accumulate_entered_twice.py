"""AMP315 on traces built by hand: an Accelerator counts its entries, not the batches."""

from __future__ import annotations

from ampcheck.registry import built_in
from ampcheck.trace import Role, Trace
from tests.tracing import Item, backward, boundary, engine_call, loop, step, trace, update, when, zero

OWNED = Role("optimizer", "optimizer", "optimizer", True, "torch.optim.SGD", ("model",), engine="accelerate")
ENTER = engine_call("accumulate", "scaler", library="accelerate")


def entering(times: int, window: int = 4) -> Trace:
    def body(i: int) -> list[Item]:
        at = boundary((times * (i + 1)) % window == 0)
        return [*[ENTER] * times, backward(divided=True), *when(at, step(), update(), zero())]

    return trace(loop(body, length=2 * window), window=window, roles=[OWNED])


def found(one: Trace) -> list[str]:
    """What all rules say of a trace: code and event."""
    return [
        f"{rule.code} {type(one.records[violation.record].event).__name__}"
        for rule in built_in()
        for violation in rule.check(one)
    ]


def test_two_entries_an_iteration() -> None:
    assert found(entering(2)) == ["AMP315 EngineCall"]


def test_one_entry() -> None:
    assert found(entering(1)) == []


def test_an_odd_window_comes_out_whole() -> None:
    assert "AMP315 EngineCall" not in found(entering(2, 3))
