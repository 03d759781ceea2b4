"""Projects of several files: what is wrong is found by whichever way the files are named."""

from __future__ import annotations

from pathlib import Path

import pytest

from ampcheck.check import Options, check_paths
from tests.expectations import FIXTURES, Place, expected

PROJECTS = sorted(folder for folder in (FIXTURES / "projects").iterdir() if folder.is_dir())


def found_in(*paths: Path) -> set[tuple[str, Place]]:
    report = check_paths([str(path) for path in paths], options=Options())
    assert not report.failures
    return {(Path(f.site.path).name, Place(f.site.line, f.code)) for f in report.findings}


@pytest.mark.parametrize("project", PROJECTS, ids=lambda folder: folder.name)
def test_a_project_checked_whole_says_what_its_files_say(project: Path) -> None:
    announced = {(path.name, place) for path in project.rglob("*.py") for place in expected(path)}
    assert found_in(project) == announced


def test_there_are_eight_projects_and_both_kinds_of_files() -> None:
    assert len(PROJECTS) >= 8
    assert all(any(expected(path) for path in project.rglob("*.py")) for project in PROJECTS)
    assert all(any(not expected(path) for path in project.rglob("*.py")) for project in PROJECTS)


def test_the_file_of_the_loop_shows_a_fault_in_a_helper_that_is_not_checked(tmp_path: Path) -> None:
    helper = (
        "import torch\n\n\ndef clip(model):\n    torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)\n"
    )
    loop = (
        "import torch\nfrom helper import clip\n\n\ndef train(model, loader):\n"
        "    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)\n    scaler = torch.amp.GradScaler('cuda')\n"
        "    for x in loader:\n        with torch.autocast('cuda', dtype=torch.float16):\n"
        "            loss = model(x).mean()\n"
        "        optimizer.zero_grad()\n        scaler.scale(loss).backward()\n        clip(model)\n"
        "        scaler.step(optimizer)\n        scaler.update()\n"
    )
    (tmp_path / "pyproject.toml").touch()
    (tmp_path / "helper.py").write_text(helper)
    (tmp_path / "loop.py").write_text(loop)
    assert found_in(tmp_path / "loop.py") == {("loop.py", Place(13, "AMP101"))}
    assert found_in(tmp_path / "helper.py") == {("helper.py", Place(5, "AMP101"))}
    assert found_in(tmp_path / "helper.py", tmp_path / "loop.py") == {("helper.py", Place(5, "AMP101"))}


def test_a_module_that_cannot_be_read_is_unknown_to_those_that_import_it(tmp_path: Path) -> None:
    (tmp_path / "pyproject.toml").touch()
    (tmp_path / "broken.py").write_text("def clip(model:\n")
    (tmp_path / "loop.py").write_text("from broken import clip\n\nclip(loss.backward())\n")
    assert found_in(tmp_path / "loop.py") == set()


def test_too_many_modules_are_a_note(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ampcheck.assembly.MOST_MODULES", 2)
    (tmp_path / "pyproject.toml").touch()
    for number in range(4):
        (tmp_path / f"part{number}.py").write_text(f"def go{number}(loss):\n    loss.backward()\n")
    imports = "".join(f"from part{number} import go{number}\n" for number in range(4))
    calls = "".join(f"    go{number}(x)\n" for number in range(4))
    (tmp_path / "loop.py").write_text(f"{imports}\noptimizer.zero_grad()\nfor x in loader:\n{calls}")
    assert ("loop.py", Place(1, "AMP902")) in found_in(tmp_path / "loop.py")
