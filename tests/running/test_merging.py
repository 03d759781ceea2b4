"""Branches with equal effects are no choice; those that differ in what an event can see are one."""

from __future__ import annotations

import pytest

from ampcheck.events import Backward
from tests.running.derived import derive, logged, loop, only, units

AFTER = "loss.backward()\noptimizer.step()\noptimizer.zero_grad()"
EQUAL = {
    "data": "if flag:\n    x = x.cuda()\nelse:\n    x = x.cpu()\nloss = model(x).mean()",
    "one arm": "if flag:\n    x = x * 2\nloss = model(x).mean()",
    "losses of one unit": "if flag:\n    loss = model(x).mean()\nelse:\n    loss = model(x).mean() * 0.5",
    "a conditional expression": "loss = model(x).mean() if flag else model(x + 1).mean()",
    "a number": "n = 1 if flag else 1\nloss = model(x).mean() * n",
    "strings": "mode = 'a'\nif flag:\n    mode = 'a'\nloss = model(x).mean()",
    "tuples": "a, b = (x, y) if flag else (y, x)\nloss = model(a).mean()",
    "nested": (
        "if flag:\n    if args.a:\n        x = x + 1\n    else:\n        x = x - 1\nloss = model(x).mean()"
    ),
    "strings in both arms": (
        "if flag:\n    mode = 'a'\nelse:\n    mode = 'a'\nloss = model(x).mean() * len(mode)"
    ),
    "truths": (
        "if flag:\n    ready = True\nelse:\n    ready = True\nloss = model(x).mean() if ready else None"
    ),
    "one optimizer": "which = optimizer if flag else optimizer\nloss = model(x).mean()\nwhich.zero_grad()",
    "one model": "net = model if flag else model\nloss = net(x).mean()",
    "imported names": "f = torch.abs if flag else torch.abs\nloss = f(model(x)).mean()",
    "a list of losses": "losses = [model(x).mean()] if flag else [model(y).mean()]\nloss = sum(losses)",
    "reductions": "loss = model(x).mean() if flag else model(x).sum()",
    "no effect": "if flag:\n    pass\nloss = model(x).mean()",
    "the same list": "pair = [x, y] if flag else [x, x]\nloss = model(pair[0]).mean()",
}
DIFFERENT = {
    "units": "loss = model(x).mean()\nif flag:\n    loss = loss / world_size",
    "an event": "loss = model(x).mean()\nif flag:\n    clip_grad_norm_(model.parameters(), 1.0)",
    "a jump": "loss = model(x).mean()\nif flag:\n    continue",
    "detached": "loss = model(x).mean() if flag else model(x).detach().mean()",
    "models": "loss = (model(x) if flag else other(x)).mean()",
    "None": (
        "loss = model(x).mean()\nclip = 1.0 if flag else None\nif clip is not None:\n"
        "    clip_grad_norm_(model.parameters(), clip)"
    ),
    "numbers": "loss = model(x).mean()\nn = 1 if flag else 2\nif n == 2:\n    loss.backward()",
}
BEFORE = "other.train()\nopt_b = torch.optim.SGD(other.parameters(), 0.1)"


@pytest.mark.parametrize("branch", EQUAL.values(), ids=EQUAL)
def test_equal_effects_make_one_run(branch: str) -> None:
    trace = only(derive(loop(f"{branch}\n{AFTER}", arguments="flag, args")))
    assert logged(trace) == []
    assert units(trace) == ["1"]


@pytest.mark.parametrize("branch", DIFFERENT.values(), ids=DIFFERENT)
def test_different_effects_make_two(branch: str) -> None:
    explored = derive(loop(f"{branch}\n{AFTER}", before=BEFORE, arguments="flag, other, world_size"))
    assert {tuple(logged(trace)) for trace in explored.traces} == {("flag",), ("not flag",)}


def test_a_trial_leaves_no_trace_in_memory() -> None:
    """The first arm binds `loss` before it turns out that the second does more: it must not see the binding."""
    body = """
        loss = model(x).mean()
        if flag:
            loss = loss / world_size
        else:
            optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    """
    explored = derive(loop(body, arguments="flag, world_size"))
    found = {logged(trace)[0]: units(trace) for trace in explored.traces}
    assert found == {"flag": ["1 / W"], "not flag": ["1"]}


def test_a_list_in_a_branch_is_not_filled_by_the_trial() -> None:
    body = """
        losses = [model(x).mean()]
        if flag:
            losses.append(model(y).mean() / world_size)
        sum(losses).backward()
        optimizer.step()
        optimizer.zero_grad()
    """
    explored = derive(loop(body, arguments="flag, world_size"))
    found = {logged(trace)[0]: units(trace) for trace in explored.traces}
    assert found == {"flag": ["1 + 1 / W"], "not flag": ["1"]}


def test_attributes_and_items_are_restored_too() -> None:
    body = """
        state.loss = model(x).mean()
        held = {"loss": state.loss}
        if flag:
            state.loss = state.loss / world_size
            held["loss"] = state.loss
        held["loss"].backward()
        state.loss.backward()
        optimizer.step()
        optimizer.zero_grad()
    """
    explored = derive(loop(body, arguments="flag, world_size, state"))
    found = {logged(trace)[0]: units(trace) for trace in explored.traces}
    assert found == {"flag": ["1 / W"], "not flag": ["1"]}


def test_a_choice_within_the_loop_that_is_settled_outside_needs_no_second_run() -> None:
    body = f"loss = model(x).mean()\nif flag:\n    loss = loss / world_size\n{AFTER}"
    explored = derive(loop(body, before="if not flag:\n    return", arguments="flag, world_size"))
    stepping = [trace for trace in explored.traces if any(trace.of(Backward))]
    assert [logged(trace) for trace in stepping] == [["flag"]]
