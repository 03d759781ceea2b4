"""FSDP's faults on two real processes, each with a shard of every model."""

from __future__ import annotations

from ampcheck.rule import Observable
from ampcheck.trace import Role
from tests.replay.oracles import replayed
from tests.tracing import (
    Item,
    backward,
    build,
    clip,
    forward,
    loop,
    raw_step,
    step,
    trace,
    unscale,
    update,
    zero,
)

SHARDS: tuple[Observable, ...] = ("shards",)


def roles(scaler: str, wrapper: str) -> list[Role]:
    return [
        Role("scaler", "scaler", "scaler", detail=scaler),
        Role("optimizer", "optimizer", "optimizer", detail="torch.optim.AdamW", models=("model",)),
        Role("model", "model", "model", detail=wrapper),
    ]


def sharded(*body: Item, wrapper: str = "fsdp1", scaler: str = "ShardedGradScaler", late: bool = False):
    built = [build("model", "wrapper", wrapper), build("optimizer", "optimizer")]
    before = built[::-1] if late else built
    return trace(loop(list(body), before=before), roles=roles(scaler, wrapper))


def passes(scaler: str | None = "scaler", wrapper: str = "fsdp1") -> Item:
    return backward(scaler=scaler, forwards=[forward(wrapper=wrapper)])


UPDATE = (step(), update(), zero())
WRONG = {
    "207": sharded(passes(), unscale(), clip(), *UPDATE),
    "406": sharded(passes(), *UPDATE, scaler="GradScaler"),
    "409 FSDP1": sharded(passes(None), raw_step(), zero(), late=True),
    "409 FSDP2": sharded(passes(None, "fsdp2"), raw_step(), zero(), wrapper="fsdp2", late=True),
}
RIGHT = {
    "own clip": sharded(passes(), unscale(), clip(by="model"), *UPDATE),
    "sharded scaler": sharded(passes(), *UPDATE),
    "torch's clip under FSDP2": sharded(passes(wrapper="fsdp2"), unscale(), clip(), *UPDATE, wrapper="fsdp2"),
    "plain scaler under FSDP2": sharded(
        passes(wrapper="fsdp2"), *UPDATE, wrapper="fsdp2", scaler="GradScaler"
    ),
    "original parameters kept": sharded(
        passes(None), raw_step(), zero(), wrapper="fsdp1 use_orig_params", late=True
    ),
}


def test_two_processes_settle_each_case():
    done = replayed({name: (subject, SHARDS) for name, subject in {**WRONG, **RIGHT}.items()})
    outcomes = {name: (result.outcome, result.text) for name, result in done.items()}
    assert {n: o for n, (o, _) in outcomes.items()} == {
        **dict.fromkeys(WRONG, "confirmed"),
        **dict.fromkeys(RIGHT, "refuted"),
    }, outcomes
    assert "norm at step 1.4142 = √2·M, expected 1.0" in outcomes["207"][1]
    assert "loss scale 1.0 × S, expected 0.5 × S" in outcomes["406"][1]
    assert all("parameters 0.0, expected" in outcomes[name][1] for name in ("409 FSDP1", "409 FSDP2"))
