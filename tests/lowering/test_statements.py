"""Each Python construct has one core node; what the core has no node for keeps its operands."""

from __future__ import annotations

import ast
import textwrap
from collections.abc import Iterator

import pytest

from ampcheck import program as p
from ampcheck.events import Site
from ampcheck.lowering import lower
from ampcheck.source import Source, Unreadable, decode


def lowered(text: str) -> p.Module:
    """A source with an event in it, so that nothing that the event's statement mentions is sliced away."""
    text = textwrap.dedent(text).lstrip("\n")
    return lower(Source("train.py", text, ast.parse(text)))


def expression(text: str) -> p.Expr:
    """The core expression of a source: the argument of a call that is an event."""
    (statement,) = lowered(f"x.backward({text})").body
    assert isinstance(statement, p.ExprStmt)
    call = statement.value
    assert isinstance(call, p.Call)
    (argument,) = call.arguments
    return argument.value


def shape(node: object) -> object:
    """A node as nested tuples, places left out."""
    match node:
        case p.Name(id=name):
            return name
        case p.Constant(value=value):
            return ("const", value)
        case p.Node():
            return (type(node).__name__, *(shape(getattr(node, name)) for name in _fields(node)))
        case p.Keyword(value=value, name=name, star=star):
            return (star + name, shape(value)) if star or name else shape(value)
        case p.Parameter(name=name, default=default, annotation=annotation, star=star):
            return (star + name, shape(default), shape(annotation))
        case tuple():
            return tuple(map(shape, node))
        case _:
            return node


def _fields(node: p.Node) -> Iterator[str]:
    for kind in reversed(type(node).__mro__):
        yield from (s for s in getattr(kind, "__slots__", ()) if s != "site")


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("a", "a"),
        ("None", ("const", None)),
        ("True", ("const", True)),
        ("1", ("const", 1)),
        ("0x10", ("const", 16)),
        ("1_000", ("const", 1000)),
        ("1.5e3", ("const", 1500.0)),
        ("2j", ("const", 2j)),
        ("...", ("const", ...)),
        ("'a'", ("const", "a")),
        ("b'a'", ("const", b"a")),
        ("'a' 'b'", ("const", "ab")),
        ("a.b", ("Attribute", "a", "b")),
        ("a[0]", ("Subscript", "a", ("const", 0))),
        ("a[1:b]", ("Subscript", "a", ("Slice", ("const", 1), "b", None))),
        ("a[::2]", ("Subscript", "a", ("Slice", None, None, ("const", 2)))),
        ("a[b, 1:c]", ("Subscript", "a", ("Opaque", ("b", ("const", 1), "c")))),
        ("f()", ("Call", "f", ())),
        ("f(a, *b, c=d, **e)", ("Call", "f", ("a", ("*", "b"), ("c", "d"), ("**", "e")))),
        ("a + b", ("Binary", "+", "a", "b")),
        ("a // b", ("Binary", "//", "a", "b")),
        ("a @ b", ("Binary", "@", "a", "b")),
        ("a << b", ("Binary", "<<", "a", "b")),
        ("a ** b", ("Binary", "**", "a", "b")),
        ("a + b * c", ("Binary", "+", "a", ("Binary", "*", "b", "c"))),
        ("(a + b) * c", ("Binary", "*", ("Binary", "+", "a", "b"), "c")),
        ("not a", ("Unary", "not", "a")),
        ("-a", ("Unary", "-", "a")),
        ("~a", ("Unary", "~", "a")),
        ("a and b", ("BoolOp", "and", "a", "b")),
        ("a or b and c", ("BoolOp", "or", "a", ("BoolOp", "and", "b", "c"))),
        ("a is not b", ("Compare", "is not", "a", "b")),
        ("a not in b", ("Compare", "not in", "a", "b")),
        ("a != b", ("Compare", "!=", "a", "b")),
        ("a < b < c", ("BoolOp", "and", ("Compare", "<", "a", "b"), ("Compare", "<", "b", "c"))),
        ("a if b else c", ("IfExp", "b", "a", "c")),
        ("(a, b)", ("Display", "tuple", ("a", "b"))),
        ("[a, *b]", ("Display", "list", ("a", ("Starred", "b")))),
        ("{a, b}", ("Display", "set", ("a", "b"))),
        ("{'a': b, **c}", ("DictDisplay", ((("const", "a"), "b"), (None, "c")))),
        ("lambda: a", ("Lambda", (), "a")),
        ("lambda a, b=1: a", ("Lambda", (("a", None, None), ("b", ("const", 1), None)), "a")),
        ("[a for a in b if c]", ("Comprehension", "list", "a", (("a", "b", ("c",)),), None)),
        ("{a for a in b}", ("Comprehension", "set", "a", (("a", "b", ()),), None)),
        ("{a: c for a in b}", ("Comprehension", "dict", "c", (("a", "b", ()),), "a")),
        (
            "(a for b in c for a in b)",
            ("Comprehension", "generator", "a", (("b", "c", ()), ("a", "b", ())), None),
        ),
        ("(a := b)", ("NamedExpr", "a", "b")),
        ("f'{a} and {b!r}'", ("Opaque", ("a", "b"))),
        ("'x' f'{a}'", ("Opaque", ())),
    ],
)
def test_expressions(text: str, expected: object) -> None:
    assert shape(expression(text)) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("a = x.backward", ("Assign", ("a",), ("Attribute", "x", "backward"), None)),
        ("a = b = x.backward", ("Assign", ("a", "b"), ("Attribute", "x", "backward"), None)),
        ("a: T = x.backward", ("Assign", ("a",), ("Attribute", "x", "backward"), "T")),
        ("x.grad += b", ("AugAssign", ("Attribute", "x", "grad"), "+", "b")),
        ("x.grad //= b", ("AugAssign", ("Attribute", "x", "grad"), "//", "b")),
        ("import a.b", ("Import", (("a", "a"),))),
        ("import a.b as c, d", ("Import", (("c", "a.b"), ("d", "d")))),
        ("from a.b import c, d as e", ("Import", (("c", "a.b.c"), ("e", "a.b.d")))),
        ("from . import a", ("Import", (("a", ".a"),))),
        ("from ..a import b", ("Import", (("b", "..a.b"),))),
        ("from a import *", ("Import", (("*", "a"),))),
    ],
)
def test_simple_statements(text: str, expected: object) -> None:
    (statement,) = lowered(text).body
    assert shape(statement) == expected


BACKWARD = ("ExprStmt", ("Call", ("Attribute", "x", "backward"), ()))


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("if a:\n    x.backward()", ("If", "a", (BACKWARD,), ())),
        (
            "if a:\n    x.backward()\nelif b:\n    x.backward()\nelse:\n    x.backward()",
            ("If", "a", (BACKWARD,), (("If", "b", (BACKWARD,), (BACKWARD,)),)),
        ),
        (
            "for a in b:\n    x.backward()\nelse:\n    x.backward()",
            ("For", "a", "b", (BACKWARD,), (BACKWARD,)),
        ),
        ("while a:\n    x.backward()\n    break", ("While", "a", (BACKWARD, ("Break",)), ())),
        ("with a as b, c:\n    x.backward()", ("With", (("a", "b"), ("c", None)), (BACKWARD,))),
        (
            "try:\n    x.backward()\nexcept E:\n    x.backward()\nelse:\n    x.backward()\nfinally:\n    x.backward()",
            ("Try", (BACKWARD,), ((BACKWARD,),), (BACKWARD,), (BACKWARD,)),
        ),
        (
            "try:\n    x.backward()\nexcept* E:\n    x.backward()",
            ("Try", (BACKWARD,), ((BACKWARD,),), (), ()),
        ),
    ],
)
def test_compound_statements(text: str, expected: object) -> None:
    (statement,) = lowered(text).body
    assert shape(statement) == expected


def test_a_definition() -> None:
    (function,) = lowered("""
        @decorated
        def train(a, /, b: T = 1, *args, c, d=2, **kw):
            x.backward()
    """).body
    assert isinstance(function, p.FunctionDef)
    assert (function.name, function.generator, shape(function.decorators)) == ("train", False, ("decorated",))
    assert shape(function.parameters) == (
        ("a", None, None),
        ("b", ("const", 1), "T"),
        ("*args", None, None),
        ("c", None, None),
        ("d", ("const", 2), None),
        ("**kw", None, None),
    )


def test_a_bare_star_parts_keywords_from_the_rest() -> None:
    (function,) = lowered("def train(a, *, b):\n    x.backward()").body
    assert isinstance(function, p.FunctionDef)
    assert [(q.name, q.star) for q in function.parameters] == [("a", ""), ("", "*"), ("b", "")]


@pytest.mark.parametrize(
    ("body", "generator"),
    [
        ("yield a", True),
        ("yield from a", True),
        ("b = yield a", True),
        ("def inner():\n        yield a", False),
        ("f = lambda: (yield a)", False),
    ],
)
def test_only_a_yield_of_its_own_makes_a_generator(body: str, generator: bool) -> None:
    function = lowered(f"def train():\n    x.backward()\n    {body}").body[0]
    assert isinstance(function, p.FunctionDef)
    assert function.generator == generator


def test_await_is_looked_through() -> None:
    (function,) = lowered("async def train():\n    await x.backward()").body
    assert isinstance(function, p.FunctionDef)
    assert shape(function.body) == (BACKWARD,)


def test_a_class() -> None:
    (cls,) = lowered("@d\nclass Trainer(Base, metaclass=M):\n    def fit(self):\n        x.backward()").body
    assert isinstance(cls, p.ClassDef)
    assert (cls.name, shape(cls.bases), shape(cls.decorators)) == ("Trainer", ("Base",), ("d",))


@pytest.mark.parametrize(
    ("pattern", "test"),
    [
        ("1", ("Compare", "==", "a", ("const", 1))),
        ("'s'", ("Compare", "==", "a", ("const", "s"))),
        ("Mode.AMP", ("Compare", "==", "a", ("Attribute", "Mode", "AMP"))),
        ("None", ("Compare", "is", "a", ("const", None))),
        (
            "1 | 2",
            ("BoolOp", "or", ("Compare", "==", "a", ("const", 1)), ("Compare", "==", "a", ("const", 2))),
        ),
        ("1 as b", ("Compare", "==", "a", ("const", 1))),
        ("1 if c", ("BoolOp", "and", ("Compare", "==", "a", ("const", 1)), "c")),
        ("_ if c", "c"),
        ("[b, *_]", ("Opaque", ("a",))),
        ("{'k': b}", ("Opaque", ("a",))),
        ("Point(x=0)", ("Opaque", ("a",))),
    ],
)
def test_a_match_is_a_chain_of_ifs(pattern: str, test: object) -> None:
    (statement,) = lowered(f"match a:\n    case {pattern}:\n        x.backward()").body
    assert shape(statement) == ("If", test, (BACKWARD,), ())


@pytest.mark.parametrize("pattern", ["_", "b", "_ as b", "1 | _"])
def test_a_pattern_that_always_matches_is_no_test(pattern: str) -> None:
    assert [shape(s) for s in lowered(f"match a:\n    case {pattern}:\n        x.backward()").body] == [
        BACKWARD
    ]


def test_cases_are_tried_in_order() -> None:
    (statement,) = lowered(
        "match a:\n  case 1:\n    x.backward()\n  case 2:\n    x.backward()\n  case _:\n    x.backward()"
    ).body
    first = ("Compare", "==", "a", ("const", 1))
    second = ("Compare", "==", "a", ("const", 2))
    assert shape(statement) == ("If", first, (BACKWARD,), (("If", second, (BACKWARD,), (BACKWARD,)),))


# --- places -----------------------------------------------------------------------------------------------------


def test_places_are_those_of_the_file_whatever_was_left_out() -> None:
    module = lowered("""
        unrelated = 1


        def other():
            return 2

        def train(loss):
            (loss
             / 2).backward()
    """)
    (call,) = [node for node in p.walk(*module.body) if isinstance(node, p.Call)]
    assert call.site == Site("train.py", 8, 5, 9, 21)
    assert module.text(call) == "(loss / 2).backward()"
    (name,) = [node for node in p.walk(call) if isinstance(node, p.Name)]
    assert (name.site.line, name.site.column, name.site.end_column) == (8, 6, 10)


def test_a_character_is_a_column_whatever_its_bytes() -> None:
    (statement,) = lowered("é = 'ü'; x.backward('→', a)").body
    assert isinstance(statement, p.ExprStmt)
    assert statement.site.column == 10


def test_children_and_walk_go_in_source_order() -> None:
    (statement,) = lowered("x.backward(a, k=b)").body
    names = [node.id for node in p.walk(statement) if isinstance(node, p.Name)]
    assert names == ["x", "a", "b"]
    assert [type(c).__name__ for c in p.children(statement)] == ["Call"]


# --- errors -----------------------------------------------------------------------------------------------------


def test_what_libcst_cannot_read_either_is_unreadable() -> None:
    source = Source("train.py", "x.backward()\n\ny = = 3\n", None)
    with pytest.raises(Unreadable, match=r"not Python: line 3: "):
        lower(source)


def test_what_only_libcst_can_read_is_lowered_whole() -> None:
    source = Source("train.py", "import torch\nx.backward()\n", None)
    assert [type(s).__name__ for s in lower(source).body] == ["Import", "ExprStmt"]


@pytest.mark.parametrize("text", ["x = loss.backward() \\\n   \ny = 1\n", "loss.backward() \\\n\n"])
def test_an_empty_line_ends_a_continued_one(text: str) -> None:
    module = lower(decode("train.py", text.encode()))
    assert len(module.body) == 1
