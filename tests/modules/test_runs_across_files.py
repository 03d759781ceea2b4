"""What runs of several files come to: modules run when they are asked for, classes inherited, arguments annotated."""

from __future__ import annotations

from pathlib import Path

import pytest

from ampcheck import program as p
from ampcheck.assembly import assemble
from ampcheck.events import Backward, Step
from ampcheck.project import Project
from ampcheck.running import Exploration, explore
from ampcheck.running.inheriting import ancestors
from ampcheck.source import decode
from tests.running.derived import micros, only, story, units

HEAD = "import torch\n"
TRAIN = """
    import torch
    {head}

    def train(model, loader{more}):
        optimizer = torch.optim.SGD(model.parameters(), 0.1)
        for i, x in enumerate(loader):
            {body}
    """


def program(root: Path, file: str = "train.py") -> p.Program:
    path = str(root / file)
    return assemble(Project(), decode(path, Path(path).read_bytes()))


def run(root: Path, file: str = "train.py") -> Exploration:
    return explore(program(root, file))


def train(head: str, *body: str, more: str = "") -> str:
    return TRAIN.format(head=head.replace("\n", "\n    "), body="\n            ".join(body), more=more)


STEP_OF_FOUR = (
    "(model(x).mean() / K).backward()",
    "if (i + 1) % K == 0:",
    "    optimizer.step()",
    "    optimizer.zero_grad()",
)
PLAIN = ("model(x).mean().backward()", "optimizer.step()", "optimizer.zero_grad()")


# --- modules --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("how", "name"),
    [
        ("from settings import K", "K"),
        ("from settings import K as KK", "KK"),
        ("from settings import *", "K"),
        ("import settings", "settings.K"),
        ("import settings as s", "s.K"),
        ("import conf.deep as d", "d.K"),
        ("import conf.deep", "conf.deep.K"),
        ("from conf import deep", "deep.K"),
        ("from conf import Config", "Config.K"),
        ("from conf import Typed", "Typed.K"),
        ("from conf import config", "config.K"),
        ("from guarded import K", "K"),
        ("from computed import K", "K"),
    ],
)
def test_a_windows_length_of_another_module(grow, how: str, name: str) -> None:
    """Two micro-batches a window, two windows and a tail an epoch; of an unknown length there would be three."""
    root = grow(
        {
            "train.py": train(how, *(line.replace("K", name) for line in STEP_OF_FOUR)),
            "settings.py": "K = 2\n",
            "conf/__init__.py": """
                from .deep import K as L

                class Config:
                    K = L

                class Typed:
                    K: int = 2

                config = Config()
                """,
            "conf/deep.py": "K = 2\n",
            "guarded.py": "try:\n    from settings import K\nexcept ImportError:\n    K = 5\n",
            "computed.py": "from settings import K as half\n\nK = half * 2 - 2\n",
        }
    )
    trace = only(run(root))
    assert micros(trace, Step)[:2] == [1, 3]
    assert len(units(trace)) == 1


def test_a_module_is_run_once_and_what_it_does_is_not_run(grow) -> None:
    """Loops and calls at the top level of an imported module are for whoever starts that."""
    root = grow(
        {
            "train.py": train("from other import step", "step(model(x).mean(), optimizer)"),
            "other.py": """
                def step(loss, optimizer):
                    loss.backward()
                    optimizer.step()
                    optimizer.zero_grad()

                for x in loader:
                    x.backward()
                """,
        }
    )
    (trace,) = run(root).traces
    assert story(trace, 0) == "backward step zero"


def test_modules_that_import_each_other_run(grow) -> None:
    root = grow(
        {
            "train.py": train("from one import step", "step(model(x).mean(), optimizer)"),
            "one.py": """
                from two import settle

                def step(loss, o):
                    loss.backward()
                    settle(o)

                def clear(o):
                    o.zero_grad()
                """,
            "two.py": "import one\n\n\ndef settle(o):\n    o.step()\n    one.clear(o)\n",
        }
    )
    assert story(only(run(root)), 0) == "backward step zero"


def test_a_module_that_fails_in_the_middle_keeps_what_it_had(grow) -> None:
    root = grow(
        {
            "train.py": train("from other import step", "step(model(x).mean(), optimizer)"),
            "other.py": """
                def step(loss, o):
                    loss.backward()
                    o.step()
                    o.zero_grad()

                if True:
                    raise ImportError
                """,
        }
    )
    assert story(only(run(root)), 0) == "backward step zero"


def test_an_optimizer_built_elsewhere_is_one_role(grow) -> None:
    root = grow(
        {
            "train.py": train(
                "from build import make", "model(x).mean().backward()", "other.step()", "other.zero_grad()"
            ).replace("torch.optim.SGD(model.parameters(), 0.1)", "None; other = make(model)"),
            "build.py": "import torch\n\n\ndef make(model):\n    return torch.optim.Adam(model.parameters())\n",
        }
    )
    trace = only(run(root))
    assert len({event.optimizer for _, event in trace.of(Step)}) == 1
    assert all(event.reaches for _, event in trace.of(Backward))


# --- classes --------------------------------------------------------------------------------------------------


BASE = "class {name}({of}):\n    def fit(self): self.o.step()\n"


def names(root: Path, file: str, cls: str) -> list[str]:
    found = program(root, file)
    node = next(n for n in found.main.body if isinstance(n, p.ClassDef) and n.name == cls)
    return [base.name for base in ancestors(found, node)]


@pytest.mark.parametrize(
    ("how", "base"),
    [
        ("from bases import B", "B"),
        ("from bases import B as Base", "Base"),
        ("import bases", "bases.B"),
        ("import bases as b", "b.B"),
        ("from bases import *", "B"),
        ("from bases import B", "B[int]"),
        ("try:\n    from .bases import B\nexcept ImportError:\n    from bases import B", "B"),
    ],
)
def test_bases_in_other_files_nearest_first(grow, how: str, base: str) -> None:
    root = grow(
        {
            "top.py": BASE.format(name="A", of=""),
            "bases.py": "from top import A\n" + BASE.format(name="B", of="A"),
            "train.py": f"{how}\n" + BASE.format(name="C", of=base),
        }
    )
    assert names(root, "train.py", "C") == ["B", "A"]


def test_bases_in_a_circle_are_listed_once(grow) -> None:
    root = grow(
        {
            "one.py": "from two import B\n" + BASE.format(name="A", of="B"),
            "two.py": "from one import A\n" + BASE.format(name="B", of="A"),
        }
    )
    assert names(root, "one.py", "A") == ["B"]


def test_a_base_that_nobody_knows_is_passed_over(grow) -> None:
    root = grow(
        {"train.py": "from elsewhere import B\nimport c\n" + BASE.format(name="A", of="B, c.C, make()")}
    )
    assert names(root, "train.py", "A") == []


@pytest.mark.parametrize("flag", [True, False])
def test_an_attribute_that_only_the_subclass_sets_decides_in_the_base(grow, flag: bool) -> None:
    """`self.flag` is no event's word: it stays in the slice because base and subclass share it."""
    root = grow(
        {
            "base.py": """
                class Base:
                    def fit(self, model, loader):
                        self.setup()
                        for x in loader:
                            model(x).mean().backward()
                            if self.flag:
                                self.optimizer.step()
                            self.optimizer.zero_grad()
                """,
            "train.py": f"""
                import torch
                from base import Base

                class Task(Base):
                    def setup(self):
                        self.flag = {flag}
                        self.optimizer = torch.optim.SGD(self.net.parameters(), 0.1)
                """,
        }
    )
    stories = {story(trace, 0) for trace in run(root).traces if trace.of(Backward)}
    assert stories == {"backward step zero" if flag else "backward zero"}


# --- annotations ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("head", "annotation", "known"),
    [
        ("", "torch.optim.Optimizer", True),
        ("from torch.optim import AdamW", "AdamW", True),
        ("from torch.optim import Optimizer as O", "O", True),
        ("from torch.optim import Optimizer", '"Optimizer"', True),
        ("from torch.optim import Optimizer", "Optimizer | None", False),
        ("from typing import Optional", "Optional[torch.optim.Optimizer]", False),
        ("", "int", False),
        ("from mine import Optimizer", "Optimizer", False),
    ],
)
def test_an_argument_annotated_as_an_optimizer_is_one(grow, head: str, annotation: str, known: bool) -> None:
    source = f"""
        import torch
        {head}

        def train(model, loader, thing: {annotation}):
            for x in loader:
                model(x).mean().backward()
                thing.step()
                thing.zero_grad()
        """
    trace = run(grow({"train.py": source})).traces[0]
    assert [role.kind for role in trace.roles.values() if role.known] == (["optimizer"] if known else [])


@pytest.mark.parametrize(
    ("arguments", "engine", "accelerated"),
    [
        ("accelerator", "accelerator", True),
        ("my_engine: Accelerator", "my_engine", True),
        ('my_engine: "Accelerator"', "my_engine", True),
        ("self", "self.accelerator", True),
        ("self", "self._accelerator", True),
        ("my_engine", "my_engine", False),
        ("accelerators", "accelerators", False),
    ],
)
def test_an_engine_by_its_name_or_its_annotation(
    grow, arguments: str, engine: str, accelerated: bool
) -> None:
    """Its backward divides by the window: the loss that is differentiated shows it."""
    source = f"""
        import torch
        from accelerate import Accelerator

        def train({arguments}, model, loader):
            optimizer = torch.optim.SGD(model.parameters(), 0.1)
            for x in loader:
                {engine}.backward(model(x).mean())
                optimizer.step()
                optimizer.zero_grad()
        """
    traces = run(grow({"train.py": source})).traces
    assert bool([1 for trace in traces for _ in trace.of(Backward)]) is accelerated


def test_a_device_called_accelerator_is_no_engine(grow) -> None:
    source = train("", "model(x.to(accelerator)).mean().backward()", *PLAIN[1:], more=", accelerator")
    found = program(grow({"train.py": source}))
    (trace,) = explore(found).traces
    assert {role.engine for role in trace.roles.values()} == {""}
