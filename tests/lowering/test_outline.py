"""What a file's top-level statements bind and mention, what they tell of a step, and which of them are read."""

from __future__ import annotations

import ast
import textwrap

import pytest

from ampcheck.lowering.outline import Outline, outline
from ampcheck.lowering.piece import Piece
from ampcheck.lowering.select import select
from ampcheck.lowering.telling import bases_of, contributes, is_mute, own_attributes, tells
from ampcheck.source import Source


def source(text: str) -> Source:
    text = textwrap.dedent(text).lstrip("\n")
    return Source("x.py", text, ast.parse(text))


def facts(text: str) -> Outline:
    return outline(source(text))


def piece(text: str) -> Piece:
    (only,) = facts(text).pieces
    return only


def lines(text: str, **asked: frozenset[str]) -> list[int]:
    """The lines that are read, from 1."""
    file = source(text)
    return [
        segment.line + offset
        for segment in select(file, outline(file), **asked)
        for offset in range(segment.text.count("\n"))
    ]


# --- outlines -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("statement", "bound"),
    [
        ("import a", {"a": "a"}),
        ("import a.b", {"a": "a"}),
        ("import a.b as c", {"c": "a.b"}),
        ("import a.b, d", {"a": "a", "d": "d"}),
        ("from a.b import c as d", {"d": "a.b.c"}),
        ("from . import c", {"c": ".c"}),
        ("from .. import c", {"c": "..c"}),
        ("from .a import c", {"c": ".a.c"}),
        ("from ..a.b import c", {"c": "..a.b.c"}),
        ("try:\n    from a import c\nexcept ImportError:\n    from b import c", {"c": "a.c"}),
        ("if True:\n    import a", {"a": "a"}),
        ("def f():\n    from a import c", {"c": "a.c"}),
        ("from a import *", {}),
    ],
)
def test_imports_by_the_names_that_they_bind(statement: str, bound: dict[str, str]) -> None:
    assert facts(statement).imports == bound


@pytest.mark.parametrize(
    ("statement", "module"),
    [("from a.b import *", "a.b"), ("from . import *", "."), ("from ..a import *", "..a")],
)
def test_star_imports(statement: str, module: str) -> None:
    assert facts(statement).stars == (module,)


def test_exports_are_definitions_and_assignments_and_the_last_one_counts() -> None:
    found = facts(
        """
        import a
        X = Y = 1
        Z: int = 2
        def f(): local = 1
        class C:
            member = 1
        if X:
            def g(): pass
        try:
            from b import h
        except ImportError:
            def h(): pass
        def f(): return 2
        """
    )
    assert found.exports.keys() == {"X", "Y", "Z", "f", "C", "g", "h"}
    assert found.exports["f"] is found.pieces[-1]


def test_an_import_in_a_try_is_no_export_but_is_given() -> None:
    found = facts("try:\n    from a import c\nexcept ImportError:\n    print()")
    assert found.exports == {}
    assert found.pieces[0].gives({"c"})
    assert not found.pieces[0].gives({"a"})


def test_what_goes_by_another_name_is_mentioned_by_its_own_too() -> None:
    text = "from torch.nn.parallel import DistributedDataParallel as DDP\nmodel = DDP(net)\n"
    assert {"DDP", "DistributedDataParallel", "net"} <= facts(text).pieces[1].used


def test_a_file_that_only_libcst_can_read_has_an_empty_outline() -> None:
    assert outline(Source("x.py", "x", None)).pieces == ()


def test_reachable_is_transitive_and_leaves_networks_out() -> None:
    found = facts(
        """
        K = 4
        def boundary(i): return i % K == 0
        class Net(Module):
            def forward(self, x): return layer(x)
        def layer(x): return x
        def run(i): return boundary(i) and Net()
        def other(): pass
        """
    )
    names = [sorted(p.bound) for p in found.reachable(frozenset({"run"}))]
    assert names == [["K"], ["boundary"], ["run"]]


# --- what a definition tells ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("def f(x): x.backward()", True),
        ("def f(o): o.step()", True),
        ("def f(x, step): return x + step", False),
        ("def f(log, step): log(step=step)", False),
        ("def f(p): return p.grad", True),
        ("def f(grad): return grad", False),
        ("def f(x): return x.scale", False),
        ("def f(d): d.update(a=1)", False),
        ("def f(m): clip_grad_norm_(m.parameters(), 1.0)", True),
        ("def f(m): return DDP(m)", False),
        ("class N(nn.Module):\n    def forward(self, x): self.cache.step(x)", False),
        ("class N(nn.Module):\n    def fit(self, x): x.backward()", True),
        ("class T:\n    def fit(self): self.o.step()", True),
    ],
)
def test_a_definition_tells_of_an_event_by_its_names(text: str, told: bool) -> None:
    assert tells(piece(text)) is told


@pytest.mark.parametrize(
    ("base", "mute"),
    [
        ("nn.Module", True),
        ("Module", True),
        ("PreTrainedModel", True),
        ("GenerationMixin", True),
        ("pl.LightningModule", False),
        ("LightningDataModule", False),
        ("Trainer", False),
        ("object", False),
        ("Generic[T]", False),
        ("Base[Module]", False),
    ],
)
def test_networks_are_mute_by_their_bases(base: str, mute: bool) -> None:
    assert is_mute(piece(f"class N({base}):\n    def forward(self, x): return self.layer(x)")) is mute


@pytest.mark.parametrize(
    ("text", "can"),
    [
        ("ACCUM = 4", True),
        ("def boundary(i, k): return (i + 1) % k == 0", True),
        ("def dice(x): return x.mean()", True),
        ("def dice(x): x.mean()", False),
        ("def name(x): return x + 1", False),
        ("def text(x): return '%s' % x", True),  # cannot be told apart by names; harmless
        ("class Config:\n    accum = 4", True),
        ("class Meter:\n    def add(self, x): return x.mean()", False),
        ("class Net(nn.Module):\n    pass", False),
    ],
)
def test_what_a_step_can_depend_on(text: str, can: bool) -> None:
    assert contributes(piece(text)) is can


def test_bases_as_dotted_names() -> None:
    assert bases_of(piece("class C(A, b.B, G[int], f(), metaclass=M): pass")) == ["A", "b.B", "G"]
    assert bases_of(piece("def f(): pass")) == []


def test_own_attributes_are_those_of_self_and_of_the_class_body() -> None:
    text = """
        class C:
            flag, other = True, 1
            limit = 3
            typed: int = 4
            def f(self, that):
                self.x = that.y
                self.run(self.z.w)
        """
    assert own_attributes(piece(text)) == {"limit", "typed", "x", "run", "z"}


# --- what is read ---------------------------------------------------------------------------------------------


def test_statements_with_events_and_what_they_refer_to_are_read() -> None:
    text = """
        import torch
        K = 4
        UNUSED = 5
        def boundary(i): return i % K == 0
        def show(x): print(x)
        def train(o, i):
            if boundary(i): o.step()
        def main(): train(o, 1)
        show(1)
        """
    assert lines(text) == [1, 2, 4, 6, 7, 8]


def test_guarded_imports_are_read_where_their_names_are_used() -> None:
    text = """
        try:
            from a import clip
        except ImportError:
            from b import clip
        try:
            import c
        except ImportError:
            raise
        def train(x): clip(x.backward())
        """
    assert lines(text) == [1, 2, 3, 4, 9]


def test_of_an_imported_file_only_what_is_asked_for_is_read() -> None:
    text = """
        import torch
        K = 4
        def boundary(i): return i % K == 0
        def train(o): o.step()
        def other(o): o.step()
        """
    assert lines(text, wanted=frozenset({"boundary"})) == [1, 2, 3]
    assert lines(text, wanted=frozenset({"train", "absent"})) == [1, 4]


def test_calls_of_imported_holders_are_read() -> None:
    text = "from steps import go\n\n\ndef train(x):\n    go(x)\n"
    assert lines(text) == [1]
    assert lines(text, holders=frozenset({"go"})) == [1, 4, 5]


def test_decorators_belong_to_what_they_decorate() -> None:
    assert lines("import a\n\n@a.b\n@a.c\ndef train(o): o.step()\n") == [1, 3, 4, 5]


def test_statements_that_share_a_line_are_read_together() -> None:
    text = "x = 1; o.step(); y = 2\nz = 3\n"
    assert lines(text) == [1]


def test_without_a_tree_all_of_it_is_read() -> None:
    file = Source("x.py", "a\nb\n", None)
    (segment,) = select(file, outline(file))
    assert (segment.line, segment.text) == (1, "a\nb\n")
