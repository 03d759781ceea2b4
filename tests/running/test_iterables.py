"""What loops run over: generators of the project, and everything that passes a loader's items on."""

from __future__ import annotations

import pytest

from ampcheck.events import Backward, Step
from tests.running.derived import derive, micros, only, story


def test_a_generator_of_micro_batches() -> None:
    source = """
        def micro_batches(loader):
            for x, y in loader:
                yield x

        def train(model, loader, k):
            optimizer = torch.optim.SGD(model.parameters(), 0.1)
            for i, x in enumerate(micro_batches(loader)):
                (model(x).mean() / k).backward()
                if (i + 1) % k == 0:
                    optimizer.step()
                    optimizer.zero_grad()
    """
    trace = only(derive(source))
    assert micros(trace, Backward) == list(range(7))
    assert micros(trace, Step) == [2, 5]


def test_a_generator_that_never_ends() -> None:
    source = """
        def forever(loader):
            while True:
                for x, y in loader:
                    yield x

        def train(model, loader, k):
            optimizer = torch.optim.SGD(model.parameters(), 0.1)
            for i, x in enumerate(forever(loader)):
                (model(x).mean() / k).backward()
                if (i + 1) % k == 0:
                    optimizer.step()
                    optimizer.zero_grad()
    """
    assert micros(only(derive(source)), Step) == [2, 5]


def test_yield_from() -> None:
    source = """
        def pairs(a, b):
            yield from [a, b]

        def train(model, loader):
            optimizer = torch.optim.SGD(model.parameters(), 0.1)
            for x, y in loader:
                for one in pairs(x, y):
                    model(one).mean().backward()
                optimizer.step()
                optimizer.zero_grad()
    """
    assert story(only(derive(source)), 0).startswith("backward")


ITERABLES = {
    "zip": "for (x, y), z in zip(loader, other):",
    "cycle": "for (x, y), z in zip(loader, itertools.cycle(other)):",
    "tqdm": "for x, y in tqdm(loader):",
    "enumerate of tqdm": "for i, (x, y) in enumerate(tqdm(loader, desc='train')):",
    "islice": "for x, y in itertools.islice(loader, 10):",
    "chain": "for x, y in itertools.chain(loader, other):",
    "range": "for i in range(len(loader)):\n    x, y = next(it)",
    "an attribute": "for x, y in data.train:",
    "a call": "for x, y in get_loader():",
    "an item": "for x, y in loaders['train']:",
    "batch": "for batch in loader:\n    x = batch['x'].cuda()",
    "while True": "while True:\n    x, y = next(it)",
}


@pytest.mark.parametrize("head", ITERABLES.values(), ids=ITERABLES)
def test_loops_over_data(head: str) -> None:
    source = (
        "from tqdm import tqdm\n\ndef train(model, loader, other, it, data, get_loader, loaders):\n"
        "    optimizer = torch.optim.SGD(model.parameters(), 0.1)\n    "
        + head.replace("\n", "\n    ")
        + "\n        model(x).mean().backward()\n        optimizer.step()\n        optimizer.zero_grad()\n"
    )
    trace = only(derive(source))
    assert micros(trace, Step) == [0, 1, 2]
    assert len({record.iteration for record, _ in trace.of(Step)}) == 3
