"""Losses: their reduction, their unit, and what is no loss."""

from __future__ import annotations

import pytest

from ampcheck.events import (
    Backward,
    Escape,
    Step,
)
from tests.running.derived import derive, loop, micros, only, story, training, units, usual

STEP = "optimizer.step()\noptimizer.zero_grad()"


@pytest.mark.parametrize(
    ("loss", "reduction"),
    [
        ("nn.functional.cross_entropy(model(x), y)", "mean"),
        ("nn.functional.cross_entropy(model(x), y, reduction='sum')", "sum"),
        ("nn.CrossEntropyLoss()(model(x), y)", "mean"),
        ("nn.MSELoss(reduction='sum')(model(x), y)", "sum"),
        ("model(x).mean()", "mean"),
        ("model(x).sum()", "sum"),
        ("model(x)", "unknown"),
        ("model(x).loss", "mean"),
        ("nn.functional.cross_entropy(model(x), y, reduction='none').mean()", "mean"),
    ],
)
def test_reductions(loss: str, reduction: str) -> None:
    body = f"loss = {loss}\nloss.backward()\n{STEP}"
    event = next(b for _, b in usual(derive(loop(body, arguments="args"))).of(Backward))
    assert event.loss.reduction == reduction
    assert event.reaches == ("optimizer",)


@pytest.mark.parametrize(
    "loss",
    [
        "model(x).mean().float()",
        "model(x).mean() * 2",
        "2 * model(x).mean()",
        "sum([model(x).mean(), model(y).mean()])",
        "torch.stack([model(x), model(y)]).mean()",
        "model(x).mean() + 0.1",
        "model(x).mean().add(model(y).mean())",
        "model(x).mean() - model(y).mean()",
        "criterion(model(x), y)",
        "criterion(input=model(x), target=y)",
        "outputs_of(model, x).mean()",
        "model(x)['loss']",
        "model(x)[0]",
        "-model(x).mean()",
        "model.loss(x)",
        "model(x).mean() * weight",
        "functools.reduce(max, [model(x).mean()])",
        "sum(model(z).mean() for z in (x, y))",
    ],
)
def test_a_loss_of_the_plain_unit(loss: str) -> None:
    body = f"loss = {loss}\nloss.backward()\n{STEP}"
    trace = only(derive(loop(body, before="model.train()", arguments="criterion, outputs_of, weight")))
    assert units(trace) == ["1"]
    assert {b.reaches for _, b in trace.of(Backward)} == {("optimizer",)}


def test_several_losses_scaled_at_once() -> None:
    body = (
        "for loss in scaler.scale([model(x).mean(), model(y).mean()]):\n    loss.backward()\n"
        "scaler.step(optimizer)\nscaler.update()\noptimizer.zero_grad()"
    )
    trace = only(derive(training(body)))
    assert units(trace) == ["S"]


def test_torchs_own_backward() -> None:
    body = f"torch.autograd.backward([model(x).mean()])\n{STEP}"
    assert story(only(derive(loop(body))), 0) == "backward step zero"


def test_an_engines_backward_is_not_the_losses() -> None:
    body = f"engine.backward(model(x).mean())\n{STEP}"
    trace = usual(derive(loop(body, arguments="engine")))
    assert not micros(trace, Backward)
    assert micros(trace, Escape)


def test_a_loss_kept_over_iterations() -> None:
    body = """
        total = total + model(x).mean() / accum
        if (i + 1) % accum == 0:
            total.backward()
            optimizer.step()
            optimizer.zero_grad()
            total = 0
    """
    trace = only(derive(loop(body, before="total = 0", arguments="accum")))
    assert len(micros(trace, Backward)) == len(micros(trace, Step)) == 2
    assert units(trace) == ["1 / K"]


@pytest.mark.parametrize("pieces", ["torch.chunk(x, 4)", "x.chunk(4)", "x.tensor_split(4)"])
def test_chunks_are_a_window(pieces: str) -> None:
    body = f"for piece in {pieces}:\n    (model(piece).mean() / 4).backward()\n{STEP}"
    trace = only(derive(loop(body)))
    assert len(micros(trace, Backward)) >= len(micros(trace, Step)) > 0


def test_a_range_with_an_unknown_stride() -> None:
    source = """
        def train(model, batches, batch_size, micro_batch_size):
            optimizer = torch.optim.SGD(model.parameters(), 0.1)
            for batch in batches:
                for start in range(0, batch_size, micro_batch_size):
                    model(batch[start:start + micro_batch_size]).mean().backward()
                optimizer.step()
                optimizer.zero_grad()
    """
    trace = only(derive(source))
    assert len(micros(trace, Backward)) > len(micros(trace, Step)) > 0


@pytest.mark.parametrize(
    "bad",
    [
        "range()",
        "zip()",
        "enumerate()",
        "iter()",
        "len()",
        "max()",
        "int()",
        "sum()",
        "next()",
        "list()",
        "getattr(model)",
        "functools.partial()",
        "torch.div()",
        "filter(None)",
    ],
)
def test_calls_that_python_would_refuse_are_no_crash(bad: str) -> None:
    body = f"value = {bad}\nfor _ in {bad}:\n    value.backward()\nmodel(x).mean().backward()\n{STEP}"
    assert derive(loop(body)).traces
