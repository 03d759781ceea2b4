"""Which definitions hold part of a step, through imports, and which modules a program takes in for them."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from ampcheck.assembly import assemble, hooks_of
from ampcheck.program import Link, Program
from ampcheck.project import DEEPEST, Project
from ampcheck.source import decode, read_bytes

STEP = "def run(loss):\n    loss.backward()\n"
LOOP = "    optimizer.zero_grad()\n    for x in loader:\n"


def program(root: Path, file: str = "train.py", project: Project | None = None) -> Program:
    path = str(root / file)
    return assemble(project or Project(), decode(path, Path(path).read_bytes()))


def modules(root: Path, file: str = "train.py") -> set[str]:
    """The files that a program consists of, named from the root."""
    return {p if Program.is_model(p) else os.path.relpath(p, root) for p in program(root, file).modules}


def chain(length: int) -> dict[str, str]:
    """Modules m1 ... mN, each of which calls the next; only the last one steps."""
    last = {f"m{length}.py": "def run(loss):\n    loss.backward()\n"}
    return last | {
        f"m{n}.py": f"from m{n + 1} import run as further\n\n\ndef run(loss):\n    further(loss)\n"
        for n in range(1, length)
    }


def test_a_definition_is_eventful_by_its_own_names_or_by_what_it_calls(grow) -> None:
    root = grow(
        {
            "near.py": STEP,
            "far.py": "from near import run\nimport near\n\n\ndef a(x):\n    run(x)\n\n\ndef b(x):\n    print(x)\n",
        }
    )
    project, far = Project(), str(root / "far.py")
    assert project.is_eventful(str(root / "near.py"), "run")
    assert project.is_eventful(far, "a")
    assert project.is_eventful(far, "run")
    assert not project.is_eventful(far, "b")
    assert not project.is_eventful(far, "near")
    assert not project.is_eventful(far, "absent")


@pytest.mark.parametrize("backwards", [False, True])
def test_how_far_events_are_seen_does_not_depend_on_who_asked_before(grow, backwards: bool) -> None:
    length = DEEPEST + 3
    root = grow(chain(length))
    project = Project()
    order = range(length, 0, -1) if backwards else range(1, length + 1)
    seen = {n for n in order if project.is_eventful(str(root / f"m{n}.py"), "run")}
    assert seen == {n for n in range(1, length + 1) if length - n <= DEEPEST}


def test_two_modules_that_import_each_other_are_both_eventful_if_one_is(grow) -> None:
    files = {
        "one.py": "import two\nfrom two import b\n\n\ndef a(x):\n    b(x)\n\n\ndef c(x):\n    x.backward()\n",
        "two.py": "from one import a, c\n\n\ndef b(x):\n    a(x)\n    c(x)\n",
    }
    root = grow(files)
    for order in (("one", "a", "two", "b"), ("two", "b", "one", "a")):
        project = Project()
        asked = [(order[i], order[i + 1]) for i in (0, 2)]
        assert all(project.is_eventful(str(root / f"{module}.py"), name) for module, name in asked)


def test_holders_are_imported_functions_and_functions_of_imported_modules(grow) -> None:
    root = grow(
        {
            "steps.py": f"{STEP}\n\ndef show(x):\n    print(x)\n",
            "train.py": "import steps as s\nfrom steps import run as go, show\n\ns.run(x)\ngo(x)\nshow(x)\ns.show(x)\n",
        }
    )
    assert Project().holders(str(root / "train.py")) == {"go", "run"}


def test_only_what_a_step_can_depend_on_is_taken_in(grow) -> None:
    root = grow(
        {
            "train.py": """
                from steps import run
                from losses import dice
                from logs import show
                from nets import Net

                net = Net()
                for x in loader:
                    loss = dice(net(x))
                    show(loss)
                    run(loss)
                """,
            "steps.py": STEP,
            "losses.py": "def dice(x):\n    return x.mean()\n",
            "logs.py": "def show(x):\n    print(x)\n",
            "nets.py": "class Net(nn.Module):\n    def forward(self, x):\n        return x.mean()\n",
        }
    )
    assert modules(root) == {"train.py", "steps.py", "losses.py"}


def test_what_is_far_away_or_long_is_taken_in_for_events_only(grow) -> None:
    long = "def dice(x):\n" + "    x = x + 1\n" * 20 + "    return x.mean()\n"
    root = grow(
        {
            "train.py": "from losses import dice\n\nfor x in loader:\n    dice(x).backward()\n",
            "losses.py": long,
        }
    )
    assert modules(root) == {"train.py"}
    (root / "losses.py").write_text(long + "    x.backward()\n")
    assert modules(root) == {"train.py", "losses.py"}


def test_modules_of_modules_are_linked_from_where_they_are_imported(grow) -> None:
    root = grow(
        {
            "train.py": "from vision.loops import epoch\n\nepoch(x)\n",
            "vision/__init__.py": "",
            "vision/loops.py": "from .steps import run\n\n\ndef epoch(x):\n    run(x)\n    x.backward()\n",
            "vision/steps.py": STEP,
        }
    )
    found = program(root)
    loops, steps = (str(root / "vision" / f"{name}.py") for name in ("loops", "steps"))
    assert found.link(str(root / "train.py"), "vision.loops.epoch") == Link(loops, "epoch")
    assert found.link(loops, ".steps.run") == Link(steps, "run")
    assert found.link(str(root / "train.py"), ".steps.run") is None


def test_the_main_files_own_imports_win_over_its_modules_own(grow) -> None:
    """Python has one module of a name: what the script has loaded is what its packages get."""
    root = grow(
        {
            "train.py": "from steps import run\nfrom parts.loops import epoch\n\nrun(x)\nepoch(x)\n",
            "steps.py": STEP,
            "parts/loops.py": "from steps import run\n\n\ndef epoch(x):\n    run(x)\n    x.backward()\n",
            "parts/steps.py": STEP,
        }
    )
    assert program(root).link("anything", "steps.run") == Link(str(root / "steps.py"), "run")


@pytest.mark.parametrize("spelled", ["train.py", "./train.py", "../{here}/train.py"])
@pytest.mark.parametrize("how", ["from train import settle", "from train import *"])
def test_a_module_that_imports_the_script_gets_the_script_itself(
    grow, monkeypatch, spelled: str, how: str
) -> None:
    root = grow(
        {
            "train.py": "from steps import run\n\n\ndef settle(x):\n    x.backward()\n\n\nrun(x)\n",
            "steps.py": f"{how}\n\n\ndef run(x):\n    settle(x)\n    x.backward()\n",
        }
    )
    monkeypatch.chdir(root)
    path = spelled.format(here=root.name)
    found = assemble(Project(), decode(path, (root / "train.py").read_bytes()))
    steps = next(other for other in found.modules if other.endswith("steps.py"))
    assert set(found.modules) == {path, steps}
    if "*" in how:
        assert found.links[steps, "*settle"] == Link(path, "settle")
    else:
        assert found.link(steps, "train.settle") == Link(path, "settle")


def test_hooks_are_what_a_class_and_its_bases_in_other_files_share(grow) -> None:
    root = grow(
        {
            "base.py": "class Base:\n    schedule = None\n    def fit(self):\n        self.ready()\n",
            "task.py": """
                from base import Base

                class Task(Base):
                    def ready(self):
                        self.flag = True
                """,
            "starred.py": "from base import *\n\nclass Task(Base):\n    def ready(self):\n        self.flag = True\n",
            "dotted.py": "import base as b\n\nclass Task(b.Base):\n    def ready(self):\n        self.flag = True\n",
            "inside.py": "import a.base\n\nclass Task(a.base.Base):\n    def ready(self):\n        self.flag = True\n",
            "a/base.py": "class Base:\n    schedule = None\n    def fit(self):\n        self.ready()\n",
            "alone.py": "class Base: pass\n\nclass Task(Base):\n    def ready(self):\n        self.flag = True\n",
        }
    )
    for file in ("task.py", "starred.py", "dotted.py", "inside.py"):
        path = str(root / file)
        hooks = hooks_of(Project(), path)
        assert hooks == {"schedule", "ready", "flag", "__wraps__"}
    path = str(root / "alone.py")
    assert hooks_of(Project(), path) == frozenset()


def test_bases_in_a_circle_end(grow) -> None:
    root = grow(
        {
            "one.py": "from two import B\n\nclass A(B):\n    def a(self):\n        self.x = 1\n",
            "two.py": "from one import A\n\nclass B(A):\n    def b(self):\n        self.y = 1\n",
        }
    )
    path = str(root / "one.py")
    assert {"x", "y"} <= hooks_of(Project(), path)


def test_an_engine_is_linked_by_what_everybody_calls_it(grow) -> None:
    root = grow({"train.py": "def run(accelerator, loss):\n    accelerator.backward(loss)\n"})
    assert "<accelerate>" in modules(root)
    (root / "train.py").write_text("def run(engine, loss):\n    engine.backward(loss)\n")
    assert modules(root) == {"train.py"}


def test_what_is_left_out_is_said(grow, monkeypatch) -> None:
    monkeypatch.setattr("ampcheck.assembly.MOST_MODULES", 2)
    names = ["a", "b", "c"]
    root = grow(
        {
            **{f"{name}.py": f"def {name}(loss):\n    loss.backward()\n" for name in names},
            "few.py": "from a import a\nfrom b import b\n\na(x)\nb(x)\n",
            "train.py": "".join(f"from {n} import {n}\n" for n in names)
            + "".join(f"{n}(x)\n" for n in names),
        }
    )
    assert program(root, "few.py").missing == ""
    found = program(root)
    assert len(found.modules) == 3
    assert "more than 2 modules" in found.missing
    assert "c.py" in found.missing


def test_a_module_that_is_no_python_is_left_out(grow) -> None:
    root = grow({"train.py": "from steps import run\n\nrun(x.backward())\n", "steps.py": "def run(:\n"})
    assert modules(root) == {"train.py"}
    (root / "steps.py").write_bytes(b"\xff\xfe\x00def")
    assert modules(root) == {"train.py"}


def test_an_answer_of_one_file_serves_the_next(grow, monkeypatch) -> None:
    root = grow(
        {
            "a.py": "from steps import run\n\nrun(x)\n",
            "b.py": "from steps import run\n\nrun(x)\n",
            "steps.py": STEP,
        }
    )
    read: list[str] = []

    def counted(path: str) -> bytes:
        read.append(path)
        return read_bytes(path)

    monkeypatch.setattr("ampcheck.project.read_bytes", counted)
    project = Project()
    one, other = program(root, "a.py", project), program(root, "b.py", project)
    steps = str(root / "steps.py")
    assert read == [steps]
    assert one.modules[steps] is other.modules[steps]
