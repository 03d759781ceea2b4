"""Steps through a scaler: their closures, what they return, and scalers that are built again and again."""

from __future__ import annotations

import pytest

from ampcheck.events import Backward, Build, ResultTest, Step
from tests.running.derived import dedented, derive, story, training, usual

SCALED = "scaler.scale(model(x).mean()).backward()\n"


@pytest.mark.parametrize(
    ("argument", "passed", "closure"),
    [
        ("closure=again", "keyword", True),
        ("again", "positional", True),
        ("functools.partial(again)", "positional", True),
        ("None", "", False),
        ("maybe", "", True),
    ],
)
def test_closures(argument: str, passed: str, closure: bool) -> None:
    body = SCALED + (
        "def again():\n    optimizer.zero_grad()\n    scaler.scale(model(x).mean()).backward()\n"
        f"scaler.step(optimizer, {argument})\nscaler.update()"
    )
    trace = usual(derive(training(body, arguments="maybe")))
    assert {(e.passed, e.closure) for _, e in trace.of(Step)} == {(passed, closure)}
    assert len(list(trace.of(Backward))) == (6 if passed else 3)


@pytest.mark.parametrize(
    "test",
    [
        "if scaler.step(optimizer):\n    scheduler.step()",
        "done = scaler.step(optimizer)\nif done is None:\n    scheduler.step()",
        "done = scaler.step(optimizer)\nif not done:\n    scheduler.step()",
        "done = scaler.step(optimizer) is not None\nif done:\n    scheduler.step()",
        "if (done := scaler.step(optimizer)) != None:\n    scheduler.step()",
    ],
)
def test_results_that_are_tested(test: str) -> None:
    before = "scheduler = torch.optim.lr_scheduler.StepLR(optimizer, 1)"
    trace = usual(derive(training(SCALED + test + "\nscaler.update()", before=before)))
    assert {(e.scaler, e.optimizer) for _, e in trace.of(ResultTest)} == {("scaler", "optimizer")}
    advances = "is None" in test or "not done" in test
    assert story(trace, 0).count("schedule") == advances


def test_results_that_are_not() -> None:
    trace = usual(derive(training(SCALED + "done = scaler.step(optimizer)\nscaler.update()")))
    assert not any(trace.of(ResultTest))


EPOCH = """
    def train(model, loader, optimizer, {argument}):
        scaler = GradScaler("cuda")
        for x, y in loader:
            optimizer.zero_grad()
            scaler.scale(model(x).mean()).backward()
            scaler.step(optimizer)
            scaler.update()
"""


@pytest.mark.parametrize(
    ("argument", "times"),
    [("epoch", 2), ("cur_epoch=0", 2), ("epochs", 1), ("num_epoch", 1), ("start_epoch", 1)],
)
def test_who_is_told_the_epoch_is_called_again(argument: str, times: int) -> None:
    trace = usual(derive(dedented(EPOCH.format(argument=argument))))
    assert len(list(trace.of(Build))) == times
    assert {r.epoch for r, _ in trace.of(Step)} == set(range(times))
    assert trace.roles["optimizer"].given
    assert not trace.repeated
