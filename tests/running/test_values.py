"""What is known of values on their way to an event: numbers, containers, Python's own functions."""

from __future__ import annotations

import pytest

from ampcheck.events import (
    Clip,
    Step,
)
from tests.running.derived import derive, loop, micros, only

STEP = "optimizer.step()\noptimizer.zero_grad()"


def runs(test: str, *, before: str = "pass", arguments: str = "args") -> list[bool]:
    """How a test comes out, in each run: whether the clip under it happens."""
    body = f"model(x).mean().backward()\nif {test}:\n    clip_grad_norm_(model.parameters(), 1.0)\n{STEP}"
    return [bool(micros(t, Clip)) for t in derive(loop(body, before=before, arguments=arguments)).traces]


@pytest.mark.parametrize(
    ("test", "holds"),
    [
        ("1 + 1 == 2", True),
        ("7 // 2 == 3", True),
        ("2 ** 3 > 7", True),
        ("7 % 4 == 3", True),
        ("-1 < 0", True),
        ("1 / 2 == 0.5", True),
        ("5 & 4 == 4", True),
        ("not 0", True),
        ("not 1", False),
        ("''", False),
        ("'a'", True),
        ("not ''", True),
        ("'a' == 'b'", False),
        ("'a' != 'b'", True),
        ("None is None", True),
        ("True and False", False),
        ("True or False", True),
        ("1 < 2 < 3", True),
        ("[]", False),
        ("[1]", True),
        ("{}", False),
        ("{'a': 1}", True),
        ("not []", True),
        ("'a' in {'a': 1}", True),
        ("'b' not in {'a': 1}", True),
        ("'a' in ('a', 'b')", True),
        ("'c' in ['a', 'b']", False),
        ("'c' not in ['a', 'b']", True),
        ("max(1, 2) == 2", True),
        ("min(1, 2) == 1", True),
        ("int(2.0) == 2", True),
        ("len([1, 2]) == 2", True),
        ("len(()) == 0", True),
        ("(1, 2)[1] == 2", True),
        ("[1, 2, 3][-1] == 3", True),
        ("[1, 2, 3][1:][0] == 2", True),
        ("[1, 2, 3][::2][1] == 3", True),
        ("{'a': 1}['a'] == 1", True),
        ("{'a': 1}.get('b', 2) == 2", True),
        ("{'a': 1}.get('b') is None", True),
        ("{**{'a': 1}, 'b': 2}['a'] == 1", True),
        ("[*[1, 2], 3][2] == 3", True),
        ("(1 if True else 2) == 1", True),
        ("(lambda n: n + 1)(1) == 2", True),
        ("[n for n in [1, 2, 3] if n > 1][0] == 2", True),
        ("{n: n + 1 for n in [1, 2]}[2] == 3", True),
        ("list({'a': 1}.keys())[0] == 'a'", True),
        ("list({'a': 1}.values())[0] == 1", True),
        ("[b for a, b in {'a': 1}.items()][0] == 1", True),
        ("([1] + [2])[1] == 2", True),
        ("math.ceil(2.0) == 2", True),
    ],
)
def test_what_can_be_computed_is_no_choice(test: str, holds: bool) -> None:
    assert runs(test) == [holds]


@pytest.mark.parametrize(
    "test",
    [
        "args.a",
        "args.a in ('a', 'b')",
        "args.a in args.b",
        "args['a'] > 1",
        "args.a == 1 or args.b",
        "len(args.a) > 2",
    ],
)
def test_what_cannot_be_computed_is_one(test: str) -> None:
    assert sorted(set(runs(test))) == [False, True]


@pytest.mark.parametrize(
    "number", ["1 / 0", "1 % 0", "10 ** 400", "(-8) ** 0.5", "1 << 400", "'a' + 1", "1 < 'a'"]
)
def test_arithmetic_that_fails_is_no_crash(number: str) -> None:
    assert runs(f"({number}) == 3")


def test_lists_that_grow() -> None:
    before = "n = []\nn.append(1)\nn.extend([2, 3])\nm = list(n)\nm.clear()"
    assert runs("len(n) == 3 and not m", before=before) == [True]


def test_items_are_stored() -> None:
    before = "n = [1, 2]\nn[0] = 5\nd = {}\nd['a'] = n[0]\nd.update({'b': 6})\ns = args.state\ns['k'] = 7"
    assert runs("n[0] == 5 and d['a'] == 5 and d['b'] == 6 and s['k'] == 7", before=before) == [True]


def test_attributes_are_stored() -> None:
    before = "args.state.n = 5\nalias = args.state"
    assert runs("alias.n == 5", before=before) == [True]


def test_class_attributes() -> None:
    source = "class Config:\n    clip = True\n    accum = 4\n\nConfig.late = True\n\n"
    body = (
        "(model(x).mean() / Config.accum).backward()\nif Config.clip and Config.late:\n"
        "    clip_grad_norm_(model.parameters(), 1.0)"
    )
    body += "\nif (i + 1) % Config.accum == 0:\n    optimizer.step()\n    optimizer.zero_grad()"
    trace = only(derive(source + loop(body)))
    assert len(micros(trace, Clip)) == 9
    assert micros(trace, Step) == [3, 7]


def test_a_table_of_types_makes_one_choice_for_each_key() -> None:
    body = f'with autocast("cuda", dtype=dtype):\n    loss = model(x).mean()\nloss.backward()\n{STEP}'
    before = 'dtype = {"fp16": torch.float16, "bf16": torch.bfloat16}[args.precision]'
    explored = derive(loop(body, before=before, arguments="args"))
    assert len(explored.traces) == 2


def test_unpacking_what_is_not_known() -> None:
    body = (
        "a, (b, c) = x\n(d, e) = [1, 2]\nmodel(a).mean().backward()\nif d == 1:\n"
        f"    {STEP.splitlines()[0]}\noptimizer.zero_grad()"
    )
    assert len(micros(only(derive(loop(body))), Step)) == 3
