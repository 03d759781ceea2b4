"""Tests that the code leaves open: their canonical form, what ties them together, and the runs they make."""

from __future__ import annotations

import pytest

from ampcheck.events import Build, Clip, Jump, ReadScale, ScheduleStep, Step, Unscale, Update
from ampcheck.trace import Trace
from tests.running.derived import derive, holding, logged, loop, micros, only, story, training, units, usual

OPTION = """
    scaler.scale(model(x).mean()).backward()
    if {test}:
        scaler.unscale_(optimizer)
        clip_grad_norm_(model.parameters(), 1.0)
    scaler.step(optimizer)
    scaler.update()
    optimizer.zero_grad()
"""


def options(test: str, before: str = "", arguments: str = "args, flag, grad_clip") -> list[Trace]:
    """The runs of a loop that clips only under a test."""
    return derive(training(OPTION.format(test=test), before=before, arguments=arguments)).traces


def choices(traces: list[Trace]) -> set[tuple[str, ...]]:
    return {tuple(logged(trace)) for trace in traces}


# --- canonical form ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "test", ["args.clip", "args.clip is not None", "not args.clip is None", "not (args.clip is None)"]
)
def test_is_not_none_is_the_thing_itself(test: str) -> None:
    assert choices(options(test)) == {("args.clip",), ("not args.clip",)}


@pytest.mark.parametrize("test", ["flag", "not not flag", "bool(flag)"])
def test_a_double_negation_is_no_negation(test: str) -> None:
    assert choices(options(test)) == {("flag",), ("not flag",)}


def test_equal_atoms_are_decided_together() -> None:
    body = """
        scaler.scale(model(x).mean()).backward()
        if args.clip is not None:
            scaler.unscale_(optimizer)
        if args.clip:
            clip_grad_norm_(model.parameters(), args.clip)
        scaler.step(optimizer)
        scaler.update()
        optimizer.zero_grad()
    """
    stories = {story(trace, 0) for trace in derive(training(body, arguments="args")).traces}
    assert stories == {"backward unscale clip step update zero", "backward step update zero"}


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("args.mode == 'a'", "not args.mode != 'a'"),
        ("args.mode != 'a'", "not args.mode == 'a'"),
        ("args.a < args.b", "not args.a >= args.b"),
        ("args.a > args.b", "not args.a <= args.b"),
        ("args.mode in args.modes", "not args.mode not in args.modes"),
    ],
)
def test_a_test_and_its_opposite_are_one_atom(one: str, other: str) -> None:
    body = f"""
        scaler.scale(model(x).mean()).backward()
        if {one}:
            scaler.unscale_(optimizer)
        if {other}:
            clip_grad_norm_(model.parameters(), 1.0)
        scaler.step(optimizer)
        scaler.update()
        optimizer.zero_grad()
    """
    stories = {story(trace, 0) for trace in derive(training(body, arguments="args")).traces}
    assert stories == {"backward unscale clip step update zero", "backward step update zero"}


def test_a_guard_variable_is_its_definition() -> None:
    traces = options("should_clip", before="should_clip = args.clip is not None")
    assert choices(traces) == {("args.clip",), ("not args.clip",)}


def test_conjunctions_are_decided_lazily() -> None:
    """The second atom is asked only where the first holds."""
    found = choices(options("args.a and args.b"))
    assert ("not args.a",) in found
    assert ("args.a", "args.b") in found
    assert not [c for c in found if "not args.a" in c and len(c) > 1]


def test_values_of_one_expression_exclude_each_other() -> None:
    body = """
        if args.mode == "amp":
            scaler.scale(model(x).mean()).backward()
            scaler.step(optimizer)
            scaler.update()
        if args.mode == "plain":
            model(x).mean().backward()
            optimizer.step()
        optimizer.zero_grad()
    """
    stories = {story(trace, 0) for trace in derive(training(body, arguments="args")).traces}
    assert "backward step update backward step zero" not in stories
    assert {"backward step update zero", "backward step zero"} <= stories


# --- invariant and varying --------------------------------------------------------------------------------------


def test_an_invariant_choice_holds_in_every_micro_batch() -> None:
    traces = options("flag")
    assert {len(micros(trace, Clip)) for trace in traces} == {0, 3}


def test_a_varying_choice_may_hold_in_some_micro_batches() -> None:
    body = """
        loss = model(x).mean()
        if not torch.isfinite(loss):
            optimizer.zero_grad()
            continue
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
    """
    explored = derive(loop(body))
    assert micros(usual(explored), Step) == [0, 1, 2]
    skipped = [trace for trace in explored.traces if any(trace.of(Jump))]
    assert skipped
    assert {len(micros(trace, Step)) for trace in skipped} >= {0, 2}
    for trace in skipped:
        assert all(g.varying and g.finite for record, _ in trace.of(Jump) for g in record.guards)


def test_both_kinds_of_choice_travel_with_the_trace() -> None:
    for trace in options("flag"):
        assert [(g.text, g.varying) for g in trace.choices] == [("flag", False)]


def test_records_carry_the_guards_they_depend_on() -> None:
    (trace,) = [t for t in options("flag") if any(t.of(Clip))]
    for record, _ in trace.of(Clip):
        assert [(g.text, g.holds, g.varying, g.boundary) for g in record.guards] == [
            ("flag", True, False, False)
        ]
    for record, _ in trace.of(Step):
        assert not record.guards


def test_the_other_arm_carries_the_guard_negated() -> None:
    body = """
        if use_amp:
            scaler.scale(model(x).mean()).backward()
            scaler.step(optimizer)
            scaler.update()
        else:
            model(x).mean().backward()
            optimizer.step()
        optimizer.zero_grad()
    """
    explored = derive(training(body, arguments="use_amp"))
    (plain,) = holding(explored, use_amp=False)
    assert story(plain, 0) == "backward step zero"
    assert all([(g.text, g.holds) for g in r.guards] == [("use_amp", False)] for r, _ in plain.of(Step))
    assert plain.condition == "not use_amp"


def test_what_follows_a_conditional_continue_depends_on_its_test() -> None:
    body = """
        loss = model(x).mean()
        if skip:
            continue
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
    """
    (trace,) = holding(derive(loop(body, arguments="skip")), skip=False)
    assert all([(g.text, g.holds) for g in r.guards] == [("skip", False)] for r, _ in trace.of(Step))


# --- scalers ----------------------------------------------------------------------------------------------------

SCALED = """
    def train(model, loader, amp):
        optimizer = torch.optim.SGD(model.parameters(), 0.1)
        scaler = {scaler}
        for x, y in loader:
            loss = model(x).mean()
            {scale}
            {step}
            optimizer.zero_grad()
"""
METHODS = {
    "scale": "scaler.scale(loss).backward()",
    "step": "scaler.step(optimizer); scaler.update()",
}


def test_enabled_ties_the_scaler_to_the_flag() -> None:
    explored = derive(SCALED.format(scaler='GradScaler("cuda", enabled=amp)', **METHODS))
    (on,), (off,) = holding(explored, amp=True), holding(explored, amp=False)
    assert story(on, 0) == "backward step update zero"
    assert units(on) == ["S"]
    assert [event.scaler for _, event in on.of(Step)] == ["scaler"] * 3
    assert story(off, 0) == "backward step zero"
    assert units(off) == ["1"]
    assert [event.scaler for _, event in off.of(Step)] == [None] * 3


def test_a_literal_false_disables_for_good() -> None:
    trace = only(derive(SCALED.format(scaler='GradScaler("cuda", enabled=False)', **METHODS)))
    assert story(trace, 0) == "backward step zero"


def test_the_flag_of_the_scaler_and_of_an_if_are_one() -> None:
    source = """
        def train(model, loader, amp):
            optimizer = torch.optim.SGD(model.parameters(), 0.1)
            scaler = GradScaler("cuda", enabled=amp)
            for x, y in loader:
                scaler.scale(model(x).mean()).backward()
                if amp:
                    scaler.unscale_(optimizer)
                clip_grad_norm_(model.parameters(), 1.0)
                scaler.step(optimizer)
                scaler.update()
                optimizer.zero_grad()
    """
    stories = {story(trace, 0) for trace in derive(source).traces}
    assert stories == {"backward unscale clip step update zero", "backward clip step zero"}


@pytest.mark.parametrize("test", ["scaler is not None", "scaler", "amp", "not scaler is None"])
def test_a_scaler_or_none(test: str) -> None:
    """``GradScaler() if amp else None``: whichever way the code asks, the two runs are the same."""
    source = f"""
        def train(model, loader, amp):
            optimizer = torch.optim.SGD(model.parameters(), 0.1)
            scaler = GradScaler("cuda") if amp else None
            for x, y in loader:
                loss = model(x).mean()
                if {test}:
                    scaler.scale(loss).backward()
                    scaler.step(optimizer)
                    scaler.update()
                else:
                    loss.backward()
                    optimizer.step()
                optimizer.zero_grad()
    """
    explored = derive(source)
    assert {story(trace, 0) for trace in explored.traces} == {
        "backward step update zero",
        "backward step zero",
    }
    assert len(explored.traces) == 2


def test_a_scaler_bound_in_one_arm() -> None:
    source = """
        def train(model, loader, amp):
            optimizer = torch.optim.SGD(model.parameters(), 0.1)
            scaler = None
            if amp:
                scaler = GradScaler("cuda")
            for x, y in loader:
                loss = model(x).mean()
                if scaler is None:
                    loss.backward()
                    optimizer.step()
                else:
                    scaler.scale(loss).backward()
                    scaler.step(optimizer)
                    scaler.update()
                optimizer.zero_grad()
    """
    stories = {story(trace, 0) for trace in derive(source).traces}
    assert stories == {"backward step update zero", "backward step zero"}


def test_a_run_that_calls_a_method_of_none_is_dropped() -> None:
    """Without amp the loop would raise on its first batch, so only the run with it is real."""
    explored = derive(SCALED.format(scaler='GradScaler("cuda") if amp else None', **METHODS))
    assert [logged(trace) for trace in explored.traces] == [["amp"]]


@pytest.mark.parametrize("argument", ["scaler=None", "scaler: GradScaler | None = None"])
def test_an_optional_parameter(argument: str) -> None:
    """A default is no knowledge: the caller may pass either."""
    source = f"""
        def train(model, loader, optimizer, {argument}):
            for x, y in loader:
                loss = model(x).mean()
                if scaler is not None:
                    scaler.scale(loss).backward()
                    scaler.step(optimizer)
                    scaler.update()
                else:
                    loss.backward()
                    optimizer.step()
                optimizer.zero_grad()
    """
    stories = {story(trace, 0) for trace in derive(source).traces}
    assert stories == {"backward step update zero", "backward step zero"}


# --- asserts, raises, literals ----------------------------------------------------------------------------------


def test_an_assert_is_honoured() -> None:
    assert choices(options("flag", before="assert flag is None or args.fp16\nassert flag is None")) <= {
        ("not flag",),
        ("not flag", "args.fp16"),
        ("not flag", "not args.fp16"),
    }


def test_an_early_raise_says_what_does_not_happen() -> None:
    before = 'if args.mode == "off":\n    raise ValueError(args.mode)'
    assert all("args.mode == 'off'" not in logged(t) for t in options('args.mode == "off"', before=before))


def test_an_early_return_leaves_nothing_to_say() -> None:
    traces = options("flag", before="if args.dry_run:\n    return")
    assert all(logged(t)[0] == "not args.dry_run" for t in traces if any(t.of(Step)))


@pytest.mark.parametrize(
    ("constant", "expected"), [("True", 3), ("False", 0), ("1", 3), ("0", 0), ("None", 0)]
)
def test_a_literal_is_no_choice(constant: str, expected: int) -> None:
    (trace,) = options("clip", before=f"clip = {constant}")
    assert len(micros(trace, Clip)) == expected


def test_a_module_constant_is_no_choice() -> None:
    source = "USE_CLIP = True\n\n" + training(OPTION.format(test="USE_CLIP"), arguments="_")
    assert len(micros(only(derive(source)), Clip)) == 3


# --- the scale as a test ----------------------------------------------------------------------------------------


def test_a_skip_test_names_its_two_readings() -> None:
    body = """
        scaler.scale(model(x).mean()).backward()
        before = scaler.get_scale()
        scaler.step(optimizer)
        scaler.update()
        if scaler.get_scale() >= before:
            scheduler.step()
        optimizer.zero_grad()
    """
    before = "scheduler = torch.optim.lr_scheduler.OneCycleLR(optimizer, 0.1, total_steps=10)"
    explored = derive(training(body, before=before))
    assert {len(micros(trace, ScheduleStep)) for trace in explored.traces} >= {0, 3}
    trace = usual(explored)
    readings = [event.reading for _, event in trace.of(ReadScale)]
    record, _ = next(trace.of(ScheduleStep))
    (guard,) = record.guards
    assert guard.skip is not None
    assert guard.varying
    # The test reads the later reading on its left, the earlier one on its right.
    assert (guard.skip.left, guard.skip.op, guard.skip.right) == (readings[1], ">=", readings[0])


def test_a_disabled_scaler_reads_one() -> None:
    body = """
        scaler.scale(model(x).mean()).backward()
        before = scaler.get_scale()
        scaler.step(optimizer)
        scaler.update()
        if scaler.get_scale() >= before:
            optimizer.zero_grad()
    """
    source = training(body, before='scaler = GradScaler("cuda", enabled=False)')
    trace = only(derive(source))
    assert not micros(trace, ReadScale)
    assert story(trace, 0) == "backward step zero"


def test_is_enabled_is_the_flag() -> None:
    source = """
        def train(model, loader, amp):
            optimizer = torch.optim.SGD(model.parameters(), 0.1)
            scaler = GradScaler("cuda", enabled=amp)
            for x, y in loader:
                scaler.scale(model(x).mean()).backward()
                if scaler.is_enabled():
                    scaler.unscale_(optimizer)
                scaler.step(optimizer)
                scaler.update()
                optimizer.zero_grad()
    """
    explored = derive(source)
    assert choices(explored.traces) == {("amp",), ("not amp",)}
    assert [len(micros(t, Unscale)) for t in holding(explored, amp=False)] == [0]
    assert [len(micros(t, Update)) for t in holding(explored, amp=True)] == [3]


def test_a_test_on_the_norm_varies() -> None:
    body = """
        scaler.scale(model(x).mean()).backward()
        scaler.unscale_(optimizer)
        norm = clip_grad_norm_(model.parameters(), 1.0)
        if norm < 100:
            scaler.step(optimizer)
        scaler.update()
        optimizer.zero_grad()
    """
    explored = derive(training(body))
    assert {len(micros(trace, Step)) for trace in explored.traces} >= {0, 3}
    for trace in explored.traces:
        for record, _ in trace.of(Step):
            assert all(guard.varying for guard in record.guards)


def test_building_under_a_choice_is_guarded() -> None:
    source = """
        def train(model, loader, amp):
            optimizer = torch.optim.SGD(model.parameters(), 0.1)
            if amp:
                scaler = GradScaler("cuda")
            for x, y in loader:
                loss = model(x).mean()
                if amp:
                    scaler.scale(loss).backward()
                    scaler.step(optimizer)
                    scaler.update()
                else:
                    loss.backward()
                    optimizer.step()
                optimizer.zero_grad()
    """
    (trace,) = holding(derive(source), amp=True)
    built = {event.kind: [g.text for g in record.guards] for record, event in trace.of(Build)}
    assert built == {"optimizer": [], "scaler": ["amp"]}
