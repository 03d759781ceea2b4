"""What a picture shows: micro-batches as columns, what the gradients carry in each event, and the correct order."""

from __future__ import annotations

from pathlib import Path

import pytest

from ampcheck import registry
from ampcheck.check import Analysed, check_paths
from ampcheck.timeline.loops import Loop, loops_of, with_findings
from ampcheck.timeline.pictures import Column, Picture, pictures


def loops(*paths: Path) -> tuple[Loop, ...]:
    analysed: list[Analysed] = []
    report = check_paths([str(path) for path in paths], on_analysed=analysed.append)
    return with_findings([loop for one in analysed for loop in loops_of(one)], report.findings)


def drawn(loop: Loop) -> tuple[Picture, ...]:
    return pictures(loop, {rule.code: rule.contests for rule in registry.load()})


def told(columns: tuple[Column, ...]) -> list[list[tuple[str, str]]]:
    return [[(cell.label, cell.kind) for cell in column.cells] for column in columns]


@pytest.fixture(scope="module")
def tour(checkout: Path) -> dict[str, Loop]:
    return {loop.name: loop for loop in loops(checkout / "fixtures" / "tour")}


def test_a_window_has_a_column_for_each_micro_batch(tour: dict[str, Loop]) -> None:
    """K = 3, each loss divided, one step: the story of document 004, section 4."""
    (picture,) = drawn(tour["mean_of_losses()"])
    closing = [
        ("backward", "scaled"),
        ("unscale_", "true"),
        ("clip by norm", "true"),
        ("scaler.step", "true"),
        ("scaler.update", "other"),
        ("zero_grad", "none"),
    ]
    assert told(picture.columns) == [[("backward", "scaled")], [("backward", "scaled")], closing]
    assert told(picture.correct) == told(picture.columns)
    assert picture.agrees


def test_the_offending_event_is_marked(tour: dict[str, Loop]) -> None:
    (picture,) = drawn(tour["clip_scaled_norm()"])
    marked = [cell for column in picture.columns for cell in column.cells if cell.wrong]
    assert [(c.label, c.kind, c.wrong, c.place and c.place.line) for c in marked] == [
        ("clip by norm", "scaled", ("AMP101",), 20)
    ]
    assert not any(cell.wrong for column in picture.correct for cell in column.cells)


def test_units_that_are_mixed_have_a_kind_of_their_own(tour: dict[str, Loop]) -> None:
    (picture,) = drawn(tour["look_at_the_first()"])
    kinds = {(column.micro, cell.label): cell.kind for column in picture.columns for cell in column.cells}
    assert kinds[1, "unscale_"] == "true"
    assert kinds[2, "backward"] == "mixed"
    assert kinds[3, "scaler.step"] == "mixed"


def test_a_sum_is_not_a_mean(tour: dict[str, Loop]) -> None:
    (picture,) = drawn(tour["sum_of_losses()"])
    assert ("scaler.step", "sum") in told(picture.columns)[2]
    assert ("scaler.step", "true") in told(picture.correct)[2]


def test_the_correct_order_waits_for_the_boundary(tour: dict[str, Loop]) -> None:
    (picture,) = drawn(tour["step_on_each()"])
    assert [len(column) for column in told(picture.correct)] == [1, 1, 4]
    assert all(("scaler.step", "true") in column for column in told(picture.columns))


def test_events_before_a_backward_belong_to_its_micro_batch(tour: dict[str, Loop]) -> None:
    (picture,) = drawn(tour["zero_on_each()"])
    assert [column[0] for column in told(picture.columns)] == [("zero_grad", "none")] * 3


def test_optimizers_are_told_apart(tour: dict[str, Loop]) -> None:
    (picture,) = drawn(tour["Gan.fit()"])
    labels = [label for label, _ in told(picture.columns)[0] if label.startswith("scaler.step")]
    assert labels == ["scaler.step optimizer_d", "scaler.step optimizer_g"]


def test_loops_of_a_module_are_kept_apart(tmp_path: Path) -> None:
    one = """
for x in loader:
    model(x).mean().backward()
    {0}.step()
    {0}.zero_grad()
"""
    head = "import torch\nmodel = torch.nn.Linear(2, 2)\nloader = torch.utils.data.DataLoader([])\n"
    build = "a = torch.optim.SGD(model.parameters(), 0.1)\nb = torch.optim.Adam(model.parameters())\n"
    file = tmp_path / "two.py"
    file.write_text(head + build + one.format("a") + one.format("b"))
    assert [(loop.name, loop.place.line) for loop in loops(file)] == [("module", 7), ("module", 12)]


def test_a_helper_is_shown_with_the_loop_that_calls_it(tmp_path: Path) -> None:
    (tmp_path / "pyproject.toml").touch()
    (tmp_path / "helper.py").write_text(
        "import torch\n\ndef finish(scaler, optimizer, model):\n"
        "    torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)\n"
        "    scaler.step(optimizer)\n    scaler.update()\n"
    )
    (tmp_path / "train.py").write_text(
        "import torch\nfrom helper import finish\n\ndef train(model, loader):\n"
        "    optimizer = torch.optim.SGD(model.parameters(), 0.1)\n"
        "    scaler = torch.amp.GradScaler('cuda')\n"
        "    for x in loader:\n        optimizer.zero_grad()\n"
        "        scaler.scale(model(x).mean()).backward()\n        finish(scaler, optimizer, model)\n"
    )
    found = loops(tmp_path)
    assert [(Path(loop.path).name, loop.name) for loop in found] == [("train.py", "train()")]
    assert [f.code for f in found[0].findings] == ["AMP101"]
