"""Where a fault of several files is reported, and that it is reported once, whichever way the files are named."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from ampcheck.check import Options, check_paths, python_files

CLIP = "import torch\n\n\ndef clip(model):\n    torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)\n"
LOOP = """
import torch
{how}


def train(model, loader):
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    scaler = torch.amp.GradScaler("cuda")
    for x in loader:
        with torch.autocast("cuda", dtype=torch.float16):
            loss = model(x).mean()
        optimizer.zero_grad()
        scaler.scale(loss).backward()
        {call}(model)
        scaler.step(optimizer)
        scaler.update()
"""
AT_THE_CALL, AT_THE_CLIP = ("train.py", 13, "AMP101"), ("helper.py", 5, "AMP101")


def loop(how: str = "from helper import clip", call: str = "clip") -> str:
    return LOOP.lstrip("\n").format(how=how, call=call)


def reported(*paths: str | Path) -> list[tuple[str, int, str]]:
    """All findings, in order, without any left out for being equal."""
    report = check_paths([str(path) for path in paths], options=Options())
    assert not report.failures
    return [(os.path.basename(f.site.path), f.site.line, f.code) for f in report.findings]


HOWS = [
    ("from helper import clip", "clip"),
    ("import helper", "helper.clip"),
    ("import helper as h", "h.clip"),
    ("from helper import clip as bound", "bound"),
    ("from helper import *", "clip"),
    ("from parts import clip", "clip"),
    ("import parts", "parts.clip"),
    ("from parts import helping", "helping.clip"),
    ("import parts.same as p", "p.clip"),
    ("import parts.same", "parts.same.clip"),
    ("try:\n    from .helper import clip\nexcept ImportError:\n    from helper import clip", "clip"),
]


@pytest.mark.parametrize(("how", "call"), HOWS)
def test_a_helper_however_it_is_imported(grow, how: str, call: str) -> None:
    root = grow(
        {
            "helper.py": CLIP,
            "parts/__init__.py": "from helper import clip\nimport helper as helping\n",
            "parts/same.py": "from helper import *\n",
            "train.py": loop(how, call),
        }
    )
    line = AT_THE_CALL[1] + how.count("\n")
    assert reported(root / "train.py") == [("train.py", line, "AMP101")]
    assert reported(root / "helper.py") == [AT_THE_CLIP]
    assert reported(root) == [AT_THE_CLIP]
    assert reported(root / "train.py", root / "helper.py") == [AT_THE_CLIP]


@pytest.mark.parametrize(
    "paths",
    [
        ["."],
        ["helper.py", "train.py"],
        ["./helper.py", "train.py"],
        ["{root}/helper.py", "train.py"],
        ["helper.py", "{root}/train.py"],
        ["train.py", ".", "{root}"],
        ["../{name}/train.py", "helper.py"],
    ],
)
def test_a_fault_is_reported_once_however_its_files_are_spelled(grow, monkeypatch, paths: list[str]) -> None:
    root = grow({"helper.py": CLIP, "train.py": loop()})
    monkeypatch.chdir(root)
    assert reported(*[path.format(root=root, name=root.name) for path in paths]) == [AT_THE_CLIP]


@pytest.mark.parametrize("path", ["train.py", "./train.py", "{root}/train.py", "../{name}/train.py"])
def test_findings_keep_the_path_that_was_given(grow, monkeypatch, path: str) -> None:
    root = grow({"helper.py": CLIP, "train.py": loop()})
    monkeypatch.chdir(root)
    path = path.format(root=root, name=root.name)
    (finding,) = check_paths([path]).findings
    assert finding.site.path == path


def test_the_working_directory_decides_nothing_within_a_project(grow, monkeypatch, tmp_path_factory) -> None:
    root = grow({"tools/helper.py": CLIP, "scripts/train.py": loop("from tools.helper import clip")})
    for folder in (root, root / "scripts", root / "tools", tmp_path_factory.mktemp("elsewhere")):
        monkeypatch.chdir(folder)
        for spelled in (os.path.relpath(root / "scripts" / "train.py"), str(root / "scripts" / "train.py")):
            assert reported(spelled) == [AT_THE_CALL]
        for spelled in (os.path.relpath(root / "tools" / "helper.py"), str(root / "tools" / "helper.py")):
            assert reported(spelled) == [AT_THE_CLIP]


def test_a_tree_without_a_marker_is_read_as_far_as_its_folder(grow) -> None:
    root = grow({"helper.py": CLIP, "train.py": loop()}, marker=False)
    assert reported(root / "train.py") == [AT_THE_CALL]
    assert reported(root / "helper.py") == [AT_THE_CLIP]


def test_no_fault_is_lost_where_many_files_use_a_helper(grow) -> None:
    """The helper is run for the nearest few of them; here only one that is not among these shows the fault."""
    right = loop().replace("        clip(model)", "        scaler.unscale_(optimizer)\n        clip(model)")
    root = grow({"helper.py": CLIP, **{f"a{n}.py": right for n in range(6)}, "train.py": loop()})
    assert reported(root) == [AT_THE_CLIP]


def test_pipes_and_circles_beside_a_script_harm_nobody(grow) -> None:
    root = grow(
        {
            "helper.py": CLIP,
            "train.py": loop("from pipe import *\nfrom round import *\nfrom helper import clip"),
        }
    )
    os.mkfifo(root / "pipe.py")
    (root / "round.py").symlink_to("round.py")
    (root / "again").symlink_to(".")
    line = AT_THE_CALL[1] + 2
    assert reported(root / "train.py") == [("train.py", line, "AMP101")]
    assert reported(root / "helper.py") == [AT_THE_CLIP]
    report = check_paths([str(root)])
    assert [(os.path.basename(f.site.path), f.code) for f in report.findings] == [
        ("helper.py", "AMP101"),
        ("pipe.py", "AMP900"),
        ("round.py", "AMP900"),
    ]


def test_each_file_is_listed_once(grow, monkeypatch) -> None:
    root = grow({"a.py": "", "inner/b.py": ""})
    monkeypatch.chdir(root)
    assert list(python_files(["./a.py", ".", "a.py", str(root), "inner/../a.py"])) == ["./a.py", "inner/b.py"]


def test_a_name_that_a_package_binds_hides_its_module(grow) -> None:
    """``parts.clip`` is the function that the __init__ imports, not the module that it stands in."""
    root = grow(
        {
            "parts/__init__.py": "from .clip import clip\n",
            "parts/clip.py": CLIP,
            "train.py": loop("from parts import clip"),
        }
    )
    assert reported(root / "train.py") == [AT_THE_CALL]


def test_a_script_that_is_part_of_an_import_cycle(grow) -> None:
    root = grow(
        {
            "helper.py": CLIP.replace("import torch\n", "import torch\nfrom train import M\n").replace(
                "1.0", "M"
            ),
            "train.py": loop("from helper import clip\n\nM = 1.0"),
        }
    )
    assert reported(root / "train.py") == [("train.py", 15, "AMP101")]
    assert reported(root / "helper.py") == [("helper.py", 6, "AMP101")]
    assert reported(root) == [("helper.py", 6, "AMP101")]


def test_a_cycle_of_three_modules(grow) -> None:
    root = grow(
        {
            "one.py": loop("from two import clip").replace("train(", "run("),
            "two.py": "from three import bound\n\n\ndef clip(model):\n    bound(model)\n",
            "three.py": CLIP.replace("clip(", "bound(")
            + "\n\ndef again(model, loader):\n    from one import run\n    run(model, loader)\n",
        }
    )
    for asked in (["one.py"], ["two.py"], ["three.py"], ["three.py", "one.py"]):
        found = reported(*[root / name for name in asked])
        assert found == (
            [("three.py", 5, "AMP101")]
            if "three.py" in asked
            else [("one.py", 13, "AMP101")][: "one.py" in asked]
        )
    assert reported(root) == [("three.py", 5, "AMP101")]


def test_a_base_class_of_another_file_runs_with_the_subclasses_hooks(grow) -> None:
    base = """
        import torch

        class Base:
            def fit(self, model, loader):
                self.optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
                self.scaler = torch.amp.GradScaler("cuda")
                for x in loader:
                    with torch.autocast("cuda", dtype=torch.float16):
                        loss = model(x).mean()
                    self.optimizer.zero_grad()
                    self.scaler.scale(loss).backward()
                    self.ready(model)
                    self.scaler.step(self.optimizer)
                    self.scaler.update()

            def ready(self, model):
                pass
        """
    task = """
        import torch
        from base import Base as Foundation

        class Task(Foundation):
            def ready(self, model):
                {unscale}torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        """
    root = grow(
        {
            "base.py": base,
            "wrong.py": task.replace("{unscale}", ""),
            "right.py": task.replace("{unscale}", "self.scaler.unscale_(self.optimizer)\n                "),
        }
    )
    assert reported(root) == [("wrong.py", 6, "AMP101")]
    assert reported(root / "wrong.py") == [("wrong.py", 6, "AMP101")]
    assert reported(root / "right.py") == []
    assert reported(root / "base.py") == []


def test_what_a_library_is_called_here_does_not_matter(grow) -> None:
    """DDP by another name, in another file: synchronising in every micro-batch of a window is noticed."""
    loop = """
        import torch
        from wrapping import prepare

        def train(net, loader):
            model = prepare(net)
            optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
            for i, x in enumerate(loader):
                (model(x).mean() / 4).backward()
                if (i + 1) % 4 == 0:
                    optimizer.step()
                    optimizer.zero_grad()
        """
    wrapping = """
        from torch.nn.parallel import DistributedDataParallel as Wrapper

        def prepare(net):
            return Wrapper(net)
        """
    root = grow({"train.py": loop, "wrapping.py": wrapping})
    assert ("train.py", 8, "AMP401") in [f for f in reported(root / "train.py") if f[2] != "AMP308"]
    (root / "wrapping.py").write_text("def prepare(net):\n    return net\n")
    assert "AMP401" not in [code for _, _, code in reported(root / "train.py")]
