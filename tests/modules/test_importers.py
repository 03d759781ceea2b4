"""Which files a helper's definitions are run for: those of its project that use them, nearest first."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from ampcheck import importers as importers_module
from ampcheck.importers import MOST, Importers
from ampcheck.project import Project
from ampcheck.words import Mentioned, Words

STEP = "def run(loss):\n    loss.backward()\n\n\ndef show(x):\n    print(x)\n"
USES = "from steps import run\n\nrun(x)\n"


def of(root: Path, file: str = "steps.py") -> list[str]:
    found = Importers(Project()).of(str(root / file))
    return [os.path.relpath(path, root) for path in found]


@pytest.mark.parametrize(
    "source",
    [
        USES,
        "import steps\n\nsteps.run(x)\n",
        "import steps as s\n\ns.run(x)\n",
        "from steps import run as go\n\ngo(x)\n",
        "from steps import *\n\nrun(x)\n",
        "from steps import (\n    show,  # shown :)\n    run,\n)\n\nrun(x)\n",
        "from steps import \\\n    run\n\nrun(x)\n",
        "def main():\n    from steps import run\n\n    run(x)\n",
        "try:\n    from .steps import run\nexcept ImportError:\n    from steps import run\n\nrun(x)\n",
        "if True:\n\timport steps\n\nsteps.run(x)\n",
    ],
)
def test_who_imports_and_uses_it(grow, source: str) -> None:
    assert of(grow({"steps.py": STEP, "train.py": source})) == ["train.py"]


@pytest.mark.parametrize(
    "source",
    [
        "from steps import run\n",
        "from steps import *\n",
        "from steps import show\n\nshow(x)\n",
        "import steps\n\nsteps.show(x)\n",
        "from other import run\n\nrun(x)\n",
        "from steps import *\nfrom other import run\n\nrun(x)\n",
        "# from steps import run\nrun(x)\n",
    ],
)
def test_who_does_not(grow, source: str) -> None:
    root = grow({"steps.py": STEP, "train.py": source, "other.py": STEP})
    assert of(root) == []


def test_importers_of_importers_and_those_behind_a_reexport(grow) -> None:
    root = grow(
        {
            "vision/__init__.py": "from .steps import run\n",
            "vision/steps.py": STEP,
            "vision/epochs.py": "from . import run\n\n\ndef epoch(x):\n    run(x)\n",
            "train.py": "from vision.epochs import epoch\n\nepoch(x)\n",
        }
    )
    assert of(root, "vision/steps.py") == ["vision/epochs.py", "train.py"]


@pytest.mark.parametrize("how", ["import vision as v\n\nv.{0}(x)\n", "from vision import *\n\n{0}(x)\n"])
@pytest.mark.parametrize("name", ["run", "bound"])
def test_importers_of_a_package_that_only_passes_the_name_on(grow, how: str, name: str) -> None:
    root = grow(
        {
            "vision/__init__.py": "from .steps import run\nfrom .steps import run as bound\n",
            "vision/steps.py": STEP,
            "train.py": how.format(name),
            "other.py": how.format("show"),
        }
    )
    assert of(root, "vision/steps.py") == ["train.py"]


def test_of_a_package_its_init_is_the_file(grow) -> None:
    root = grow({"steps/__init__.py": STEP, "train.py": USES})
    assert of(root, "steps/__init__.py") == ["train.py"]


def test_files_that_import_each_other_end(grow) -> None:
    root = grow(
        {
            "one.py": "from two import b\n\n\ndef a(x):\n    b(x.backward())\n",
            "two.py": "from three import c\n\n\ndef b(x):\n    c(x.backward())\n",
            "three.py": "from one import a\n\n\ndef c(x):\n    a(x.backward())\n",
        }
    )
    assert of(root, "one.py") == ["three.py", "two.py"]


def test_a_file_without_part_of_a_step_has_none(grow) -> None:
    assert of(grow({"steps.py": "def run(x):\n    print(x)\n", "train.py": USES})) == []


def test_the_nearest_come_first_and_not_many(grow) -> None:
    far = {f"far/u{n}.py": "from near.steps import run\n\nrun(x)\n" for n in range(MOST + 2)}
    root = grow({"near/steps.py": STEP, "near/train.py": USES, **far})
    found = of(root, "near/steps.py")
    assert found[0] == "near/train.py"
    assert len(found) == MOST


@pytest.mark.parametrize("folder", ["tests", "test", "my_tests", ".hidden", "build", "node_modules", "venv"])
def test_folders_that_train_nothing_are_not_looked_into(grow, folder: str) -> None:
    assert of(grow({"steps.py": STEP, f"{folder}/train.py": USES})) == []


@pytest.mark.parametrize(
    ("file", "looked_at"), [("test_steps.py", 0), ("steps_test.py", 0), ("latest.py", 1)]
)
def test_tests_are_not_looked_at(grow, file: str, looked_at: int) -> None:
    assert len(of(grow({"steps.py": STEP, file: USES}))) == looked_at


def test_what_cannot_be_read_is_passed_over(grow) -> None:
    root = grow({"steps.py": STEP, "train.py": USES, "broken.py": "from steps import run\nrun(:\n"})
    os.mkfifo(root / "pipe.py")
    (root / "round.py").symlink_to("round.py")
    (root / "again").symlink_to(".")
    (root / "binary.py").write_bytes(b"from steps import run\n\xff\xfe")
    assert of(root) == ["train.py"]


def test_a_project_is_scanned_once_and_not_without_end(grow, monkeypatch) -> None:
    root = grow({"steps.py": STEP, "more.py": STEP, "train.py": USES})
    scans: list[str] = []
    real = importers_module._scan

    def counted(top: str, words: Words) -> list[tuple[str, Mentioned]]:
        scans.append(top)
        return real(top, words)

    monkeypatch.setattr(importers_module, "_scan", counted)
    importers = Importers(Project())
    importers.of(str(root / "steps.py"))
    importers.of(str(root / "more.py"))
    assert scans == [str(root)]


def test_without_a_marker_only_the_files_own_folder_is_scanned(grow) -> None:
    root = grow({"train.py": "from deep.steps import run\n\nrun(x)\n", "deep/steps.py": STEP}, marker=False)
    assert of(root, "deep/steps.py") == []
    (root / "deep" / "train.py").write_text(USES)
    assert of(root, "deep/steps.py") == ["deep/train.py"]


def test_paths_are_spelled_as_the_file_is(grow, monkeypatch) -> None:
    root = grow({"steps.py": STEP, "train.py": USES})
    monkeypatch.chdir(root)
    importers = Importers(Project())
    assert importers.of("steps.py") == ["train.py"]
    assert importers.of("./steps.py") == ["train.py"]
    assert importers.of(str(root / "steps.py")) == [str(root / "train.py")]
