"""Whatever breaks in a replay makes a finding inconclusive, never confirmed, and the message says what broke.

One subprocess is given a fault of its own for each job; the same jobs without faults are confirmed at the end.
"""

from __future__ import annotations

import sys

import pytest

from ampcheck.finding import Replay
from ampcheck.replay import process
from ampcheck.trace import Role
from tests.replay.faulty_loops import FAULTS
from tests.replay.oracles import Case, replayed
from tests.tracing import backward, build, clip, forward, loop, step, trace, unscale, update, zero

BROKEN_WORKER = """
import sys, contextlib
from unittest import mock
import torch.distributed as dist
from ampcheck.replay import machine, pair, ranks, worker

def fails(*_): raise RuntimeError("injected")

def absent(self, ops, run=machine.Machine.run):
    return None if self.rank == 1 else run(self, ops)

def instead(code): return lambda rank, store: (sys.executable, "-c", code)

FAULTS = [
    [],
    [(machine.Machine, "at_step", fails)],
    [(ranks._Exchange, "hook", fails)],
    [(dist, "is_gloo_available", lambda: False)],
    [(machine.Machine, "run", absent), (ranks, "PATIENCE", 0.5)],
    [(pair, "command", instead("import os; os.kill(os.getpid(), 9)"))],
    [(pair, "command", instead("import time; time.sleep(600)")), (pair, "LIMIT", 0.5)],
    [(pair, "command", instead("print('Segmentation fault')"))],
    [(pair, "command", instead("raise SystemExit('no memory')"))],
]
answer = worker._answer

def broken(data, bench):
    bench.done.clear()
    bench.close()
    with contextlib.ExitStack() as stack:
        for target, name, fault in FAULTS[data["id"]]:
            stack.enter_context(mock.patch.object(target, name, fault))
        found = answer(data, bench)
    bench.close()
    return found

worker._answer = broken
raise SystemExit(worker.main())
"""

CLIP = FAULTS["1 clip before unscale"]
RANKS = FAULTS["D2 no_sync on all"]
SHARDED = trace(
    loop(
        [backward(forwards=[forward(wrapper="fsdp1")]), unscale(), clip(), step(), update(), zero()],
        before=[build("model", "wrapper", "fsdp1"), build("optimizer", "optimizer")],
    ),
    roles=[
        Role("scaler", "scaler", "scaler", detail="ShardedGradScaler"),
        Role("optimizer", "optimizer", "optimizer", detail="torch.optim.AdamW", models=("model",)),
        Role("model", "model", "model", detail="fsdp1"),
    ],
)

CASES: dict[str, tuple[Case, str]] = {
    "nothing": ((CLIP.trace, CLIP.oracle), ""),
    "a step hook raises": (
        (CLIP.trace, ("exception", *CLIP.oracle)),
        "the hook on the optimizer's step: RuntimeError: injected",
    ),
    "a communication hook raises": ((RANKS.trace, RANKS.oracle), "the ranks of the replay did not meet: "),
    "no gloo": ((RANKS.trace, RANKS.oracle), "this torch has no gloo"),
    "a rank stays away": ((RANKS.trace, RANKS.oracle), "did not meet: one waited for the other in vain"),
    "a shard is killed": ((SHARDED, ("shards",)), "a process with a shard was killed (-9)"),
    "a shard hangs": (
        (SHARDED, ("shards",)),
        "the processes with shards took more than 0.5 s and were stopped",
    ),
    "a shard talks": ((SHARDED, ("shards",)), "a process with a shard "),
    "a shard ends": ((SHARDED, ("shards",)), "a process with a shard ended (1)"),
}


@pytest.fixture(scope="module")
def replays() -> dict[str, Replay]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(process, "command", lambda: (sys.executable, "-c", BROKEN_WORKER))
        return replayed({name: case for name, (case, _) in CASES.items()})


@pytest.mark.parametrize("name", list(CASES)[1:])
def test_it_is_inconclusive_and_says_why(name, replays):
    assert replays[name].outcome == "inconclusive"
    assert replays[name].text.startswith("the replay itself failed: ")
    assert CASES[name][1] in replays[name].text


def test_the_process_goes_on(replays):
    assert replays["nothing"].outcome == "confirmed"


def test_without_the_faults_each_is_confirmed():
    distinct = ("nothing", "no gloo", "a shard ends")
    done = replayed({name: CASES[name][0] for name in distinct})
    assert {result.outcome for result in done.values()} == {"confirmed"}
