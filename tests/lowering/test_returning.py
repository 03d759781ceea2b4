"""What a forward gives back: each way of writing a loss, in a class of three lines."""

from __future__ import annotations

import ast
import textwrap

import pytest

from ampcheck.lowering.returning import returns_of
from ampcheck.returns import UNTOLD, Returns

IMPORTS = {"torch": "torch", "nn": "torch.nn", "F": "torch.nn.functional"}


def returns(forward: str, others: str = "") -> Returns:
    body = textwrap.indent(textwrap.dedent(forward), "        ")
    source = f"class Net(nn.Module):\n    def forward(self, x, y=None):\n{body}\n{others}"
    cls = ast.parse(source).body[0]
    assert isinstance(cls, ast.ClassDef)
    return returns_of(cls, IMPORTS)


@pytest.mark.parametrize(
    ("forward", "how"),
    [
        ("return F.mse_loss(x, y)", "mean"),
        ("return F.mse_loss(x, y, reduction='sum')", "sum"),
        ("return F.mse_loss(x, y, reduction=self.how)", "unknown"),
        ("return F.mse_loss(x, y, size_average=False)", "unknown"),
        ("return F.mse_loss(x, y, **self.options)", "unknown"),
        ("loss = F.mse_loss(x, y, reduction='none')\nreturn loss[y > 0].mean()", "mean"),
        ("return torch.mean((x - y) ** 2)", "mean"),
        ("return (x - y).pow(2).sum(dim=-1).mean()", "mean"),
        ("return (x - y).mean(dim=1).sum()", "sum"),
        ("return (x * y).sum() / y.sum()", "mean"),
        ("return (x * y).sum() / len(x)", "mean"),
        ("return (x * y).sum() / (y.sum() + 1e-6)", "mean"),
        ("return (x * y).sum() / y.sum().clamp(min=1)", "mean"),
        ("return (x * y).sum() / max(1, y.numel())", "mean"),
        ("return (x * y).sum() / self.window.item()", "divided"),
        ("return (x * y).sum() / max(1, self.window)", "divided"),
        ("return (x * y).sum() / self.items", "divided"),
        ("return F.mse_loss(x, y) / self.window", "divided"),
        ("return F.mse_loss(x, y) / 2", "mean"),
        ("return self.weight * F.mse_loss(x, y)", "mean"),
        ("return F.mse_loss(x, y) * y.shape[0]", "unknown"),
        ("return F.mse_loss(x, y) + F.l1_loss(x, y).float()", "mean"),
        ("return F.mse_loss(x, y) + self.penalty()", "unknown"),
        ("loss = F.mse_loss(x, y)\nloss.mul_(4)\nreturn loss", "unknown"),
        ("loss = F.mse_loss(x, y)\nloss *= 0.5\nreturn loss", "mean"),
        ("if y is None:\n    return None\nreturn F.mse_loss(x, y)", "mean"),
        ("if y is None:\n    return x\nreturn F.mse_loss(x, y)", "unknown"),
        ("if self.sums:\n    loss = x.sum()\nelse:\n    loss = x.mean()\nreturn loss", "unknown"),
        (
            "match y:\n    case None:\n        loss = x.sum()\n    case _:\n        loss = x.mean()\nreturn loss",
            "unknown",
        ),
        ("return nn.CrossEntropyLoss()(x, y)", "mean"),
        ("return nn.CrossEntropyLoss(reduction='sum')(x, y)", "sum"),
        ("return nn.functional.softmax(x)", "unknown"),
    ],
)
def test_one_value(forward: str, how: str) -> None:
    assert returns(forward) == Returns(how)  # type: ignore[arg-type]


def test_a_tuple_by_its_places() -> None:
    found = returns("loss = None\nif y is not None:\n    loss = F.mse_loss(x, y)\nreturn x, loss")
    assert found == Returns(items=("unknown", "mean"))


def test_none_in_one_return_says_nothing_of_the_other() -> None:
    assert returns("if y is None:\n    return x, None\nreturn x, F.mse_loss(x, y)").items == (
        "unknown",
        "mean",
    )


def test_tuples_of_different_lengths_say_nothing() -> None:
    assert returns("if y is None:\n    return x, y, x\nreturn x, F.mse_loss(x, y)") == UNTOLD


@pytest.mark.parametrize(
    "value", ["{'loss': F.mse_loss(x, y), 'out': x}", "ModelOutput(loss=F.mse_loss(x, y), out=x)"]
)
def test_fields_by_their_names(value: str) -> None:
    assert returns(f"return {value}").fields == {"loss": "mean", "out": "unknown"}


def test_methods_and_attributes_of_the_same_class() -> None:
    others = (
        "    def __init__(self):\n        self.criterion = nn.MSELoss()\n"
        "    def loss(self, x, y):\n        return self.criterion(x, y)\n"
    )
    assert returns("return self.loss(x, y)", others) == Returns("mean")


def test_an_attribute_set_to_two_losses_is_not_known() -> None:
    others = (
        "    def __init__(self, sums):\n        self.criterion = nn.MSELoss()\n"
        "        if sums:\n            self.criterion = nn.MSELoss(reduction='sum')\n"
    )
    assert returns("return self.criterion(x, y)", others) == UNTOLD


def test_a_method_that_calls_itself_ends() -> None:
    assert returns("return self.forward(x, y)") == UNTOLD


def test_no_forward_tells_nothing() -> None:
    cls = ast.parse("class Empty:\n    pass").body[0]
    assert isinstance(cls, ast.ClassDef)
    assert returns_of(cls, {}) == UNTOLD
