"""*certain*: in some configuration that the code admits, every run that gets there breaks the rule; else *possible*."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from ampcheck import verdict
from ampcheck.check import Options, check_paths
from ampcheck.events import Clip
from ampcheck.finding import Finding
from ampcheck.rule import Rule, Violation
from ampcheck.trace import Guard, Trace
from tests import tracing as t


class Clipped(Rule):
    """Every clip of scaled gradients, once a run."""

    code = "AMP998"
    name = "clipped"
    severity = "error"
    hint = "do not"

    def check(self, trace: Trace) -> Iterator[Violation]:
        """One violation at the first."""
        for record, _ in trace.of(Clip):
            if record.before.buffer("optimizer").is_scaled:
                yield Violation(record.index, "clipped", (record.index - 1,), certain=self.sure)
                return

    sure = True


class Guessed(Clipped):
    """The same, leaning on a guess."""

    sure = False


WRONG = [t.backward(), t.clip(), t.step(), t.update(), t.zero()]
CLIP, UNSCALE = t.clip(), t.unscale()
# The same places in every run.
BACKWARD, STEP, UPDATE, ZERO = t.backward(), t.step(), t.update(), t.zero()
AMP, PLAIN = t.choice("use_amp"), t.choice("use_amp", holds=False)
DEBUG, QUIET = t.choice("debug"), t.choice("debug", holds=False)
RARE = t.choice("i % 10 == 0", varying=True)


def run(
    *choices: Guard, clip: bool = True, unscale: bool = False, step: bool = True, root: str = "train"
) -> Trace:
    """A run of one loop, with or without its parts; each choice guards the clip."""
    items = [BACKWARD]
    items += t.when(choices[0], UNSCALE) if unscale and choices else [UNSCALE] if unscale else []
    if clip:
        clipped = [CLIP]
        for choice in choices:
            clipped = t.when(choice, *clipped)
        items += clipped
    items += [STEP, UPDATE, ZERO] if step else [ZERO]
    return t.trace(items, choices=choices, root=root)


def judge(*traces: Trace, rule: type[Rule] = Clipped) -> Sequence[Finding]:
    return verdict.findings_of(traces, [rule()])


def test_every_run_is_wrong() -> None:
    (finding,) = judge(run())
    assert (finding.code, finding.name, finding.severity, finding.verdict) == (
        "AMP998",
        "clipped",
        "error",
        "certain",
    )
    assert (finding.message, finding.hint, finding.condition) == ("clipped", "do not", "")
    assert finding.site == CLIP.event.site
    assert finding.witness is not None
    assert (finding.witness.record, finding.witness.steps) == (1, (0,))


def test_no_run_is_wrong() -> None:
    assert not judge(run(unscale=True), run(clip=False))


def test_wrong_in_one_configuration_is_certain_in_it() -> None:
    (finding,) = judge(run(AMP), run(PLAIN, clip=False))
    assert finding.verdict == "certain"
    assert finding.condition == "use_amp"


def test_wrong_where_the_option_is_off() -> None:
    (finding,) = judge(run(PLAIN), run(AMP, unscale=True))
    assert finding.verdict == "certain"
    assert finding.condition == "not use_amp"


def test_a_condition_names_only_what_the_story_depends_on() -> None:
    guarded_by_amp = replace(run(AMP), choices=(AMP, DEBUG))
    (finding,) = judge(guarded_by_amp)
    assert finding.condition == "use_amp"


def test_two_configurations_make_one_finding() -> None:
    assert len(judge(run(AMP), run(PLAIN))) == 1


def test_wrong_in_some_iterations_only_is_possible() -> None:
    """The clip is reached in both runs, and one of them unscales first."""
    (finding,) = judge(run(), run(RARE, unscale=True))
    assert finding.verdict == "possible"


def test_runs_that_do_not_reach_the_event_say_nothing() -> None:
    (finding,) = judge(run(), run(RARE, clip=False))
    assert finding.verdict == "certain"


def test_runs_of_another_configuration_say_nothing() -> None:
    (finding,) = judge(run(AMP), run(PLAIN, unscale=True))
    assert finding.verdict == "certain"


def test_runs_that_leave_a_choice_open_belong_to_every_configuration() -> None:
    (finding,) = judge(run(AMP), run(unscale=True))
    assert finding.verdict == "possible"


def test_a_run_that_never_steps_does_not_absolve_one_that_does() -> None:
    (finding,) = judge(run(), run(RARE, unscale=True, step=False))
    assert finding.verdict == "certain"


def test_another_root_does_not_absolve() -> None:
    (finding,) = judge(run(), run(unscale=True, root="finetune"))
    assert finding.verdict == "certain"


def test_a_guess_is_never_certain() -> None:
    (finding,) = judge(run(), rule=Guessed)
    assert finding.verdict == "possible"


def test_each_place_has_a_finding_of_its_own() -> None:
    assert len(judge(run(), t.trace(WRONG))) == 2


def test_each_rule_has_findings_of_its_own() -> None:
    class Other(Clipped):
        code = "AMP997"

    found = verdict.findings_of([run()], [Clipped(), Other()])
    assert [finding.code for finding in found] == ["AMP998", "AMP997"]


def test_equal_runs_are_judged_once(monkeypatch: pytest.MonkeyPatch) -> None:
    checked: list[Trace] = []

    class Counting(Clipped):
        def check(self, trace: Trace) -> Iterator[Violation]:
            checked.append(trace)
            yield from super().check(trace)

    judge(run(), run(), run(unscale=True), rule=Counting)
    assert len(checked) == 2


@pytest.mark.parametrize(
    ("text", "holds", "condition"),
    [
        ("flag", True, "flag"),
        ("flag", False, "not flag"),
        ("a == 1", True, "a == 1"),
        ("a == 1", False, "not (a == 1)"),
    ],
)
def test_how_a_condition_reads(text: str, holds: bool, condition: str) -> None:
    (finding,) = judge(run(t.choice(text, holds)))
    assert finding.condition == condition


def test_conditions_are_joined() -> None:
    (finding,) = judge(run(AMP, QUIET))
    assert set(finding.condition.split(" and ")) == {"use_amp", "not debug"}


@pytest.mark.parametrize("guard", [t.boundary(True), RARE, t.finite()])
def test_boundaries_and_varying_tests_are_no_condition(guard: Guard) -> None:
    (finding,) = judge(run(guard))
    assert finding.condition == ""


def test_nothing_to_judge() -> None:
    assert judge() == []


RESCUED = """
import torch
import torch.nn.functional as F


def train(model, loader, args):
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    scaler = torch.amp.GradScaler("cuda")
    losses = []
    for x, y in loader:
        optimizer.zero_grad()
        loss = F.mse_loss(model(x), y)
        scaler.scale(loss).backward()
        if x.shape[0] != 7:
            scaler.unscale_(optimizer)
            {option}
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        scaler.step(optimizer)
        scaler.update()
"""


@pytest.mark.parametrize("option", ["pass", "if args.keep:\n                losses.append(loss)"])
def test_an_option_without_effect_makes_no_finding_certain(tmp_path: Path, option: str) -> None:
    """Batches of seven are clipped too early, all others are not; whether losses are kept has no say in it."""
    path = tmp_path / "train.py"
    path.write_text(RESCUED.format(option=option))
    found = check_paths([str(path)], options=Options(possible=True)).findings
    assert [(f.code, f.verdict) for f in found] == [("AMP101", "possible")]


def test_an_option_that_ends_the_training_does_not_excuse_the_rest(tmp_path: Path) -> None:
    """With `dry_run` the loop is left before the second window; without it the missing update is certain."""
    path = tmp_path / "train.py"
    path.write_text(
        "import torch\n\n\ndef train(model, loader, args):\n"
        "    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)\n"
        '    scaler = torch.amp.GradScaler("cuda")\n'
        "    for i, (x, y) in enumerate(loader):\n"
        "        optimizer.zero_grad()\n"
        "        scaler.scale(torch.nn.functional.mse_loss(model(x), y)).backward()\n"
        "        scaler.step(optimizer)\n"
        "        if i % args.log_every == 0:\n"
        "            if args.dry_run:\n"
        "                break\n"
    )
    found = check_paths([str(path)], options=Options(possible=True)).findings
    assert [(f.code, f.verdict) for f in found] == [("AMP112", "certain")]
