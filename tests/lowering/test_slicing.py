"""Only what an event depends on is kept: an `if` with nothing left in it is gone and can fork no run."""

from __future__ import annotations

import ast
import textwrap

import pytest

from ampcheck import program as p
from ampcheck.lowering import lower
from ampcheck.lowering.outline import outline
from ampcheck.lowering.select import select
from ampcheck.source import Source


def parsed(text: str) -> Source:
    text = textwrap.dedent(text).lstrip("\n")
    return Source("train.py", text, ast.parse(text))


def kept(text: str) -> list[str]:
    """The statements that are left of a function's body, each on one line; blocks by their first line."""
    module = lower(parsed(text))
    return [
        f"if {module.text(node.test)}" if isinstance(node, p.If) else module.text(node).split(":")[0]
        for node in p.walk(*module.body)
        if isinstance(node, p.Stmt) and not isinstance(node, (p.FunctionDef, p.ClassDef))
    ]


def train(body: str) -> str:
    return "def train(model, loader, optimizer):\n" + textwrap.indent(
        textwrap.dedent(body).strip("\n"), "    "
    )


@pytest.mark.parametrize(
    "statement",
    [
        "print(i)",
        "logger.info('step %d', i)",
        "wandb.log({'loss': 1.0})",
        "if i % 10 == 0:\n    print(i)",
        "if verbose:\n    logger.info('x')\nelse:\n    print('y')",
        "for name in names:\n    print(name)",
        "with open(path) as f:\n    f.write('x')",
        "try:\n    print(1)\nexcept OSError:\n    print(2)",
        "'a string'",
        "history = []",
        "history.append(1)",
        "total += 1",
        "plot(history)",
    ],
)
def test_what_no_event_depends_on_is_dropped(statement: str) -> None:
    assert kept(train(f"{statement}\nmodel(x).backward()")) == ["model(x).backward()"]


@pytest.mark.parametrize(
    ("statement", "rest"),
    [
        ("loss = model(x)", "loss.backward()"),
        ("a = model(x)\nloss = a + 1", "loss.backward()"),
        ("loss, _ = model(x)", "loss.backward()"),
        ("out['loss'] = model(x)", "out['loss'].backward()"),
        ("self.loss = model(x)", "self.loss.backward()"),
        ("losses = []\nlosses.append(model(x))", "sum(losses).backward()"),
        ("loss = 0\nloss += model(x)", "loss.backward()"),
        ("n = compute()", "if n:\n    x.backward()"),
        ("clip = torch.nn.utils.clip_grad_norm_", "clip(p, 1)"),
    ],
)
def test_what_an_event_depends_on_is_kept(statement: str, rest: str) -> None:
    found = kept(train(f"{statement}\n{rest}"))
    for line in statement.split("\n"):
        assert line in found


def test_a_dependency_may_follow_in_a_loop() -> None:
    found = kept(train("for x in loader:\n    if ready:\n        x.backward()\n    ready = check(x)"))
    assert "ready = check(x)" in found


def test_a_test_that_is_itself_an_event_is_kept() -> None:
    assert "scaler.get_scale() < before" in " ".join(
        kept(train("if scaler.get_scale() < before:\n    print(1)"))
    )


def test_a_norm_in_the_test_is_kept_without_its_branch() -> None:
    module = lower(parsed(train("if torch.nn.utils.clip_grad_norm_(p, 1.0) > 5:\n    print('large')")))
    statements = [node for node in p.walk(*module.body) if isinstance(node, (p.If, p.ExprStmt))]
    assert [type(node).__name__ for node in statements] == ["ExprStmt"]


@pytest.mark.parametrize("jump", ["continue", "break", "return", "raise ValueError", "assert ok"])
def test_jumps_decide_whether_events_happen(jump: str) -> None:
    found = kept(train(f"for x in loader:\n    if bad:\n        {jump}\n    x.backward()"))
    assert "if bad" in found
    assert jump in found


def test_jumps_in_functions_without_events_decide_nothing_about_names() -> None:
    source = """
        def count(items):
            for item in items:
                if strange(item):
                    return item

        def train(model, loader):
            for x in loader:
                model(x).backward()
    """
    module = lower(parsed(source))
    assert [s.name for s in module.body if isinstance(s, p.FunctionDef)] == ["train"]


def test_a_printed_call_that_holds_an_event_is_kept() -> None:
    source = "def go(x):\n    x.backward()\n    return x\n\n" + train("print(go(x))")
    assert "print(go(x))" in kept(source)


def test_a_helpers_parameters_matter_where_it_is_given_gradients() -> None:
    source = """
        def shrink(tensors, factor):
            for tensor in tensors:
                tensor.mul_(factor)

        def train(model, optimizer):
            shrink([p.grad for p in model.parameters()], 0.5)
            optimizer.step()
    """
    assert "tensor.mul_(factor)" in kept(source)


def test_imports_are_always_kept() -> None:
    assert kept("import os\nfrom a import b\nx.backward()") == [
        "import os",
        "from a import b",
        "x.backward()",
    ]


# --- picking top-level statements -------------------------------------------------------------------------------


def picked(text: str) -> list[tuple[int, str]]:
    source = parsed(text)
    return [(segment.line, segment.text.strip()) for segment in select(source, outline(source))]


def test_statements_without_events_are_not_even_parsed() -> None:
    assert picked("""
        a = 1

        def other():
            return 1

        def train(x):
            x.backward()

        b = 2
    """) == [(6, "def train(x):\n    x.backward()")]


def test_what_a_picked_statement_refers_to_is_picked() -> None:
    text = """
        K = 4

        other = 5

        def divide(x):
            return x / K

        gap = 6

        def train(x):
            divide(x).backward()
    """
    assert [line for line, _ in picked(text)] == [1, 5, 10]


def test_what_calls_a_picked_function_is_picked() -> None:
    text = """
        def train(x):
            x.backward()

        def unrelated():
            pass

        def main():
            run()

        def run():
            train(1)
    """
    assert "".join(text for _, text in picked(text)).count("def ") == 3


def test_statements_that_share_a_line_are_read_as_one() -> None:
    assert picked("import a\nimport b\nx = 1; x.backward()\n") == [
        (1, "import a"),
        (2, "import b"),
        (3, "x = 1; x.backward()"),
    ]


def test_a_decorator_belongs_to_its_function() -> None:
    assert picked("\n\n@decorate(\n    1)\ndef train(x):\n    x.backward()\n")[0][0] == 1


def test_main_guards_are_picked() -> None:
    text = "def main():\n    pass\n\n\nif __name__ == '__main__':\n    main()\n\n\nx.backward()\n"
    assert any("__name__" in segment for _, segment in picked(text))


def test_a_source_without_a_tree_is_read_whole() -> None:
    source = Source("train.py", "a = 1\n\n\nb.backward()\n", None)
    assert [(s.line, s.text) for s in select(source, outline(source))] == [(1, source.text)]
