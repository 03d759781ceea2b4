"""When an exploration may stand for another one: the program runs alike, place for place."""

from __future__ import annotations

from typing import Any

import pytest

from ampcheck import program as p
from ampcheck.running import Exploration, Explorations, again, explore
from ampcheck.running.shape import Shapes
from tests.running.derived import lowered

LOOP = """
def train(model, loader, optimizer, scaler, k):
    for i, x in enumerate(loader):
        loss = model(x).mean() / k
        scaler.scale(loss).backward()
        if (i + 1) % k == 0:
            scaler.unscale_(optimizer)
            scaler.step(optimizer)
            scaler.update()
            optimizer.zero_grad()
"""


@pytest.fixture
def runs(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """One entry for each program that was really run."""
    done: list[str] = []

    def counted(program: p.Program, *rest: Any) -> Exploration:
        done.append(program.main.path)
        return explore(program, *rest)

    monkeypatch.setattr(again, "explore", counted)
    return done


def explored(*texts: str) -> list[Exploration]:
    """What one memory says of several versions of a file; each is what a fresh exploration says."""
    memory = Explorations()
    found = [memory.explore(p.Program(lowered(text))) for text in texts]
    assert found == [explore(p.Program(lowered(text))) for text in texts]
    return found


@pytest.mark.parametrize(
    "text",
    [
        LOOP,
        "\n\n# a remark\n" + LOOP,
        LOOP.replace("\n    for", "\n\n    # a remark\n    for"),
        LOOP.replace(".backward()\n", ".backward()  # noted\n\n"),
        LOOP + "\n\nprint('done')\n",
        LOOP.replace("        loss", "        shown = x.shape\n        loss"),
    ],
)
def test_what_stands_elsewhere_but_runs_alike_is_not_run_again(text: str, runs: list[str]) -> None:
    explored(LOOP, text)
    assert len(runs) == 1


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("/ k\n", "/ 1\n"),
        ("% k == 0", "% k == 1"),
        ("% k", "%  k"),  # a test's text is what the configuration is told by
        ("i + 1", "i + True"),
        ("i + 1", "i + 1.0"),
        ("scaler.update()", "scaler.update(1.0)"),
        ("scaler, k)", "scaler, k=4)"),
        ("def train", "def tries"),
        ("    for i, x", "    for x, i"),
        ("            scaler.update()\n", ""),
        ("            optimizer.zero_grad()", "        optimizer.zero_grad()"),
    ],
)
def test_what_runs_otherwise_is_run_again(old: str, new: str, runs: list[str]) -> None:
    assert old in LOOP
    explored(LOOP, LOOP.replace(old, new))
    assert len(runs) == 2


def test_everything_in_an_exploration_moves(runs: list[str]) -> None:
    one, other = explored(LOOP, "# a remark\n" + LOOP.lstrip())
    lines = [[r.event.site.line for r in found.traces[0].records] for found in (one, other)]
    assert lines[1] == [line + 1 for line in lines[0]]


def test_another_setting_or_link_is_another_program(runs: list[str]) -> None:
    memory = Explorations()
    memory.explore(p.Program(lowered(LOOP)))
    memory.explore(p.Program(lowered(LOOP), settings={"zero_stage": 2}))
    memory.explore(p.Program(lowered(LOOP), links={("", "helpers"): p.Link("helpers.py")}))
    assert len(runs) == 3


def test_places_that_fall_together_are_run_again() -> None:
    """Two statements at one place in one version, at two in another: a run can tell."""
    text = "loss.backward()\nloss.backward()\n"
    apart, together = p.Program(lowered(text)), p.Program(lowered(text))
    first, second = together.main.body[-2:]
    for one, other in zip(p.walk(first), p.walk(second), strict=True):
        other.site = one.site
    shapes = Shapes()
    assert shapes.of(apart).places_in(shapes.of(together)) is None
    assert shapes.of(together).places_in(shapes.of(apart)) is None


SPARE = """

def spare(k):
    scale = k.grad
    return scale
"""


@pytest.mark.parametrize(
    "other",
    [
        SPARE.replace("k.grad", "k.grad + 1"),
        SPARE.replace("    return", "    scale = [scale, k]\n    return"),
        "\n# a remark\n" + SPARE.replace("k.grad", "k.grad * 2"),
    ],
)
def test_a_body_that_no_run_has_looked_at_may_change(other: str, runs: list[str]) -> None:
    assert any(f.name == "spare" for f in p.walk(*lowered(other + LOOP).body) if isinstance(f, p.FunctionDef))
    explored(SPARE + LOOP, other + LOOP, SPARE + LOOP)
    assert len(runs) == 1


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("scale = k.grad", "scale = k.grad; k.zero_grad()"),  # now it is a root of its own
        ("scale = k.grad", "for scale in k:\n        scale.backward()"),
        ("scale = k.grad", "scale = k.grad; import math as scaler"),
        ("scale = k.grad", "scale = k.grad; yield scale"),
        ("spare(k)", "spare(k, n)"),
        ("def spare", "def train"),
        ("    return scale\n", "    return scale\n\n\ndef more(k):\n    return k.grad\n"),
    ],
)
def test_a_body_that_the_layout_speaks_of_is_run_again(old: str, new: str, runs: list[str]) -> None:
    assert old in SPARE
    explored(SPARE + LOOP, SPARE.replace(old, new) + LOOP)
    assert len(runs) == 2


def test_a_body_that_was_called_is_run_again(runs: list[str]) -> None:
    calling = LOOP.replace("/ k", "/ spare(k)")
    explored(SPARE + calling, SPARE.replace("k.grad", "k.grad + 1") + calling)
    assert len(runs) == 2


def test_methods_are_bodies_of_their_own(runs: list[str]) -> None:
    """What is found keeps its places although the body above it has grown, and shrinks again."""
    method = "\n\nclass Meter:\n    def add(self, k):\n        scale = k.grad\n        return scale\n"
    grown = method.replace("k.grad", "k.grad\n        scale = k.grad + 1\n        scale = [scale, k.grad]")
    first, second, third = explored(method + LOOP, grown + LOOP, method + LOOP)
    lines = [[r.event.site.line for r in found.traces[0].records] for found in (first, second, third)]
    assert lines[1] == [line + 2 for line in lines[0]]
    assert lines[2] == lines[0]
    assert len(runs) == 1
