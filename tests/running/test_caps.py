"""Caps are counts, so that verdicts do not depend on the machine; one that is reached is said, never hidden."""

from __future__ import annotations

import pytest

from ampcheck.events import Step
from ampcheck.running import exploring
from tests.running.derived import dedented, derive, loop, micros, training

OPTIONS = "\n".join(
    f"if args.option_{i}:\n    clip_grad_norm_(model.parameters(), 1.0)\nelse:\n    optimizer.zero_grad()"
    for i in range(16)
)

# 15³ backwards a micro-batch, more than a run may hold.
FIFTEEN = list(range(15))
MANY = (
    f"for a in {FIFTEEN}:\n    for b in {FIFTEEN}:\n        for c in {FIFTEEN}:\n"
    "            model(x).mean().backward()"
)


def test_too_many_combinations_are_cut_and_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(exploring, "MAX_RUNS", 16)
    explored = derive(loop(f"model(x).mean().backward()\n{OPTIONS}\noptimizer.step()", arguments="args"))
    (cut,) = explored.truncations
    assert cut.root == "train"
    assert cut.site.line == 2
    assert "16" in cut.why
    assert 1 < len(explored.traces) <= 16


def test_two_options_at_a_time_are_explored() -> None:
    """Sixteen options make no 2¹⁶ runs: a fault that needs three of them unusual is not looked for."""
    explored = derive(loop(f"model(x).mean().backward()\n{OPTIONS}\noptimizer.step()", arguments="args"))
    assert len(explored.traces) <= exploring.MAX_RUNS
    unusual = [sum(not g.holds for g in trace.choices) for trace in explored.traces]
    assert max(unusual) <= exploring.MAX_FLIPS


def test_too_many_events_end_a_run() -> None:
    body = f"{MANY}\noptimizer.step()"
    explored = derive(loop(body))
    assert [("events" in cut.why, cut.root) for cut in explored.truncations] == [(True, "train")]
    # What was seen until then is still a trace.
    assert explored.traces[0].records


def test_too_many_calls_end_a_run() -> None:
    source = """
        def leaf(model, x):
            return model

        def work(model, x):
            for a in range(8):
                for b in range(8):
                    for c in range(8):
                        for d in range(8):
                            leaf(model, x).zero_grad

    """
    body = "work(model, x)\nmodel(x).mean().backward()\noptimizer.step()"
    explored = derive(dedented(source) + loop(body))
    assert all("calls" in cut.why for cut in explored.truncations)
    assert len(explored.truncations) <= 1


def test_a_cap_is_said_once_for_each_root() -> None:
    body = f"{MANY}\nif flag:\n    optimizer.step()"
    explored = derive(loop(body, arguments="flag"))
    assert len(explored.truncations) == 1


def test_an_ordinary_loop_reaches_no_cap() -> None:
    body = (
        "scaler.scale(model(x).mean()).backward()\nscaler.step(optimizer)\nscaler.update()\n"
        "optimizer.zero_grad()"
    )
    explored = derive(training(body))
    assert not explored.truncations
    assert micros(explored.traces[0], Step) == [0, 1, 2]
