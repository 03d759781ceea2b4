"""What the gradients carry at a line: of which run, which micro-batch, before and after."""

from __future__ import annotations

from collections.abc import Sequence

from ampcheck.server import telling
from ampcheck.trace import Trace
from tests.running.derived import IMPORTS, dedented, derive

DDP = """
model = torch.nn.parallel.DistributedDataParallel(Net())
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for i, x in enumerate(loader):
    if (i + 1) % 2 != 0:
        with model.no_sync():
            (model(x).mean() / 2).backward()
        continue
    (model(x).mean() / 2).backward()
    clip(model)
    optimizer.step()
    optimizer.zero_grad()
"""


def rows(code: str, line: int) -> list[str]:
    """The rows of the hover on a line of the code, counted from 1."""
    text = telling.hover(traces(code), "train.py", line + IMPORTS.count("\n"))
    return [row[2:] for row in (text or "").split("\n") if row.startswith("- ")]


def traces(code: str) -> Sequence[Trace]:
    return derive(code).traces


def test_an_event_tells_before_after_and_what_it_does() -> None:
    code = dedented(
        """
        scaler, optimizer = torch.amp.GradScaler(), torch.optim.SGD(model.parameters(), lr=0.1)
        for x in loader:
            scaler.scale(model(x).mean()).backward()
            scaler.step(optimizer)
            scaler.update()
            optimizer.zero_grad()
        """
    )
    assert rows(code, 3) == ["micro-batch 1: no gradients → gradients × S"]
    assert rows(code, 4) == [
        "micro-batch 1: gradients × S → gradients, already used by a step (unscaled here)"
    ]
    assert rows(code, 6)[0].startswith("micro-batch 1: gradients, already used by a step → no gradients")


def test_what_is_not_synchronised_yet_says_so() -> None:
    code = dedented(DDP)
    assert rows(code, 6) == [
        "micro-batch 1 of 2: no gradients → gradients / K, 1 micro-batch, not synchronised"
    ]
    assert rows(code, 8) == [
        "micro-batch 2 of 2: gradients / K, 1 micro-batch, not synchronised → gradients / K, 2 micro-batches, "
        "synchronised"
    ]


def test_a_line_without_an_event_tells_what_stands_before_it() -> None:
    code = dedented(DDP).replace("    clip(model)\n", "    print('here')\n")
    assert rows(code, 9) == ["micro-batch 2 of 2: gradients / K, 2 micro-batches, synchronised"]
    assert rows(code, 4)[0] == "micro-batch 1 of 2: no gradients"


def test_a_line_that_no_run_passes_tells_nothing() -> None:
    assert rows("def unused(x):\n    return x\n\n\n" + dedented(DDP), 2) == []


def test_a_hint_counts_micro_batches() -> None:
    code = dedented(
        """
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        for i, x in enumerate(loader):
            (model(x).mean() / 4).backward()
            if (i + 1) % 4 == 0:
                optimizer.step()
                optimizer.zero_grad()
        """
    )
    found = traces(code)
    lines = [line - IMPORTS.count("\n") for line in telling.hinted(found, "train.py")]
    assert lines == [3, 5, 6]
    shown = telling.hint(found, "train.py", 3 + IMPORTS.count("\n"))
    assert shown == "gradients / K, 1 to 4 micro-batches"
