"""Iterators over parameters: who goes through them, and what is left for a clip."""

from __future__ import annotations

import pytest

from ampcheck.events import Autocast, Backward, Clip, Read
from tests.running.derived import derive, loop, only

STEP = "optimizer.step()\noptimizer.zero_grad()"
BODY = f"model(x).mean().backward()\nclip_grad_norm_(params, 1.0)\n{STEP}"


def exhausted(body: str, before: str) -> list[int | None]:
    """For each clip, the line that has consumed its iterator."""
    trace = only(derive(loop(body, before=before)))
    return [clip.exhausted.line if clip.exhausted else None for _, clip in trace.of(Clip)]


ITERATORS = [
    "model.parameters()",
    "filter(lambda p: p.requires_grad, model.parameters())",
    "(p for p in model.parameters() if p.requires_grad)",
    "itertools.chain(model.parameters())",
    "itertools.chain([], model.parameters())",
    "map(lambda q: q[1], model.named_parameters())",
    "iter(model.parameters())",
]


@pytest.mark.parametrize("iterator", ITERATORS)
def test_the_first_clip_takes_all(iterator):
    lines = exhausted(BODY, f"params = {iterator}")
    assert lines[0] is None
    assert len(set(lines[1:])) == 1
    assert lines[1] is not None


CONSUMED = [
    "optimizer = torch.optim.SGD(params, 0.1)",
    'optimizer = torch.optim.SGD([{"params": params}], 0.1)',
    "optimizer = torch.optim.SGD(list(params), 0.1)",
    "optimizer = torch.optim.SGD([*params], 0.1)",
    "alias = params\nkept = tuple(alias)\noptimizer = torch.optim.SGD(kept, 0.1)",
    "rate = sum(p.numel() for p in params)\noptimizer = torch.optim.SGD(model.parameters(), rate)",
    "trainable = filter(lambda p: p.requires_grad, params)\noptimizer = torch.optim.SGD(trainable, 0.1)",
    "for p in params:\n    p.requires_grad_(True)",
]


@pytest.mark.parametrize("use", CONSUMED)
def test_consumed_before_training(use):
    lines = exhausted(BODY, f"params = model.parameters()\n{use}")
    assert lines
    assert all(lines)


KEPT = [
    "list(model.parameters())",
    "[p for p in model.parameters() if p.requires_grad]",
    "[*model.parameters()]",
    "tuple(filter(lambda p: p.requires_grad, model.parameters()))",
]


@pytest.mark.parametrize("made", KEPT)
def test_lists_can_be_gone_through_again(made):
    lines = exhausted(BODY, f"params = {made}\nfor p in params:\n    p.requires_grad_(True)")
    assert lines == [None] * len(lines)


def test_a_generator_that_is_not_gone_through_consumes_nothing():
    before = "params = model.parameters()\nlater = (p for p in params)"
    assert exhausted(BODY, before)[0] is None


def test_an_optimizer_has_lists():
    body = f"model(x).mean().backward()\nclip_grad_norm_(optimizer.param_groups[0]['params'], 1.0)\n{STEP}"
    lines = exhausted(body, "params = model.parameters()")
    assert lines == [None] * len(lines)


def test_a_chain_with_something_left_is_not_empty():
    before = "first, second = model.parameters(), head.parameters()\nkept = list(first)"
    body = f"head(model(x)).mean().backward()\nclip_grad_norm_(itertools.chain(first, second), 1.0)\n{STEP}"
    assert exhausted(body, before)[0] is None


def test_a_measurement_of_nothing():
    before = "params = model.parameters()\noptimizer = torch.optim.SGD(params, 0.1)"
    body = f"model(x).mean().backward()\nclip_grad_norm_(params, float('inf'))\n{STEP}"
    trace = only(derive(loop(body, before=before)))
    reads = [read.exhausted for _, read in trace.of(Read)]
    assert reads
    assert all(reads)


# --- autocast ---


@pytest.mark.parametrize(
    ("spelled", "dtype"),
    [
        ('torch.autocast("cuda")', "float16"),
        ('torch.autocast("cuda:0", torch.bfloat16)', "bfloat16"),
        ('torch.autocast("cpu")', "bfloat16"),
        ("torch.autocast(device)", ""),
        ("torch.cuda.amp.autocast()", "float16"),
        ("torch.cuda.amp.autocast(True, torch.bfloat16)", "bfloat16"),
        ('torch.autocast("cuda", dtype=dtype)', ""),
    ],
)
def test_what_autocast_casts_to(spelled, dtype):
    body = f"with {spelled}:\n    loss = model(x).mean()\nloss.backward()\n{STEP}"
    trace = only(derive(loop(body)))
    assert {cast.dtype for _, cast in trace.of(Autocast)} == {dtype}
    passes = {f.autocast for _, b in trace.of(Backward) for f in b.loss.forwards}
    assert passes == {dtype or "?"}
    assert {b.autocast for _, b in trace.of(Backward)} == {""}


def test_autocast_that_is_off():
    body = (
        'with torch.autocast("cuda"):\n    with torch.autocast("cuda", enabled=False):\n'
        f"        loss = model(x).mean()\n    loss.backward()\n{STEP}"
    )
    trace = only(derive(loop(body)))
    assert {f.autocast for _, b in trace.of(Backward) for f in b.loss.forwards} == {""}
    assert {b.autocast for _, b in trace.of(Backward)} == {"float16"}
