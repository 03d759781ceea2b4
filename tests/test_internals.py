"""Private attributes of scalers, found in the source alone."""

from __future__ import annotations

import ast
import textwrap

import pytest

from ampcheck.events import Internal
from ampcheck.internals import internals_of
from ampcheck.source import Source

TORCH = "from torch.amp import GradScaler\n"


def uses(text: str) -> list[tuple[str, str, bool, bool]]:
    """Scaler, attribute, whether it is written, whether the scaler is known to be torch's."""
    text = textwrap.dedent(text)
    found = []
    for trace in internals_of(Source("train.py", text, ast.parse(text))):
        (record,) = trace.records
        event = record.event
        assert isinstance(event, Internal)
        found.append((event.scaler, event.name, event.written, trace.roles[event.scaler].known))
    return found


@pytest.mark.parametrize(
    ("text", "known"),
    [
        (TORCH + "scaler = GradScaler()\nscaler._scale", True),
        (TORCH + "amp = GradScaler()\namp._scale", True),
        (TORCH + "def f(scaler: GradScaler):\n    return scaler._scale", True),
        (TORCH + "def f(s: 'GradScaler | None'):\n    return s._scale", None),
        (TORCH + "def f(s: GradScaler | None):\n    return s._scale", True),
        (TORCH + "scaler._scale", True),
        ("import torch\nself.scaler = torch.cuda.amp.GradScaler()\nself.scaler._scale", True),
        ("scaler._scale", False),
        ("scaler.step(optimizer)\nscaler.update()\nscaler._scale", True),
        ("scaler._per_optimizer_states[id(o)]", True),
        ("scaler._found_inf_per_device(o)", True),
        ("from mine import LossScaler\nscaler._scale", False),
        ("from paddle.amp import GradScaler\nscaler = GradScaler()\nscaler._scale", None),
        (TORCH + "scaler = StandardScaler()\nscaler._scale", None),
        (TORCH + "class A:\n    def f(self):\n        return self._scale\nscaler._scale", None),
        (TORCH + "self._scale", None),
        (TORCH + "layer._scale", None),
        (TORCH + "scaler.scale(loss)", None),
    ],
)
def test_whose_attribute_it_is(text: str, known: bool | None) -> None:
    assert [use[3] for use in uses(text)] == ([] if known is None else [known])


def test_writes() -> None:
    assert uses(TORCH + "scaler._growth_tracker = 0") == [("scaler", "_growth_tracker", True, True)]


def test_columns_are_those_of_the_text() -> None:
    text = TORCH + 'print("größer", scaler._scale)\n'
    (trace,) = internals_of(Source("train.py", text, ast.parse(text)))
    site = trace.records[0].event.site
    assert (site.line, text.splitlines()[1][site.column - 1 : site.end_column - 1]) == (2, "scaler._scale")
