"""The table of library models: which names lead to which file, and that each file can be read as promised."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

from ampcheck.library.models import ENGINE_NAMES, HERE, LIBRARIES, model_file, model_of
from ampcheck.lowering import lower
from ampcheck.running.intrinsics import INTRINSICS
from ampcheck.source import decode

FILES = sorted(path for path in Path(HERE).glob("*.py") if path.stem != "__init__")


@pytest.mark.parametrize(
    ("dotted", "found"),
    [
        ("accelerate", ("<accelerate>", "")),
        ("accelerate.Accelerator", ("<accelerate>", "Accelerator")),
        ("accelerate.utils.operations.gather", ("<accelerate>", "gather")),
        ("lightning.fabric.Fabric", ("<fabric>", "Fabric")),
        ("lightning.pytorch.Trainer", ("<lightning>", "Trainer")),
        ("pytorch_lightning.LightningModule", ("<lightning>", "LightningModule")),
        ("lightning_fabric.Fabric", ("<fabric>", "Fabric")),
        ("apex.amp", ("<apex>", "")),
        ("apex.amp.initialize", ("<apex>", "initialize")),
        ("horovod.torch.DistributedOptimizer", ("<horovod>", "DistributedOptimizer")),
        ("accelerated.Accelerator", None),
        ("lightning_utilities.core", None),
        ("apex", None),
        ("apex.parallel.DistributedDataParallel", None),
        ("horovod.tensorflow.DistributedOptimizer", None),
        ("my.accelerate.Accelerator", None),
        (".accelerate.Accelerator", None),
        ("", None),
    ],
)
def test_a_dotted_name_leads_to_a_model(dotted: str, found: tuple[str, str] | None) -> None:
    assert model_of(dotted) == found


def test_longer_prefixes_go_first() -> None:
    """``lightning.fabric`` is not ``lightning``."""
    prefixes = list(LIBRARIES)
    for index, prefix in enumerate(prefixes):
        assert not [p for p in prefixes[index + 1 :] if p.startswith(f"{prefix}.")]


def test_the_table_and_the_folder_agree() -> None:
    assert {path.stem for path in FILES} == set(LIBRARIES.values())
    assert all(Path(model_file(f"<{stem}>")) in FILES for stem in LIBRARIES.values())


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_each_model_says_what_it_was_read_from_and_what_it_leaves_out(path: Path) -> None:
    text = ast.get_docstring(ast.parse(path.read_text())) or ""
    assert re.search(r"\d+\.\d+\.\d+|commit [0-9a-f]{8}", text)
    assert "Left out" in text


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_each_model_is_lowered_whole_and_asks_for_known_intrinsics(path: Path) -> None:
    shown = f"<{path.stem}>"
    source = decode(shown, path.read_bytes())
    assert source.tree is not None
    module = lower(source)
    docstring = 1
    assert len(module.body) >= len(source.tree.body) - docstring
    asked = {
        alias.name
        for node in ast.walk(source.tree)
        if isinstance(node, ast.ImportFrom) and node.module == "ampcheck.models"
        for alias in node.names
    }
    assert asked <= INTRINSICS.keys()


def test_engines_known_by_name_are_classes_of_models() -> None:
    for dotted in ENGINE_NAMES.values():
        found = model_of(dotted)
        assert found is not None
        tree = ast.parse(Path(model_file(found[0])).read_text())
        assert found[1] in {node.name for node in tree.body if isinstance(node, ast.ClassDef)}


def test_each_intrinsic_is_documented() -> None:
    import ampcheck.running.intrinsics as module

    documented = set(re.findall(r"(\w+)\([\w*, ]*\)", module.__doc__ or ""))
    assert INTRINSICS.keys() <= documented


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_the_documentation_names_the_version_of_each_model(path: Path, checkout: Path) -> None:
    text = ast.get_docstring(ast.parse(path.read_text())) or ""
    version = re.search(r"\d+\.\d+\.\d+|commit [0-9a-f]{8}", text)
    assert version is not None
    rows = [
        row for row in (checkout / "docs" / "libraries.md").read_text().splitlines() if row.startswith("| ")
    ]
    assert any(version[0].removeprefix("commit ") in row for row in rows)
