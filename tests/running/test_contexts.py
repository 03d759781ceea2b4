"""Contexts and hooks: code that runs around a block, or with each backward."""

from __future__ import annotations

import pytest

from ampcheck.events import Autocast, Backward, Clip, Edit, Step
from tests.running.derived import derive, loop, micros, only, story, training, usual

SYNCED = """
    def train(model, loader, k):
        model = DDP(model)
        optimizer = torch.optim.SGD(model.parameters(), 0.1)
        for i, (x, y) in enumerate(loader):
            last = (i + 1) % k == 0
{block}
            if last:
                optimizer.step()
                optimizer.zero_grad()
"""
FORWARD_BACKWARD = "(model(x).mean() / k).backward()"
CONTEXTS = {
    "a conditional expression": f"with nullcontext() if last else model.no_sync():\n    {FORWARD_BACKWARD}",
    "the other way round": f"with model.no_sync() if not last else nullcontext():\n    {FORWARD_BACKWARD}",
    "a variable": (
        f"context = model.no_sync if not last else nullcontext\nwith context():\n    {FORWARD_BACKWARD}"
    ),
    "an if": (
        f"if last:\n    {FORWARD_BACKWARD}\nelse:\n    with model.no_sync():\n        {FORWARD_BACKWARD}"
    ),
    "an ExitStack": (
        "with ExitStack() as stack:\n    if not last:\n        stack.enter_context(model.no_sync())\n    "
        + FORWARD_BACKWARD
    ),
    "a switch": f"model.require_backward_grad_sync = last\n{FORWARD_BACKWARD}",
    "FSDP2's switch": f"model.set_requires_gradient_sync(last)\n{FORWARD_BACKWARD}",
    "two contexts": (
        'with autocast("cuda"), (nullcontext() if last else model.no_sync()):\n    ' + FORWARD_BACKWARD
    ),
}


@pytest.mark.parametrize("block", CONTEXTS.values(), ids=CONTEXTS)
def test_all_but_the_last_backward_unsynchronised(block: str) -> None:
    indented = "\n".join(" " * 12 + line for line in block.split("\n"))
    trace = only(derive(SYNCED.format(block=indented)))
    assert micros(trace, Step) == [2, 5]
    synced = {b.micro: b.synced for _, b in trace.of(Backward)}
    assert synced == {0: False, 1: False, 2: True, 3: False, 4: False, 5: True, 6: False}
    assert all(f.wrapper == "ddp" for _, b in trace.of(Backward) for f in b.loss.forwards)
    assert trace.window is not None


def test_no_sync_around_the_backward_alone_leaves_the_forward_synchronised() -> None:
    body = """
        loss = model(x).mean()
        with model.no_sync():
            loss.backward()
        optimizer.step()
        optimizer.zero_grad()
    """
    trace = only(derive(loop(body, before="model = DDP(model)")))
    for _, event in trace.of(Backward):
        assert not event.synced
        assert [f.synced for f in event.loss.forwards] == [True]


def test_no_sync_ends_with_its_block() -> None:
    body = """
        with model.no_sync():
            model(x).mean().backward()
        model(y).mean().backward()
        optimizer.step()
        optimizer.zero_grad()
    """
    trace = only(derive(loop(body, before="model = DDP(model)")))
    assert [b.synced for _, b in trace.of(Backward)][:2] == [False, True]


@pytest.mark.parametrize(
    ("context", "dtypes"),
    [
        ('autocast("cuda")', ["float16"]),
        ("torch.cuda.amp.autocast()", ["float16"]),
        ('autocast("cuda", dtype=torch.bfloat16)', ["bfloat16"]),
        ('torch.autocast("cuda", torch.half)', ["float16"]),
        ('autocast("cuda", enabled=False)', []),
        ("nullcontext()", []),
    ],
)
def test_autocast_regions(context: str, dtypes: list[str]) -> None:
    body = (
        f"with {context}:\n    loss = model(x).mean()\nloss.backward()\noptimizer.step()\n"
        "optimizer.zero_grad()"
    )
    trace = only(derive(loop(body)))
    assert list(dict.fromkeys(event.dtype for _, event in trace.of(Autocast))) == dtypes


def test_an_unknown_precision_is_no_precision() -> None:
    body = (
        'with autocast("cuda", dtype=dtype):\n    loss = model(x).mean()\nloss.backward()\noptimizer.step()'
    )
    trace = usual(derive(loop(body, arguments="dtype")))
    assert {event.dtype for _, event in trace.of(Autocast)} == {""}


def test_a_context_manager_of_the_project_is_entered() -> None:
    source = """
        class Accumulate:
            def __enter__(self):
                return self
            def __exit__(self, *args):
                pass

        def train(model, loader):
            optimizer = torch.optim.SGD(model.parameters(), 0.1)
            for x, y in loader:
                with Accumulate() as a, torch.enable_grad():
                    model(x).mean().backward()
                optimizer.step()
                optimizer.zero_grad()
    """
    assert story(only(derive(source)), 0) == "backward step zero"


def test_a_tensor_hook_runs_with_each_backward() -> None:
    before = "for p in model.parameters():\n    p.register_hook(lambda grad: grad.clamp(-1, 1))"
    body = (
        "scaler.scale(model(x).mean()).backward()\nscaler.step(optimizer)\nscaler.update()\n"
        "optimizer.zero_grad()"
    )
    trace = only(derive(training(body, before=before)))
    assert story(trace, 0) == "backward clip step update zero"
    clip = next(event for _, event in trace.of(Clip))
    assert (clip.style, clip.by, clip.owners) == ("value", "hook", ("optimizer",))


def test_a_named_hook() -> None:
    source = """
        def noise(grad):
            return grad + 0.1

        def train(model, loader):
            optimizer = torch.optim.SGD(model.parameters(), 0.1)
            for p in model.parameters():
                p.register_hook(noise)
            for x, y in loader:
                model(x).mean().backward()
                optimizer.step()
                optimizer.zero_grad()
    """
    trace = only(derive(source))
    assert story(trace, 0) == "backward edit step zero"
    assert {event.effect for _, event in trace.of(Edit)} == {"shift"}


def test_an_optimizer_in_a_post_accumulate_hook_steps_with_each_backward() -> None:
    source = """
        def train(model, loader):
            optimizers = {p: torch.optim.SGD([p], 0.1) for p in model.parameters()}

            def hook(parameter):
                optimizers[parameter].step()
                optimizers[parameter].zero_grad()

            for p in model.parameters():
                p.register_post_accumulate_grad_hook(hook)
            for x, y in loader:
                model(x).mean().backward()
    """
    assert story(only(derive(source)), 0) == "backward step zero"
