"""The rules about what a window leaves over and what its parts are divided by, on traces built by hand.

What an epoch leaves over, what another optimizer's loss leaves, and losses of which K is not the right divisor.
"""

from __future__ import annotations

import pytest

from ampcheck.check import Options, check_paths
from ampcheck.registry import built_in
from ampcheck.trace import Role, Trace
from tests.expectations import FIXTURES
from tests.tracing import (
    Item,
    backward,
    boundary,
    choice,
    escape,
    forward,
    loop,
    part,
    raw_step,
    step,
    trace,
    update,
    when,
    zero,
)

CODES = {"AMP307", "AMP310", "AMP311", "AMP317", "AMP318"}
RULES = {rule.code: rule for rule in built_in() if rule.code in CODES}
K = 3


def found(subject: Trace) -> list[str]:
    """What the rules say: ``AMP307 Step``, with a question mark where it is only possible, "note" where it is one."""
    lines = []
    for rule in RULES.values():
        for violation in rule.check(subject):
            mark = "" if violation.certain else "?"
            less = f" {violation.severity}" if violation.severity else ""
            lines.append(f"{rule.code}{mark} {type(subject.records[violation.record].event).__name__}{less}")
            assert violation.record not in violation.steps, "a story is about the other records"
            assert list(violation.steps) == sorted(set(violation.steps))
    return sorted(lines)


def closing(i: int, text: str = "(i + 1) % k == 0") -> list[Item]:
    return when(boundary((i + 1) % K == 0, text), step(), update(), zero())


class TestLeftovers:
    @staticmethod
    def body(i: int) -> list[Item]:
        return [backward(divided=True), *closing(i)]

    def test_307_a_tail_that_is_carried_over(self) -> None:
        subject = trace(loop(self.body), window=K)
        assert found(subject) == ["AMP307 Step"]
        (violation,) = RULES["AMP307"].check(subject)
        assert violation.site == subject.records[violation.record].guards[0].site

    def test_307_two_micro_batches_left(self) -> None:
        assert found(trace(loop(self.body, length=8), window=K)) == ["AMP307 Step"]

    def test_307_not_where_an_epoch_is_whole(self) -> None:
        assert not found(trace(loop(self.body, length=6), window=K))

    def test_307_not_in_one_epoch(self) -> None:
        assert not found(trace(loop(self.body, epochs=1), window=K))

    def test_307_is_a_note_where_the_tail_is_dropped(self) -> None:
        assert found(trace(loop(self.body, epoch_start=[zero()]), window=K)) == ["AMP307 ZeroGrad note"]
        assert found(trace(loop(self.body, epoch_end=[zero()]), window=K)) == ["AMP307 ZeroGrad note"]

    def test_307_is_a_note_where_the_next_window_opens_with_a_zeroing(self) -> None:
        def body(i: int) -> list[Item]:
            opening = when(boundary(i % K == 0, "i % k == 0"), zero())
            last = when(boundary((i + 1) % K == 0), step(), update())
            return [*opening, backward(divided=True), *last]

        assert found(trace(loop(body), window=K)) == ["AMP307 ZeroGrad note"]

    def test_307_not_where_the_tail_is_flushed(self) -> None:
        flush = [step(), update(), zero()]
        assert not found(trace(loop(self.body, epoch_end=flush), window=K))
        assert not found(trace(loop(self.body, epoch_end=flush, epoch_start=[zero()]), window=K))

    def test_307_not_where_the_count_runs_on(self) -> None:
        count = iter(range(100))

        def body(_: int) -> list[Item]:
            return [backward(divided=True), *closing(next(count))]

        assert not found(trace(loop(body), window=K))

    def test_307_not_where_even_the_first_window_is_another(self) -> None:
        def body(i: int) -> list[Item]:
            return [backward(divided=True), *closing(i + 1)]

        assert not found(trace(loop(body), window=K))

    def test_307_not_without_a_boundary(self) -> None:
        assert not found(trace(loop([backward(), step(), update(), zero()])))

    def test_307_not_of_gradients_that_unseen_code_has_had(self) -> None:
        def body(i: int) -> list[Item]:
            return [backward(divided=True), escape("optimizer"), *closing(i)]

        assert not found(trace(loop(body), window=K))


class TestDivisors:
    @staticmethod
    def looped(*items: Item) -> list[Item]:
        """Whole windows only, so that nothing is left over."""
        return loop(lambda i: [*items, *closing(i)], length=6)

    def test_310_a_sum_over_k(self) -> None:
        subject = trace(self.looped(backward(divided=True, reduction="sum")), window=K)
        assert found(subject) == ["AMP310 Backward"]

    def test_310_is_possible_for_a_literal_two(self) -> None:
        def body(i: int) -> list[Item]:
            at = boundary(i % 2 == 1, "i % 2 == 1")
            return [backward(divided=True, reduction="sum"), *when(at, step(), update(), zero())]

        assert found(trace(loop(body, length=4), window=2, literal=True)) == ["AMP310? Backward"]

    @pytest.mark.parametrize("reduction", ["mean", "unknown"])
    def test_310_not_of_another_reduction(self, reduction: str) -> None:
        assert not found(trace(self.looped(backward(divided=True, reduction=reduction)), window=K))  # type: ignore[arg-type]

    def test_310_not_where_something_else_divides(self) -> None:
        tokens = part("scaler", window=-1, other=["elements"])
        assert not found(trace(self.looped(backward(parts=[tokens], reduction="sum")), window=K))
        assert not found(trace(self.looped(backward(reduction="sum")), window=K))

    def test_311_in_one_loss(self) -> None:
        mixed = backward(parts=[part("scaler", window=-1), part("scaler")])
        assert found(trace(self.looped(mixed), window=K)) == ["AMP311 Backward"]

    def test_311_in_two_backwards(self) -> None:
        items = self.looped(backward(divided=True), backward())
        assert found(trace(items, window=K)) == ["AMP311 Backward"]

    def test_311_is_possible_once_in_a_window(self) -> None:
        def body(i: int) -> list[Item]:
            last = boundary((i + 1) % K == 0)
            return [backward(divided=True), *when(last, backward(), step(), update(), zero())]

        assert found(trace(loop(body, length=6), window=K)) == ["AMP311? Backward"]

    def test_311_is_possible_where_something_else_divides(self) -> None:
        mixed = backward(parts=[part("scaler", window=-1), part("scaler", other=["num_boxes"])])
        assert found(trace(self.looped(mixed), window=K)) == ["AMP311? Backward"]

    def test_311_not_where_all_are_divided_or_none(self) -> None:
        assert not found(trace(self.looped(backward(divided=True), backward(divided=True)), window=K))
        assert not found(trace(self.looped(backward(), backward()), window=K))

    def test_318_a_mean_over_tokens(self) -> None:
        tokens = part("scaler", window=-1, other=["mask.sum()"])
        assert found(trace(self.looped(backward(parts=[tokens])), window=K)) == ["AMP318 Backward"]

    def test_318_not_where_the_window_is_one_mean(self) -> None:
        tokens = part("scaler", other=["tokens_in_window"])
        assert not found(trace(self.looped(backward(parts=[tokens])), window=K))

    def test_318_is_off_unless_it_is_selected(self) -> None:
        path = str(FIXTURES / "mean_of_unequal_micro_batches" / "wrong_mask.py")
        assert not check_paths([path]).findings
        selected = check_paths([path], options=Options(select=frozenset({"AMP318"}))).findings
        assert [f.code for f in selected] == ["AMP318"]


class TestOtherLosses:
    ROLES = (
        Role("opt_d", "optimizer", "opt_d", detail="Adam", models=("d",)),
        Role("opt_g", "optimizer", "opt_g", detail="Adam", models=("g",)),
    )

    def looped(self, *items: Item) -> Trace:
        return trace(loop(items, length=3, epochs=1), roles=self.ROLES)

    OWN = backward("opt_d", scaler=None, forwards=[forward("d", "")])
    OTHER = backward("opt_d", "opt_g", scaler=None, forwards=[forward("d", ""), forward("g", "")])
    STEPS_D = (raw_step("opt_d"), zero("opt_d"))
    STEPS_G = (raw_step("opt_g"), zero("opt_g"))

    def test_317_zeroed_before_the_other_loss(self) -> None:
        assert found(self.looped(self.OWN, *self.STEPS_D, self.OTHER, *self.STEPS_G)) == ["AMP317 Step"]

    def test_317_is_possible_in_one_iteration(self) -> None:
        assert found(self.looped(self.OTHER, *self.STEPS_G, self.OWN, *self.STEPS_D)) == ["AMP317? Step"]

    def test_317_is_possible_where_the_model_may_be_frozen(self) -> None:
        toggle = escape("M:d", into="toggle_grad")
        subject = self.looped(toggle, self.OWN, *self.STEPS_D, toggle, self.OTHER, *self.STEPS_G)
        assert found(subject) == ["AMP317? Step"]

    def test_317_not_where_it_is_zeroed(self) -> None:
        subject = self.looped(zero("opt_d"), self.OWN, raw_step("opt_d"), self.OTHER, *self.STEPS_G)
        assert not found(subject)

    def test_317_not_where_the_other_loss_does_not_reach_it(self) -> None:
        alone = backward("opt_g", scaler=None, forwards=[forward("g", "")])
        assert not found(self.looped(self.OWN, *self.STEPS_D, alone, *self.STEPS_G))

    def test_317_not_where_it_is_only_assumed_to_be_reached(self) -> None:
        guess = backward("opt_d", "opt_g", scaler=None, assumed=["opt_d", "opt_g"])
        assert not found(self.looped(self.OWN, *self.STEPS_D, guess, *self.STEPS_G))

    def test_317_not_of_one_loss_that_two_optimizers_share(self) -> None:
        both = (raw_step("opt_g"), raw_step("opt_d"), zero("opt_d", "opt_g"))
        assert not found(self.looped(self.OTHER, *both))

    def test_317_not_of_an_optimizer_that_steps_less_often(self) -> None:
        def body(i: int) -> list[Item]:
            slow = when(choice("i % every == 0", i % 2 == 1, varying=True), *self.STEPS_D) if i % 2 else []
            return [self.OTHER, *self.STEPS_G, *slow]

        assert not found(trace(loop(body, length=6, epochs=1), roles=self.ROLES))
