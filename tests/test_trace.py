"""What a trace answers about itself."""

from __future__ import annotations

import pytest

from ampcheck.events import Backward, Clip, Step, Update
from ampcheck.trace import Guard, Role, Window
from tests import tracing as t


@pytest.mark.parametrize(
    ("choices", "condition"),
    [
        ([], ""),
        ([t.choice("use_amp")], "use_amp"),
        ([t.choice("use_amp", holds=False)], "not use_amp"),
        ([t.choice("a == 1", holds=False), t.choice("b")], "not (a == 1) and b"),
        ([t.choice("use_amp"), t.finite(), t.choice("i % 10 == 0", varying=True)], "use_amp"),
    ],
)
def test_the_condition_is_made_of_invariant_choices(choices: list[Guard], condition: str) -> None:
    assert t.trace([t.backward()], choices=choices).condition == condition


def test_of_gives_records_with_their_events() -> None:
    trace = t.trace([t.backward(), t.clip(), t.step(), t.update()])
    (found,) = trace.of(Clip)
    assert (found[0].index, found[0].event) == (1, found[1])
    assert [record.index for record, _ in trace.of(Update)] == [3]


def test_between_leaves_out_both_ends() -> None:
    trace = t.trace([t.backward(), t.clip(), t.step(), t.update()])
    assert [type(r.event) for r in trace.between(0, 3)] == [Clip, Step]
    assert trace.between(1, 2) == ()


def test_roles_of_a_kind_in_order() -> None:
    later = Role("extra", "optimizer", "extra")
    trace = t.trace([t.backward(), t.step(), t.update()], roles=[later])
    assert [role.id for role in trace.roles_of("optimizer")] == ["optimizer", "extra"]
    assert [role.id for role in trace.roles_of("scaler")] == ["scaler"]
    assert trace.roles_of("average") == ()


def test_records_know_the_state_before_and_after() -> None:
    trace = t.trace([t.backward(), t.step(), t.step()])
    (first, _), (second, _) = trace.of(Step)
    assert first.before.buffer("optimizer").is_scaled
    assert not first.after.buffer("optimizer").is_scaled
    assert second.refused
    assert next(trace.of(Backward))[0].before.buffer("optimizer").is_empty


def test_messages_name_a_number_as_it_is_and_code_in_backquotes() -> None:
    """`window` or `steps` is code, not prose: "before all window micro-batches are in" reads like a mistake."""
    assert Window(4, "4").named == "4"
    assert Window(3, "window").named == "`window`"
    assert Window(3, "args.accumulation_steps").named == "`args.accumulation_steps`"
