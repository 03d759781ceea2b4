"""The rules about checkpoints, reductions by hand, ranks and configured precision, on traces built by hand."""

from __future__ import annotations

from dataclasses import replace

import pytest

from ampcheck.events import Checkpoint
from ampcheck.registry import built_in
from ampcheck.trace import Role, Trace
from tests.tracing import (
    Item,
    backward,
    boundary,
    build,
    checkpoint,
    clip,
    finite,
    forward,
    jump,
    loop,
    precision,
    raw_step,
    reduce,
    state_dict,
    step,
    trace,
    unscale,
    update,
    when,
    zero,
)

RULES = {
    rule.code: rule for rule in built_in() if rule.code in {"AMP408", "AMP410", "AMP606", "AMP801", "AMP802"}
}
DDP = forward()


def found(subject: Trace) -> list[str]:
    """What the rules say: ``AMP408 Clip``, with a question mark where it is only possible."""
    lines = []
    for rule in RULES.values():
        for violation in rule.check(subject):
            record = subject.records[violation.record]
            lines.append(f"{rule.code}{'' if violation.certain else '?'} {type(record.event).__name__}")
            assert violation.record not in violation.steps, "a story is about the other records"
            assert list(violation.steps) == sorted(set(violation.steps))
            assert violation.message[0].islower() or violation.message[0] == "`"
    return sorted(lines)


def built(subject: Trace) -> Trace:
    """The same trace with a scaler that is constructed in it."""
    site = subject.records[0].event.site
    role = replace(subject.roles["scaler"], site=site)
    return replace(subject, roles={**subject.roles, "scaler": role})


class TestScalerNotCheckpointed:
    BODY = loop([zero(), backward(), step(), update()])

    def test_a_checkpoint_without_the_scaler(self):
        assert found(built(trace([*self.BODY, checkpoint()]))) == ["AMP801 Checkpoint"]

    def test_one_finding_for_several_checkpoints_of_a_scaler_the_surest(self):
        subject = built(trace([*self.BODY, checkpoint(sure=False), checkpoint()]))
        assert found(subject) == ["AMP801 Checkpoint"]
        (violation,) = RULES["AMP801"].check(subject)
        event = subject.records[violation.record].event
        assert isinstance(event, Checkpoint)
        assert event.sure

    def test_an_unsure_checkpoint_is_possible(self):
        assert found(built(trace([*self.BODY, checkpoint(sure=False)]))) == ["AMP801? Checkpoint"]

    def test_a_scaler_that_the_caller_owns_may_be_saved_there(self):
        assert found(trace([*self.BODY, checkpoint()])) == ["AMP801? Checkpoint"]

    def test_no_scaler_no_finding(self):
        assert not found(trace([*loop([zero(), backward(scaler=None), raw_step()]), checkpoint()]))

    def test_a_checkpoint_of_another_optimizer(self):
        body = loop([zero(), backward("optimizer", "other"), step(), update(), raw_step("other")])
        assert not found(built(trace([*body, checkpoint("other")])))


class TestScalerSavedMidStep:
    def test_between_step_and_update(self):
        assert found(trace(loop([zero(), backward(), step(), state_dict(), update()]))) == [
            "AMP802 StateDict"
        ]

    def test_after_the_update(self):
        assert not found(trace(loop([zero(), backward(), step(), update(), state_dict()])))

    def test_an_update_that_never_comes_is_another_mistake(self):
        assert not found(trace([zero(), backward(), step(), state_dict()]))


class TestClipBeforeReduction:
    def test_a_clip_between_backward_and_reduction(self):
        body = loop([zero(), backward(scaler=None), clip(), reduce(), raw_step()], length=1, epochs=1)
        assert found(trace(body)) == ["AMP408 Clip"]

    def test_a_step_before_the_reduction(self):
        body = loop([zero(), backward(scaler=None), raw_step(), reduce()], length=1, epochs=1)
        assert found(trace(body)) == ["AMP408 Step"]

    def test_the_reduction_first(self):
        assert not found(trace(loop([zero(), backward(), reduce(), unscale(), clip(), step(), update()])))

    def test_a_reduction_at_the_end_of_the_window(self):
        def body(i: int) -> list[Item]:
            at = boundary((i + 1) % 3 == 0)
            return [backward(divided=True), *when(at, reduce(), unscale(), clip(), step(), update(), zero())]

        assert not found(trace(loop(body), window=3))

    def test_gradients_that_ddp_has_reduced(self):
        roles = [Role("model", "model", "model", detail="ddp")]
        body = loop([zero(), backward(forwards=(DDP,), scaler=None), clip(), reduce(), raw_step()])
        assert not found(trace(body, roles=roles))

    def test_a_second_reduction_finds_reduced_gradients(self):
        assert not found(
            trace(loop([zero(), backward(), reduce(), unscale(), clip(), reduce(), step(), update()]))
        )


class TestRankLocalSkip:
    GONE = finite(holds=False, text="not torch.isfinite(loss)")

    def skipping(self, guard=GONE, kind="continue", wrapped=True) -> Trace:
        forwards = (DDP,) if wrapped else ()
        whole = [zero(), backward(forwards=forwards), step(), update()]
        body = loop(lambda i: [zero(), *when(guard, jump(kind))] if i == 1 else whole)
        return trace(body, choices=[guard])

    def test_a_rank_leaves_before_its_backward(self):
        assert found(self.skipping()) == ["AMP410? Jump"]

    @pytest.mark.parametrize("text", ["all_reduce(shown)", "isfinite(reduce_mean(loss))", "world_finite"])
    def test_a_verdict_that_the_ranks_share(self, text):
        assert not found(self.skipping(finite(holds=False, text=text)))

    def test_an_error_ends_the_job(self):
        assert not found(self.skipping(kind="raise"))

    def test_one_process(self):
        assert not found(self.skipping(wrapped=False))


class TestPrecisionSetTwice:
    def test_both_types_in_one_place(self):
        assert found(trace([precision("ds.json", "deepspeed", fp16=True, bf16=True)])) == ["AMP606 Precision"]

    def test_a_framework_and_what_it_is_given(self):
        items = [
            precision("TrainingArguments", "arguments", fp16=True),
            precision("ds.json", "deepspeed", bf16=True, within="TrainingArguments"),
        ]
        assert found(trace(items)) == ["AMP606 Precision"]

    def test_the_same_in_both_is_redundant_only(self):
        items = [
            precision("Accelerator", "accelerator", fp16=True, bf16=False),
            precision("ds.json", "deepspeed", fp16=True, within="Accelerator"),
        ]
        assert not found(trace(items))

    def test_a_file_beside_the_code_is_possible(self):
        items = [
            precision("default_config.yaml", "accelerate", fp16=False, bf16=True, sure=False),
            precision("Accelerator", "accelerator", fp16=True, bf16=False),
        ]
        assert found(trace(items)) == ["AMP606? Precision"]

    def test_two_frameworks_of_a_file_are_not_mixed_up(self):
        items = [
            precision("the TrainingArguments in line 3", "arguments", fp16=True),
            precision("the TrainingArguments in line 9", "arguments", bf16=True),
            precision("ds.json", "deepspeed", bf16=True, within="the TrainingArguments in line 9"),
        ]
        assert not found(trace(items))


def test_builds_play_no_part_here():
    assert not found(trace([build("scaler", "scaler"), zero()]))
