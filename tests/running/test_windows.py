"""Which number is the window's length K, how it is run, and which numbers are something else."""

from __future__ import annotations

import pytest

from ampcheck.events import Backward, Clip, ScheduleStep, Step, ZeroGrad
from ampcheck.trace import Window
from tests.running.derived import derive, loop, micros, only, training, units

ACCUMULATED = """
    (model(x).mean() / {k}).backward()
    if (i + 1) % {k} == 0:
        optimizer.step()
        optimizer.zero_grad()
"""


def window(source: str) -> Window:
    found = only(derive(source)).window
    assert found is not None
    return found


@pytest.mark.parametrize("literal", [2, 4, 8, 32])
def test_a_literal_up_to_32_is_run_as_it_stands(literal: int) -> None:
    trace = only(derive(loop(ACCUMULATED.format(k=literal))))
    assert trace.window is not None
    assert (trace.window.length, trace.window.text, trace.window.literal) == (literal, str(literal), True)
    assert micros(trace, Backward) == list(range(2 * literal + 1))
    assert micros(trace, Step) == [literal - 1, 2 * literal - 1]


@pytest.mark.parametrize("literal", [33, 64, 1024])
def test_a_larger_literal_is_run_as_three(literal: int) -> None:
    trace = only(derive(loop(ACCUMULATED.format(k=literal))))
    assert trace.window is not None
    assert (trace.window.length, trace.window.text, trace.window.literal) == (3, str(literal), True)
    assert micros(trace, Step) == [2, 5]


def test_a_named_constant_keeps_its_name() -> None:
    source = "ACCUM_STEPS = 4\n\n" + loop(ACCUMULATED.format(k="ACCUM_STEPS"), arguments="_")
    found = window(source)
    assert (found.length, found.text, found.literal) == (4, "ACCUM_STEPS", True)


@pytest.mark.parametrize(
    "spelling", ["args.accum", "cfg['k']", "self_k", "config.optim.gradient_accumulation_steps"]
)
def test_a_length_that_the_code_does_not_know_is_a_symbol(spelling: str) -> None:
    found = window(loop(ACCUMULATED.format(k=spelling), arguments="args, cfg, self_k, config"))
    assert (found.length, found.literal) == (3, False)


def test_a_default_does_not_make_it_known() -> None:
    source = loop(ACCUMULATED.format(k="k"), arguments="k=8")
    found = window(source)
    assert (found.length, found.text, found.literal) == (3, "k", False)


@pytest.mark.parametrize(
    ("gated", "how"),
    [
        ("optimizer.step()\noptimizer.zero_grad()", "step"),
        ("optimizer.zero_grad()", "zero"),
    ],
)
def test_a_modulus_that_guards_a_step_or_a_zero_is_a_window(gated: str, how: str) -> None:
    lines = gated.replace("\n", "\n    ")
    found = window(loop(f"model(x).mean().backward()\nif (i + 1) % n == 0:\n    {lines}", arguments="n"))
    assert found.text == "n"
    assert how in found.declared


def test_a_modulus_that_guards_only_logging_is_a_varying_test() -> None:
    body = """
        model(x).mean().backward()
        if i % log_every == 0:
            norm = clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad()
    """
    explored = derive(loop(body, arguments="log_every"))
    assert all(trace.window is None for trace in explored.traces)
    clipped = [micros(trace, Clip) for trace in explored.traces]
    assert [] in clipped
    assert [0, 1, 2] in clipped
    for trace in explored.traces:
        for record, _ in trace.of(Clip):
            assert [(g.text, g.varying, g.boundary) for g in record.guards] == [
                ("i % log_every == 0", True, False)
            ]


def test_a_modulus_that_guards_a_print_is_no_test_at_all() -> None:
    body = """
        model(x).mean().backward()
        if i % log_every == 0:
            print(i)
        optimizer.step()
        optimizer.zero_grad()
    """
    assert only(derive(loop(body, arguments="log_every"))).window is None


def test_one_of_two_moduli_is_the_window() -> None:
    body = """
        (model(x).mean() / k).backward()
        if (i + 1) % k == 0:
            optimizer.step()
            optimizer.zero_grad()
        if (i + 1) % eval_every == 0:
            norm = clip_grad_norm_(model.parameters(), 1.0)
    """
    explored = derive(loop(body, arguments="k, eval_every"))
    for trace in explored.traces:
        assert trace.window is not None
        assert trace.window.text == "k"
        assert micros(trace, Step) == [2, 5]


def test_training_a_generator_on_every_fifth_batch_is_no_window() -> None:
    source = """
        def train(generator, critic, loader, n_critic):
            optimizer_g = torch.optim.Adam(generator.parameters())
            optimizer_d = torch.optim.Adam(critic.parameters())
            for i, x in enumerate(loader):
                optimizer_d.zero_grad()
                critic(x).mean().backward()
                optimizer_d.step()
                if i % n_critic == 0:
                    optimizer_g.zero_grad()
                    generator(x).mean().backward()
                    optimizer_g.step()
    """
    explored = derive(source)
    assert all(trace.window is None for trace in explored.traces)
    assert len({tuple(micros(trace, Step)) for trace in explored.traces}) > 1


def test_no_accumulation_declares_no_window() -> None:
    body = "model(x).mean().backward()\noptimizer.step()\noptimizer.zero_grad()"
    trace = only(derive(loop(body)))
    assert trace.window is None
    assert micros(trace, Step) == micros(trace, Backward) == [0, 1, 2]


@pytest.mark.parametrize(
    ("division", "unit"),
    [
        ("(model(x).mean() / k).backward()", "1 / K"),
        ("loss = model(x).mean()\nloss /= k\nloss.backward()", "1 / K"),
        ("loss = model(x).mean()\nloss = loss * (1 / k)\nloss.backward()", "1 / K"),
        ("loss = model(x).mean()\nloss = loss * (1.0 / k)\nloss.backward()", "1 / K"),
        ("(model(x).mean().div(k)).backward()", "1 / K"),
        ("torch.div(model(x).mean(), k).backward()", "1 / K"),
        ("model(x).mean().backward()", "1"),
        ("loss = model(x).mean() / k\nloss = loss / k\nloss.backward()", "1 / K²"),
        ("loss = model(x).mean() / k\n(loss * k).backward()", "1"),
        ("loss = model(x).mean() / k\nprint(loss * k)\nloss.backward()", "1 / K"),
        ("loss = model(x).mean()\nshown = loss / k\nloss.backward()", "1"),
        ("loss = 0.5 * model(x).mean() / k\nloss.backward()", "1 / K"),
        ("loss = model(x).mean() / k + model(y).mean() / k\nloss.backward()", "1 / K"),
        ("loss = model(x).mean() / k + model(y).mean()\nloss.backward()", "1 / K + 1"),
    ],
)
def test_divisions_of_the_loss(division: str, unit: str) -> None:
    body = f"{division}\nif (i + 1) % k == 0:\n    optimizer.step()\n    optimizer.zero_grad()"
    trace = only(derive(loop(body)))
    assert units(trace) == [unit]
    assert trace.window is not None
    assert ("division" in trace.window.declared) == ("K" in unit)


@pytest.mark.parametrize(
    ("scaling", "unit"),
    [
        ("scaler.scale(loss / k).backward()", "S / K"),
        ("(scaler.scale(loss) / k).backward()", "S / K"),
        ("scaled = scaler.scale(loss)\nscaled = scaled / k\nscaled.backward()", "S / K"),
        ("scaler.scale(loss).backward()", "S"),
        ("scaler.scale(scaler.scale(loss)).backward()", "S²"),
        ("(loss * scaler.get_scale()).backward()", "S"),
        ("scaled = scaler.scale(loss)\nloss.backward()", "1"),
        ("loss = loss + scaler.scale(loss)\nloss.backward()", "1 + S"),
    ],
)
def test_units_of_scaled_losses(scaling: str, unit: str) -> None:
    gate = "if (i + 1) % k == 0:\n    scaler.step(optimizer)\n    scaler.update()\n    optimizer.zero_grad()"
    trace = only(derive(training(f"loss = model(x).mean()\n{scaling}\n{gate}")))
    assert units(trace) == [unit]


def test_a_divisor_that_is_neither_window_nor_world_is_other() -> None:
    body = """
        loss = model(x).sum() / y.ne(0).sum()
        loss.backward()
        if (i + 1) % k == 0:
            optimizer.step()
            optimizer.zero_grad()
    """
    trace = only(derive(loop(body)))
    (unit,) = {part for _, backward in trace.of(Backward) for part in backward.loss.parts}
    assert unit.window == 0
    assert unit.other


@pytest.mark.parametrize("world", ["world_size", "torch.distributed.get_world_size()", "args.num_gpus"])
def test_the_world_size_is_a_unit_of_its_own(world: str) -> None:
    body = f"(model(x).mean() / {world}).backward()\noptimizer.step()\noptimizer.zero_grad()"
    assert units(only(derive(loop(body, arguments="world_size, args")))) == ["1 / W"]


def test_the_same_literal_for_loop_and_division_is_the_window() -> None:
    source = """
        def train(model, batches, steps):
            optimizer = torch.optim.SGD(model.parameters(), 0.1)
            for step in range(steps):
                for _ in range(4):
                    (model(next(batches)).mean() / 4).backward()
                optimizer.step()
                optimizer.zero_grad()
    """
    trace = only(derive(source))
    assert trace.window is not None
    assert (trace.window.length, trace.window.literal) == (4, True)
    assert micros(trace, Step) == [3, 7]


def test_a_loss_summed_over_the_window_has_one_backward() -> None:
    source = """
        def train(model, batches, k, steps):
            optimizer = torch.optim.SGD(model.parameters(), 0.1)
            for step in range(steps):
                total = 0
                for _ in range(k):
                    total = total + model(next(batches)).mean()
                (total / k).backward()
                optimizer.step()
                optimizer.zero_grad()
    """
    trace = only(derive(source))
    assert len(micros(trace, Backward)) == len(micros(trace, Step)) == len(micros(trace, ZeroGrad))


def test_a_schedule_at_the_boundary() -> None:
    body = """
        (model(x).mean() / k).backward()
        if (i + 1) % k == 0:
            optimizer.step()
            optimizer.zero_grad()
        if (i + 1) % k == 0:
            scheduler.step()
    """
    before = "scheduler = torch.optim.lr_scheduler.OneCycleLR(optimizer, 0.1, total_steps=10)"
    trace = only(derive(loop(body, before=before)))
    assert micros(trace, ScheduleStep) == [2, 5]
    assert trace.window is not None
    assert "schedule" in trace.window.declared
    assert [event.counts for _, event in trace.of(ScheduleStep)] == ["updates", "updates"]
