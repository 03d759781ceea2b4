"""AMP102, 117 and 119-122 on traces built by hand: what they find, where, and what they leave alone."""

from __future__ import annotations

from dataclasses import replace

import pytest

from ampcheck import events as ev
from ampcheck.events import Site
from ampcheck.registry import built_in
from ampcheck.rule import Violation
from ampcheck.trace import Role, Trace
from tests.tracing import (
    Item,
    backward,
    boundary,
    build,
    choice,
    clip,
    differentiate,
    edit,
    internal,
    loop,
    raw_step,
    read,
    result_test,
    step,
    trace,
    unscale,
    update,
    when,
    zero,
)

CODES = {"AMP102", "AMP117", "AMP119", "AMP120", "AMP121", "AMP122"}
RULES = [rule for rule in built_in() if rule.code in CODES]
AT = Site("train.py", 1, 1, 1, 2)
BUILT = Role("scaler", "scaler", "scaler", site=AT)
OPTIMIZER = Role("optimizer", "optimizer", "optimizer", site=AT)


def violations(subject: Trace) -> list[tuple[str, Violation]]:
    return [(rule.code, v) for rule in RULES for v in rule.check(subject)]


def found(subject: Trace) -> list[str]:
    """The codes found; those that are only possible with a question mark."""
    return [code if v.certain else f"{code}?" for code, v in violations(subject)]


def using(item: Item, use: str) -> Item:
    return replace(item, event=replace(item.event, use=use))  # type: ignore[call-arg]


STEP = (step(), update(), zero())


class TestGradReadBeforeUnscale:
    @pytest.mark.parametrize(
        ("use", "codes"),
        [("shown", ["AMP102"]), ("tested", ["AMP102"]), ("kept", ["AMP102?"]), ("clip", []), ("", [])],
    )
    def test_what_counts_is_the_use(self, use: str, codes: list[str]) -> None:
        subject = trace(loop([backward(), using(read(), use), *STEP]))
        assert found(subject) == codes

    def test_the_message_and_the_story(self) -> None:
        subject = trace(loop([backward(), read(), *STEP]))
        ((_, violation),) = violations(subject)
        assert "S times too large" in violation.message
        assert violation.predicts == "S"
        assert [type(subject.records[i].event) for i in violation.steps] == [ev.Backward, ev.Step]

    def test_unscaled_gradients_may_be_read(self) -> None:
        assert not found(trace(loop([backward(), unscale(), read(), *STEP])))
        assert not found(trace(loop([backward(), step(), update(), read(), zero()])))
        assert not found(trace(loop([backward(scaler=None), read(), raw_step(), zero()])))

    def test_a_clip_or_an_edit_of_the_same_gradients_is_the_finding(self) -> None:
        assert not found(trace(loop([backward(), read(), clip(), *STEP])))
        assert not found(trace(loop([backward(), edit("shift"), read(), *STEP])))
        assert found(trace(loop([backward(), read(), edit("multiply"), *STEP]))) == ["AMP102"]
        assert found(trace(loop([backward(), read(), unscale(), clip(), *STEP]))) == ["AMP102"]

    def test_inside_a_window(self) -> None:
        def body(i: int) -> list[Item]:
            return [backward(divided=True), read(), *when(boundary((i + 1) % 3 == 0), *STEP)]

        assert found(trace(loop(body), window=3)) == ["AMP102"]


class TestAutogradGradOfScaledLoss:
    @pytest.mark.parametrize("use", ["penalty", "step"])
    def test_used_undivided(self, use: str) -> None:
        subject = trace(loop([using(differentiate(), use), backward(), *STEP]))
        assert found(subject) == ["AMP117"]
        assert "undivided" in violations(subject)[0][1].message

    def test_divided_first(self) -> None:
        assert not found(trace(loop([differentiate(use=""), backward(), *STEP])))

    def test_it_counts_as_a_use_of_the_scaler(self) -> None:
        subject = trace([differentiate(), backward(scaler=None), step()])
        assert not any(record.refused for record in subject.records)


class TestScalerInLoop:
    def body(self, *before: Item) -> list[Item]:
        return loop([backward(), *STEP], epoch_start=before)

    def test_for_every_epoch(self) -> None:
        subject = trace(self.body(build("scaler", "scaler")), roles=[OPTIMIZER, BUILT])
        assert found(subject) == ["AMP119"]
        assert "for every epoch" in violations(subject)[0][1].message

    def test_for_every_batch(self) -> None:
        subject = trace(loop([build("scaler", "scaler"), backward(), *STEP]), roles=[OPTIMIZER, BUILT])
        assert found(subject) == ["AMP119"]
        assert "for every batch" in violations(subject)[0][1].message

    def test_an_optimizer_of_the_caller_lasts(self) -> None:
        given = Role("optimizer", "optimizer", "optimizer", known=False, given=True)
        assert found(trace(self.body(build("scaler", "scaler")), roles=[given])) == ["AMP119"]

    def test_an_optimizer_of_unknown_origin_may_be_new_as_well(self) -> None:
        unseen = Role("optimizer", "optimizer", "optimizer", known=False)
        assert found(trace(self.body(build("scaler", "scaler")), roles=[unseen])) == ["AMP119?"]

    def test_a_new_training_has_a_new_scaler(self) -> None:
        new = (build("optimizer", "optimizer"), build("scaler", "scaler"))
        assert not found(trace(self.body(*new), roles=[OPTIMIZER, BUILT]))

    def test_a_root_that_is_only_assumed_to_be_called_again(self) -> None:
        subject = trace(self.body(build("scaler", "scaler")), roles=[OPTIMIZER, BUILT])
        assert found(replace(subject, repeated=True)) == ["AMP119?"]

    def test_where_there_is_none_yet(self) -> None:
        missing = when(choice("scaler is None"), build("scaler", "scaler"))
        assert found(trace(self.body(*missing), roles=[OPTIMIZER, BUILT])) == ["AMP119?"]

    def test_once(self) -> None:
        subject = trace(loop([backward(), *STEP], before=[build("scaler", "scaler")]), roles=[OPTIMIZER])
        assert not found(subject)


class TestClosureWithScaler:
    @pytest.mark.parametrize(
        ("how", "says"), [("keyword", "torch raises"), ("positional", "S times the gradients")]
    )
    def test_a_closure(self, how: str, says: str) -> None:
        given = step(passed="keyword") if how == "keyword" else step(passed="positional")
        subject = trace(loop([zero(), backward(), given, update()]))
        assert found(subject) == ["AMP120"]
        assert says in violations(subject)[0][1].message

    def test_something_that_may_be_none(self) -> None:
        assert found(trace(loop([zero(), backward(), step(closure=True), update()]))) == ["AMP120?"]

    def test_a_raw_step(self) -> None:
        assert not found(trace(loop([zero(), backward(scaler=None), raw_step(closure=True)])))


class TestScalerStepResultTested:
    def test_of_a_scaler_that_is_built_here(self) -> None:
        subject = trace(loop([backward(), step(), result_test(), update(), zero()]), roles=[BUILT])
        assert found(subject) == ["AMP121"]
        assert "it is None" in violations(subject)[0][1].message

    def test_of_another_class_perhaps(self) -> None:
        unseen = Role("scaler", "scaler", "scaler")
        subject = trace(loop([backward(), step(), result_test(), update(), zero()]), roles=[unseen])
        assert found(subject) == ["AMP121?"]


class TestScalerInternalsUsed:
    @pytest.mark.parametrize("name", ["_scale", "_growth_tracker", "_per_optimizer_states"])
    def test_read_and_written(self, name: str) -> None:
        for written, word in ((False, "read"), (True, "written")):
            subject = trace([internal(name, written=written)], roles=[BUILT])
            assert found(subject) == ["AMP122"]
            assert f"is {word} here" in violations(subject)[0][1].message

    def test_by_its_name_only(self) -> None:
        assert found(trace([internal()], roles=[replace(BUILT, known=False)])) == ["AMP122?"]
