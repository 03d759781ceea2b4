"""What a dotted name means in a file: Python's own search, decided on files alone."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from ampcheck.program import Link
from ampcheck.project import Project

CLIP = "def clip(model):\n    torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)\n"


def found(root: Path, file: str, dotted: str) -> tuple[str, str] | None:
    """The file, named from the root, and the definition in it."""
    link = Project().find(str(root / file), dotted)
    return None if link is None else (os.path.relpath(link.path, root), link.name)


def test_a_script_finds_the_modules_beside_it(grow) -> None:
    root = grow({"train.py": "", "steps.py": CLIP})
    assert found(root, "train.py", "steps.clip") == ("steps.py", "clip")
    assert found(root, "train.py", "steps") == ("steps.py", "")
    assert found(root, "train.py", "steps.absent") is None
    assert found(root, "train.py", "absent.clip") is None


def test_a_module_beside_the_script_goes_before_one_above_it(grow) -> None:
    root = grow({"steps.py": CLIP, "tools/steps.py": CLIP, "tools/train.py": "", "other/train.py": ""})
    assert found(root, "tools/train.py", "steps.clip") == ("tools/steps.py", "clip")
    assert found(root, "other/train.py", "steps.clip") == ("steps.py", "clip")


def test_a_module_beside_the_script_goes_before_a_library_of_its_name(grow) -> None:
    root = grow(
        {
            "train.py": "",
            "timm/__init__.py": "",
            "timm/utils.py": "class NativeScaler: pass\n",
            "a/train.py": "",
        }
    )
    assert found(root, "train.py", "timm.utils.NativeScaler") == ("timm/utils.py", "NativeScaler")
    link = Project().find(str(root / "a/train.py"), "timm.utils.NativeScaler")
    assert link is not None
    assert link.path == "<timm>"


def test_a_package_goes_before_a_module_of_its_name(grow) -> None:
    root = grow({"train.py": "", "steps.py": CLIP, "steps/__init__.py": CLIP})
    assert found(root, "train.py", "steps.clip") == ("steps/__init__.py", "clip")


def test_packages_are_found_from_scripts_in_other_folders(grow) -> None:
    root = grow({"scripts/train.py": "", "vision/__init__.py": "", "vision/steps.py": CLIP})
    assert found(root, "scripts/train.py", "vision.steps.clip") == ("vision/steps.py", "clip")
    assert found(root, "scripts/train.py", "vision.steps") == ("vision/steps.py", "")
    assert found(root, "scripts/train.py", "vision") == ("vision/__init__.py", "")


def test_a_src_layout_is_searched(grow) -> None:
    root = grow({"scripts/train.py": "", "src/vision/__init__.py": "", "src/vision/steps.py": CLIP})
    assert found(root, "scripts/train.py", "vision.steps.clip") == ("src/vision/steps.py", "clip")


def test_a_namespace_package_has_no_init(grow) -> None:
    root = grow({"train.py": "", "vision/parts/steps.py": CLIP})
    assert found(root, "train.py", "vision.parts.steps.clip") == ("vision/parts/steps.py", "clip")
    assert found(root, "train.py", "vision.parts") is None


@pytest.mark.parametrize(
    ("file", "dotted"),
    [
        ("vision/train.py", ".steps.clip"),
        ("vision/tasks/train.py", "..steps.clip"),
        ("vision/tasks/deep/train.py", "...steps.clip"),
        ("vision/__init__.py", ".steps.clip"),
        ("vision/tasks/__init__.py", "..steps.clip"),
    ],
)
def test_relative_imports_count_folders(grow, file: str, dotted: str) -> None:
    root = grow(
        {
            "vision/__init__.py": "",
            "vision/steps.py": CLIP,
            "vision/tasks/__init__.py": "",
            "vision/tasks/steps.py": "",
            "vision/tasks/deep/__init__.py": "",
        }
    )
    assert found(root, file, dotted) == ("vision/steps.py", "clip")


def test_one_dot_names_a_module_of_the_package_or_a_name_of_its_init(grow) -> None:
    root = grow({"vision/__init__.py": CLIP, "vision/steps.py": "", "vision/train.py": ""})
    assert found(root, "vision/train.py", ".steps") == ("vision/steps.py", "")
    assert found(root, "vision/train.py", ".clip") == ("vision/__init__.py", "clip")


def test_a_relative_import_is_never_looked_for_higher_up(grow) -> None:
    root = grow({"steps.py": CLIP, "vision/__init__.py": "", "vision/train.py": ""})
    assert found(root, "vision/train.py", ".steps.clip") is None


def test_names_are_followed_through_what_reexports_them(grow) -> None:
    root = grow(
        {
            "train.py": "",
            "vision/__init__.py": "from .training import clip as bound\n",
            "vision/training/__init__.py": "from .steps import *\n",
            "vision/training/steps.py": CLIP,
        }
    )
    assert found(root, "train.py", "vision.bound") == ("vision/training/steps.py", "clip")
    assert found(root, "train.py", "vision.training.clip") == ("vision/training/steps.py", "clip")
    assert found(root, "train.py", "vision.clip") is None


def test_a_module_under_another_name_is_gone_into(grow) -> None:
    root = grow(
        {"train.py": "", "vision/__init__.py": "from . import steps as parts\n", "vision/steps.py": CLIP}
    )
    assert found(root, "train.py", "vision.parts") == ("vision/steps.py", "")
    assert found(root, "train.py", "vision.parts.clip") == ("vision/steps.py", "clip")


def test_a_name_of_the_init_hides_the_module_of_the_same_name(grow) -> None:
    root = grow(
        {
            "train.py": "",
            "vision/__init__.py": "from .clip import clip\n",
            "vision/clip.py": f"{CLIP}\nM = 1\n",
        }
    )
    assert found(root, "train.py", "vision.clip") == ("vision/clip.py", "clip")
    # ``from vision.clip import M`` goes by the module, whatever the attribute is.
    assert found(root, "train.py", "vision.clip.M") == ("vision/clip.py", "M")


def test_an_absolute_import_never_finds_a_name_of_the_init_beside_the_script(grow) -> None:
    root = grow(
        {
            "vision/__init__.py": "from .steps import steps\n",
            "vision/steps.py": "def steps(): pass\n",
            "vision/train.py": "",
        }
    )
    assert found(root, "vision/train.py", "steps") == ("vision/steps.py", "")


def test_what_is_deeper_than_a_definition_is_not_the_definition(grow) -> None:
    root = grow({"train.py": "", "steps.py": "class Outer:\n    class Inner: pass\n"})
    assert found(root, "train.py", "steps.Outer") == ("steps.py", "Outer")
    assert found(root, "train.py", "steps.Outer.Inner") is None


@pytest.mark.parametrize(
    ("first", "second"), [(".steps", "steps"), ("steps", ".steps"), ("vision.steps", ".steps")]
)
def test_a_file_that_is_script_and_module_finds_its_sibling(grow, first: str, second: str) -> None:
    attempts = f"try:\n    from {first} import clip\nexcept ImportError:\n    from {second} import clip\n"
    root = grow({"vision/__init__.py": "", "vision/both.py": attempts, "vision/steps.py": CLIP})
    assert found(root, "vision/train.py", ".both.clip") == ("vision/steps.py", "clip")


def test_what_is_imported_first_counts_and_may_be_unknown(grow) -> None:
    attempts = "try:\n    from compiled import clip\nexcept ImportError:\n    from steps import clip\n"
    root = grow({"both.py": attempts, "steps.py": CLIP})
    assert found(root, "train.py", "both.clip") is None


def test_imports_that_lead_back_to_themselves_lead_nowhere(grow) -> None:
    root = grow(
        {
            "one.py": "from two import clip, other\n",
            "two.py": "from three import clip\nfrom one import other\n",
            "three.py": "from one import clip\n",
            "stars.py": "from starred import *\n",
            "starred.py": "from stars import *\n",
        }
    )
    for name in (
        "one.clip",
        "two.clip",
        "three.clip",
        "one.other",
        "two.other",
        "stars.clip",
        "starred.clip",
    ):
        assert found(root, "one.py", name) is None


def test_a_circle_of_stars_finds_what_any_of_its_modules_defines(grow) -> None:
    names = {"one": "a", "two": "b", "three": "c"}
    after = {"one": "two", "two": "three", "three": "one"}
    root = grow({f"{m}.py": f"from {after[m]} import *\n\n\ndef {n}(): pass\n" for m, n in names.items()})
    project = Project()
    for asked in (*names, *reversed(names)):
        for module, name in names.items():
            link = project.find(str(root / "train.py"), f"{asked}.{name}")
            assert link == Link(str(root / f"{module}.py"), name)


def test_the_standard_library_and_torch_are_not_looked_for(grow) -> None:
    root = grow({"tools/train.py": "", "torch.py": CLIP, "logging.py": CLIP, "apex/__init__.py": CLIP})
    assert found(root, "train.py", "torch.clip") is None
    assert found(root, "tools/train.py", "logging.clip") is None
    assert found(root, "train.py", "apex.clip") is None
    # A script's own folder comes first for everything that is not loaded already.
    assert found(root, "train.py", "logging.clip") == ("logging.py", "clip")


def test_models_are_found_by_any_path_of_their_library() -> None:
    project = Project()
    for dotted in ("accelerate.Accelerator", "accelerate.accelerator.Accelerator"):
        assert project.find("train.py", dotted) == Link("<accelerate>", "Accelerator")
    assert project.find("train.py", "accelerate") == Link("<accelerate>")
    assert project.find("train.py", "accelerate.absent") is None


def test_a_model_knows_other_models_and_nothing_of_the_project(grow, monkeypatch) -> None:
    root = grow({"train.py": "", "steps.py": CLIP})
    monkeypatch.chdir(root)
    project = Project()
    assert project.find("<transformers>", "accelerate.Accelerator") == Link("<accelerate>", "Accelerator")
    assert project.find("<transformers>", "steps.clip") is None
    assert project.find("<transformers>", ".steps.clip") is None
    # ... nor does what a model was told hold for the files of the working directory.
    assert project.find("train.py", "steps.clip") == Link("steps.py", "clip")


@pytest.mark.parametrize("spelled", ["train.py", "./train.py", "tools/../train.py"])
def test_relative_paths_find_relative_paths(grow, monkeypatch, spelled: str) -> None:
    root = grow({"train.py": "", "steps.py": CLIP, "tools/x.py": ""})
    monkeypatch.chdir(root)
    link = Project().find(spelled, "steps.clip")
    assert link is not None
    assert os.path.normpath(link.path) == "steps.py"


def test_modules_above_the_working_directory_are_found(grow, monkeypatch) -> None:
    root = grow({"vision/__init__.py": CLIP, "vision/steps.py": CLIP, "vision/tasks/train.py": ""})
    monkeypatch.chdir(root / "vision" / "tasks")
    assert Project().find("train.py", "..steps.clip") == Link("../steps.py", "clip")
    assert Project().find("train.py", "..clip") == Link("../__init__.py", "clip")


def test_a_package_that_is_the_working_directory_has_an_init_too(grow, monkeypatch) -> None:
    root = grow({"vision/__init__.py": CLIP, "vision/train.py": ""})
    monkeypatch.chdir(root / "vision")
    assert Project().find("train.py", ".clip") == Link("__init__.py", "clip")


def test_without_a_marker_the_folders_above_are_searched(grow) -> None:
    root = grow({"steps.py": CLIP, "tools/deep/train.py": ""}, marker=False)
    assert found(root, "tools/deep/train.py", "steps.clip") == ("steps.py", "clip")


def test_a_marker_ends_the_search(grow) -> None:
    root = grow({"steps.py": CLIP, "inner/setup.py": "", "inner/train.py": ""})
    assert found(root, "inner/train.py", "steps.clip") is None


def test_what_is_no_regular_file_is_no_module(grow) -> None:
    root = grow({"train.py": ""})
    os.mkfifo(root / "steps.py")
    (root / "round.py").symlink_to("round.py")
    (root / "folder.py").mkdir()
    for module in ("steps", "round", "folder"):
        assert found(root, "train.py", f"{module}.clip") is None


def test_a_package_that_contains_itself_is_searched_once(grow) -> None:
    root = grow({"train.py": "", "vision/__init__.py": "from .vision import clip\nfrom .vision import *\n"})
    (root / "vision" / "vision").symlink_to(".")
    assert found(root, "train.py", "vision.clip") is None
    assert found(root, "train.py", "vision.absent") is None
