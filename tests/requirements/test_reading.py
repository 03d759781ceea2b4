"""What projects declare about torch, in each of the files that they declare it in."""

from __future__ import annotations

from pathlib import Path

import pytest

from ampcheck.requirements import Requirements, all_before, some_before

UNBOUNDED = (999,)


@pytest.mark.parametrize(
    ("file", "text", "oldest", "newest"),
    [
        ("requirements.txt", "numpy\ntorch==1.13.1\n", (1, 13, 1), (1, 13, 1)),
        ("requirements.txt", "torch==1.12.1+cu113  # with CUDA 11.3\n", (1, 12, 1), (1, 12, 1)),
        (
            "requirements.txt",
            "--extra-index-url https://x\ntorch>=1.7,<2.0 --hash=sha256:0\n",
            (1, 7, 0),
            (1, 13, 1),
        ),
        ("requirements.txt", 'torch~=2.1; python_version > "3.8"\n', (2, 1, 0), (2, 13, 0)),
        ("requirements.txt", "torch\ntorchvision==0.2\n", None, UNBOUNDED),
        ("requirements-train.txt", "torch>=2.4", (2, 4, 0), UNBOUNDED),
        ("requirements/base.txt", "torch<2.2", (1, 0, 0), (2, 1, 2)),
        ("pyproject.toml", '[project]\ndependencies = ["torch>=1.10", "numpy"]', (1, 10, 0), UNBOUNDED),
        ("pyproject.toml", '[project.optional-dependencies]\ngpu = ["torch>=2.3"]', (2, 3, 0), UNBOUNDED),
        (
            "pyproject.toml",
            '[dependency-groups]\ndev = ["torch==2.2.*", {include-group = "a"}]',
            (2, 2, 0),
            (2, 2, 2),
        ),
        ("pyproject.toml", '[tool.poetry.dependencies]\ntorch = "^1.13"', (1, 13, 0), (1, 13, 1)),
        (
            "pyproject.toml",
            '[tool.poetry.dependencies]\ntorch = {version = "~2.1.0", source = "x"}',
            (2, 1, 0),
            (2, 1, 2),
        ),
        ("pyproject.toml", '[tool.poetry.dependencies]\ntorch = "*"', None, UNBOUNDED),
        ("pyproject.toml", '[tool.poetry.dependencies]\ntorch = "1.13.1"', (1, 13, 1), (1, 13, 1)),
        ("setup.cfg", "[options]\ninstall_requires =\n    numpy\n    torch>=1.8\n", (1, 8, 0), UNBOUNDED),
        ("setup.py", 'import os\nsetup(install_requires=["torch>=1.6", "x"])\n', (1, 6, 0), UNBOUNDED),
        ("environment.yml", "dependencies:\n  - pytorch=1.13\n  - pip\n", (1, 13, 0), (1, 13, 1)),
        (
            "environment.yaml",
            "dependencies:\n  - pytorch::pytorch=1.12.1=py3.9_cuda11.3\n",
            (1, 12, 1),
            (1, 12, 1),
        ),
        ("environment.yml", "dependencies:\n  - pip:\n    - torch==2.0.1\n", (2, 0, 1), (2, 0, 1)),
    ],
)
def test_each_file(file: str, text: str, oldest: object, newest: object, tmp_path: Path) -> None:
    (tmp_path / file).parent.mkdir(exist_ok=True)
    (tmp_path / file).write_text(text)
    (found,) = Requirements().of(str(tmp_path / "src" / "train.py"))
    assert (found.oldest, found.newest) == (oldest, newest)
    assert found.path == str(tmp_path / file)


@pytest.mark.parametrize(
    ("file", "text"),
    [
        ("requirements.txt", "torchmetrics==1.0\n-e .\n"),
        ("requirements.txt", "torch==1.2.3.4.5.bad!\n"),
        ("pyproject.toml", "[project\n"),
        ("pyproject.toml", "project = [1]\n"),
        ("setup.py", "raise SystemExit('it was run')\nsetup(install_requires=('torch', "),
        ("environment.yml", "- [\n"),
        ("setup.cfg", "torch>=1\n"),
    ],
)
def test_what_cannot_be_read_declares_nothing(file: str, text: str, tmp_path: Path) -> None:
    (tmp_path / ".git").mkdir()
    (tmp_path / file).write_text(text)
    assert Requirements().of(str(tmp_path / "train.py")) == ()


def test_the_nearest_folder_counts_and_the_repository_is_the_end(tmp_path: Path) -> None:
    (tmp_path / "requirements.txt").write_text("torch==1.6.0")
    (tmp_path / "repository" / ".git").mkdir(parents=True)
    inner = tmp_path / "repository" / "examples" / "deep"
    inner.mkdir(parents=True)
    file = str(inner / "train.py")
    assert Requirements().of(file) == ()
    (tmp_path / "repository" / "requirements.txt").write_text("torch>=2.4")
    assert [d.oldest for d in Requirements().of(file)] == [(2, 4, 0)]
    (inner.parent / "requirements.txt").write_text("torch==1.13.1")
    assert [d.oldest for d in Requirements().of(file)] == [(1, 13, 1)]


def test_before_a_release(tmp_path: Path) -> None:
    (tmp_path / "requirements.txt").write_text("torch>=1.13,<2.4")
    found = Requirements().of(str(tmp_path / "train.py"))
    assert all_before(found, (2, 4))
    assert not all_before(found, (2, 3))
    assert some_before(found, (2, 3)) is found[0]
    assert some_before(found, (1, 13)) is None
    assert not all_before((), (2, 4))
