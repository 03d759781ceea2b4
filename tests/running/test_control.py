"""Statements as Python runs them: loops and their else, while, try, match, walrus, jumps."""

from __future__ import annotations

import pytest

from ampcheck.events import Backward, Jump, Step, Unscale, Update
from tests.running.derived import derive, holding, loop, micros, only, story, training, usual

ONCE = "model(x).mean().backward()\noptimizer.step()\noptimizer.zero_grad()"


def nested(text: str, indent: int) -> str:
    return text.replace("\n", "\n" + " " * indent)


@pytest.mark.parametrize(
    ("ending", "stepped"),
    [("", [0, 1, 2, 2]), ("if i == 1:\n    break", [0, 1])],
    ids=["ran out", "broken"],
)
def test_a_loops_else_runs_unless_it_is_broken(ending: str, stepped: list[int]) -> None:
    source = loop(f"{ONCE}\n{ending}") + "    else:\n        optimizer.step()\n"
    assert micros(only(derive(source)), Step) == stepped


def test_code_after_the_loop_flushes_the_tail() -> None:
    body = (
        "(model(x).mean() / k).backward()\nif (i + 1) % k == 0:\n    optimizer.step()\n"
        "    optimizer.zero_grad()"
    )
    source = loop(body) + "    optimizer.step()\n    optimizer.zero_grad()\n"
    trace = only(derive(source))
    assert micros(trace, Step) == [2, 5, 6]
    assert [record.iteration for record, _ in trace.of(Step)] == [(2,), (5,), ()]


def test_a_break_ends_the_loop() -> None:
    trace = only(derive(loop(f"if i == 2:\n    break\n{ONCE}")))
    assert micros(trace, Step) == [0, 1]


def test_a_break_at_a_known_number_of_steps_leaves_no_choice() -> None:
    trace = only(derive(loop(f"{ONCE}\ncount += 1\nif count >= 2:\n    break", before="count = 0")))
    assert micros(trace, Step) == [0, 1]


def test_a_jump_under_a_choice_is_an_event_with_its_guards() -> None:
    body = f"loss = model(x).mean()\nif torch.isnan(loss):\n    continue\n{ONCE}"
    explored = derive(loop(body))
    jumps = [(r, e) for t in explored.traces for r, e in t.of(Jump)]
    assert jumps
    assert all(e.kind == "continue" and r.guards for r, e in jumps)
    assert not micros(usual(explored), Jump)


def test_an_unguarded_jump_is_none() -> None:
    assert not micros(only(derive(loop(f"{ONCE}\ncontinue"))), Jump)


def test_a_raise_in_the_loop_ends_the_run() -> None:
    body = f"loss = model(x).mean()\nif not math.isfinite(loss.item()):\n    raise RuntimeError\n{ONCE}"
    explored = derive(loop(body))
    assert micros(usual(explored), Step) == [0, 1, 2]
    raised = [t for t in explored.traces if any(t.of(Jump))]
    assert {e.kind for t in raised for _, e in t.of(Jump)} == {"raise"}
    assert all(t.records[-1].event.__class__ is Jump for t in raised)


@pytest.mark.parametrize(
    "body",
    [
        f"try:\n    {nested(ONCE, 4)}\nexcept RuntimeError:\n    optimizer.zero_grad()\n    continue",
        f"try:\n    {nested(ONCE, 4)}\nfinally:\n    pass",
        "try:\n    model(x).mean().backward()\nexcept ValueError:\n    pass\nelse:\n    optimizer.step()\n"
        "optimizer.zero_grad()",
        "try:\n    model(x).mean().backward()\n    optimizer.step()\nfinally:\n    optimizer.zero_grad()",
    ],
    ids=["except", "finally", "else", "work in finally"],
)
def test_the_body_of_a_try_runs_and_its_handlers_do_not(body: str) -> None:
    assert story(only(derive(loop(body))), 0) == "backward step zero"


def test_finally_runs_on_the_way_out() -> None:
    body = (
        "try:\n    model(x).mean().backward()\n    optimizer.step()\n    continue\nfinally:\n"
        "    optimizer.zero_grad()"
    )
    assert story(only(derive(loop(body))), 0) == "backward step zero"


def test_a_match_on_a_literal() -> None:
    body = """
        match args.mode:
            case "amp":
                scaler.scale(model(x).mean()).backward()
                scaler.step(optimizer)
                scaler.update()
            case "plain" | "cpu":
                model(x).mean().backward()
                optimizer.step()
            case _:
                raise ValueError
        optimizer.zero_grad()
    """
    explored = derive(training(body, arguments="args"))
    stories = {story(trace, 0) for trace in explored.traces}
    assert {"backward step update zero", "backward step zero"} <= stories
    assert stories <= {"backward step update zero", "backward step zero", ""}


def test_a_match_on_none() -> None:
    body = """
        match args.clip:
            case None:
                pass
            case _ as bound:
                scaler.unscale_(optimizer)
        scaler.scale(model(x).mean()).backward()
        scaler.step(optimizer)
        scaler.update()
    """
    explored = derive(training(body, arguments="args"))
    assert {len(micros(trace, Unscale)) for trace in explored.traces} == {0, 3}


def test_a_match_with_a_guard() -> None:
    body = f"""
        match args.mode:
            case mode if args.clip:
                clip_grad_norm_(model.parameters(), 1.0)
        {nested(ONCE, 8)}
    """
    explored = derive(loop(body, arguments="args"))
    assert [story(t, 0) for t in holding(explored, args_clip=True)] == ["clip backward step zero"]
    assert [story(t, 0) for t in holding(explored, args_clip=False)] == ["backward step zero"]


def test_a_walrus_binds() -> None:
    body = (
        "(loss := model(x).mean() / k).backward()\nif (last := (i + 1) % k == 0):\n"
        "    optimizer.step()\nif last:\n    optimizer.zero_grad()"
    )
    trace = only(derive(loop(body)))
    assert micros(trace, Step) == [2, 5]
    assert story(trace, 2) == "backward step zero"


def test_a_walrus_in_a_while() -> None:
    source = """
        def train(model, stream):
            optimizer = torch.optim.SGD(model.parameters(), 0.1)
            while (batch := next(stream, None)) is not None:
                model(batch).mean().backward()
                optimizer.step()
                optimizer.zero_grad()
    """
    trace = usual(derive(source))
    assert story(trace, 0) == "backward step zero"
    assert len(micros(trace, Step)) == 3


@pytest.mark.parametrize("test", ["while True:", "while step < total:", "while not done:", "while 1:"])
def test_a_while_loop_is_a_loop_over_batches(test: str) -> None:
    source = f"""
        def train(model, stream, total, done):
            optimizer = torch.optim.SGD(model.parameters(), 0.1)
            step = 0
            {test}
                model(next(stream)).mean().backward()
                optimizer.step()
                optimizer.zero_grad()
                step += 1
    """
    trace = usual(derive(source))
    assert micros(trace, Step) == [0, 1, 2]


def test_a_while_loop_with_a_known_end() -> None:
    source = """
        def train(model, stream):
            optimizer = torch.optim.SGD(model.parameters(), 0.1)
            step = 0
            while step < 2:
                model(next(stream)).mean().backward()
                optimizer.step()
                step += 1
    """
    assert micros(only(derive(source)), Step) == [0, 1]


@pytest.mark.parametrize("count", [0, 1, 2, 5])
def test_a_short_range_is_run_as_it_stands(count: int) -> None:
    source = f"""
        def train(model, batches):
            optimizer = torch.optim.SGD(model.parameters(), 0.1)
            for i in range({count}):
                model(batches[i]).mean().backward()
                optimizer.step()
                optimizer.zero_grad()
    """
    traces = derive(source).traces
    assert [len(micros(trace, Step)) for trace in traces] == [count]


def test_a_long_range_is_a_loop_over_batches() -> None:
    source = """
        def train(model, batches):
            optimizer = torch.optim.SGD(model.parameters(), 0.1)
            for i in range(100000):
                model(batches[i]).mean().backward()
                optimizer.step()
                optimizer.zero_grad()
    """
    assert len(micros(only(derive(source)), Step)) == 3


def test_a_range_with_a_stride_counts_in_strides() -> None:
    source = """
        def train(model, data, k):
            optimizer = torch.optim.SGD(model.parameters(), 0.1)
            for i in range(1, 1000, 1):
                (model(data[i]).mean() / k).backward()
                if i % k == 0:
                    optimizer.step()
                    optimizer.zero_grad()
    """
    assert micros(only(derive(source)), Step) == [2, 5]


def test_del_and_pass_and_global_do_nothing() -> None:
    source = """
        step = 0

        def train(model, loader):
            global step
            optimizer = torch.optim.SGD(model.parameters(), 0.1)
            for x, y in loader:
                loss = model(x).mean()
                loss.backward()
                del loss, y
                pass
                optimizer.step()
                optimizer.zero_grad()
    """
    assert story(only(derive(source)), 0) == "backward step zero"


def test_a_chained_assignment_binds_all() -> None:
    body = "loss = total = model(x).mean() / k\ntotal.backward()\nif (i + 1) % k == 0:\n    optimizer.step()"
    trace = only(derive(loop(body)))
    assert micros(trace, Step) == [2, 5]


def test_a_chained_comparison_is_a_conjunction() -> None:
    body = f"if 0 < i < 2:\n    continue\n{ONCE}"
    assert len(micros(only(derive(loop(body))), Backward)) == 2


def test_a_retried_batch_updates_once_more() -> None:
    body = """
        for attempt in range(2):
            scaler.scale(model(x).mean()).backward()
            scaler.step(optimizer)
            scaler.update()
            optimizer.zero_grad()
    """
    trace = only(derive(training(body)))
    assert (
        len(micros(trace, Update))
        == len(micros(trace, Backward))
        == 2 * len({r.iteration[0] for r, _ in trace.of(Update)})
    )
