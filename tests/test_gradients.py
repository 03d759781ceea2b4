"""What each event does to gradients and scalers, as torch does it."""

from __future__ import annotations

import pytest

from ampcheck import events as ev
from ampcheck.events import PLAIN, Event, Site, Unit
from ampcheck.gradients import READY, STEPPED, UNSCALED, Buffer, State, apply

AT = Site("train.py", 1, 1, 1, 1)
S, K = Unit((("s", 1),)), Unit(window=1)
SCALED = ev.Loss((S,))


def run(*events: Event) -> tuple[State, list[str]]:
    """The state after some events, and what torch would have refused."""
    state, refused = State(), []
    for index, event in enumerate(events):
        effect = apply(state, event, index)
        state = effect.state
        if effect.refused:
            refused.append(effect.refused)
    return state, refused


def backward(
    loss: ev.Loss = SCALED, *reaches: str, micro: int = 0, assumed: tuple[str, ...] = ()
) -> ev.Backward:
    return ev.Backward(site=AT, loss=loss, reaches=reaches or ("o",), micro=micro, assumed=assumed)


def unscale(optimizer: str = "o") -> ev.Unscale:
    return ev.Unscale(site=AT, scaler="s", optimizer=optimizer)


def step(optimizer: str = "o", scaler: str | None = "s") -> ev.Step:
    return ev.Step(site=AT, optimizer=optimizer, scaler=scaler)


def update(explicit: bool = False) -> ev.Update:
    return ev.Update(site=AT, scaler="s", explicit=explicit)


ZERO = ev.ZeroGrad(site=AT, owners=("o",))


# --- units ------------------------------------------------------------------------------------------------------


def test_units_multiply_by_adding_exponents() -> None:
    assert S.times(K, -1) == Unit((("s", 1),), -1)
    assert S.times(S) == Unit((("s", 2),))
    assert S.times(S, -1) == PLAIN
    assert PLAIN.times(PLAIN) is PLAIN


def test_scalers_are_kept_apart() -> None:
    both = S.times(Unit((("t", 1),)))
    assert both.scaled_by("s") == both.scaled_by("t") == 1
    assert both.times(S, -1) == Unit((("t", 1),))
    assert PLAIN.scaled_by("s") == 0


@pytest.mark.parametrize(
    ("unit", "text"),
    [
        (PLAIN, "1"),
        (S, "S"),
        (Unit((("s", 2),)), "S²"),
        (Unit(window=-1), "1 / K"),
        (Unit((("s", 1),), -1), "S / K"),
        (Unit((("s", 1),), -1, 1), "S · W / K"),
        (Unit(window=-2, world=-1), "1 / K² · W"),
        (Unit((("s", 1), ("t", 1))), "S(s) · S(t)"),
        (Unit(window=4), "K^4"),
        (Unit(other=frozenset({"tokens"})), "1"),
    ],
)
def test_units_are_written_as_people_write_them(unit: Unit, text: str) -> None:
    assert str(unit) == text


# --- buffers ----------------------------------------------------------------------------------------------------


def test_a_backward_adds_to_every_buffer_it_reaches() -> None:
    state, _ = run(backward(ev.Loss((S, PLAIN)), "o", "p", assumed=("p",)))
    assert state.buffer("o").units == {S, PLAIN}
    assert [c.assumed for c in state.buffer("o").contributions] == [False, False]
    assert [c.assumed for c in state.buffer("p").contributions] == [True, True]
    assert state.buffer("elsewhere").is_empty


def test_contributions_remember_their_backward() -> None:
    state, _ = run(ZERO, backward(micro=0), backward(micro=1), backward(micro=1))
    assert [c.record for c in state.buffer("o").contributions] == [1, 2, 3]
    assert state.buffer("o").micros == (0, 1)


def test_zeroing_empties() -> None:
    state, _ = run(backward(), ev.Clip(site=AT, style="norm", owners=("o",)), step(), ZERO)
    assert state.buffer("o") == Buffer()


@pytest.mark.parametrize(
    ("event", "mark"),
    [
        (ev.Clip(site=AT, style="norm", owners=("o",)), "clipped"),
        (ev.Read(site=AT, owners=("o",)), "read"),
        (ev.Reduce(site=AT, owners=("o",)), "reduced"),
        (ev.Edit(site=AT, effect="hide", owners=("o",)), "hid"),
        (ev.Edit(site=AT, effect="shift", owners=("o",)), "shift"),
        (ev.Edit(site=AT, effect="nonlinear", owners=("o",)), "nonlinear"),
    ],
)
def test_what_was_done_by_hand_is_marked(event: Event, mark: str) -> None:
    state, _ = run(backward(), event)
    assert [m for m in state.buffer("o").marks if m.startswith(mark)]
    untouched, _ = run(event)
    assert not untouched.buffer("o").marks


def test_a_multiplication_changes_the_unit() -> None:
    by = ev.Edit(site=AT, effect="multiply", owners=("o",), factor=Unit(window=-1))
    state, _ = run(backward(), backward(), by)
    assert state.buffer("o").units == {Unit((("s", 1),), -1)}


def test_an_escape_makes_opaque_until_zeroed() -> None:
    escape = ev.Escape(site=AT, roles=("o", "S:s"))
    state, _ = run(backward(), escape)
    assert state.buffer("o").opaque
    assert set(state.buffers) == {"o"}
    assert not run(backward(), escape, ZERO)[0].buffer("o").opaque


@pytest.mark.parametrize(
    "event",
    [
        ev.AverageUpdate(site=AT, average="ema"),
        ev.ScheduleStep(site=AT, scheduler="sch"),
        ev.Autocast(site=AT, dtype="float16"),
        ev.Jump(site=AT, kind="continue"),
        ev.ReadScale(site=AT, scaler="s", reading=0),
        ev.Build(site=AT, kind="optimizer", role="o"),
    ],
)
def test_other_events_leave_gradients_alone(event: Event) -> None:
    assert run(backward(), event)[0] == run(backward())[0]


# --- the scaler's phases ----------------------------------------------------------------------------------------


def test_the_right_order() -> None:
    state, refused = run(backward(), unscale(), step(), update(), ZERO)
    assert refused == []
    assert state.phase("s", "o") == READY
    assert not state.recorded("s")


def test_unscale_divides_the_scale_out() -> None:
    state, _ = run(backward(ev.Loss((S.times(K, -1),))), unscale())
    assert state.buffer("o").units == {Unit(window=-1)}
    assert state.phase("s", "o") == UNSCALED


def test_step_unscales_if_nobody_has() -> None:
    state, _ = run(backward(), step())
    assert state.buffer("o").units == {PLAIN}
    assert state.buffer("o").stepped
    assert state.phase("s", "o") == STEPPED
    again, _ = run(backward(), unscale(), step())
    assert again.buffer("o").units == {PLAIN}


def test_a_backward_after_unscale_mixes_units() -> None:
    state, refused = run(backward(), unscale(), backward(), step())
    assert state.buffer("o").units == {PLAIN, S}
    assert refused == []


def test_a_raw_step_sees_what_is_there() -> None:
    state, refused = run(backward(), step(scaler=None))
    assert state.buffer("o").units == {S}
    assert state.buffer("o").stepped
    assert state.phase("s", "o") == READY
    assert refused == []


def test_a_step_without_gradients_uses_none() -> None:
    state, refused = run(step(scaler=None))
    assert not state.buffer("o").stepped
    assert refused == []


@pytest.mark.parametrize(
    ("events", "message"),
    [
        (
            (backward(), unscale(), unscale()),
            "unscale_() has already been called on this optimizer since the last update().",
        ),
        ((backward(), step(), unscale()), "unscale_() is being called after step()."),
        ((backward(), step(), step()), "step() has already been called since the last update()."),
        ((backward(), update()), "No inf checks were recorded prior to update."),
        ((backward(), step(), update(), update()), "No inf checks were recorded prior to update."),
        ((backward(), ZERO, step()), "No inf checks were recorded for this optimizer."),
    ],
)
def test_what_torch_refuses(events: tuple[Event, ...], message: str) -> None:
    state, refused = run(*events)
    assert refused == [message]
    assert state == run(*events[:-1])[0]


def test_an_explicit_update_is_legal_at_any_time() -> None:
    assert run(backward(), update(explicit=True))[1] == []


def test_phases_are_kept_for_each_optimizer() -> None:
    state, refused = run(backward(SCALED, "o", "p"), unscale("o"), step("o"), step("p"), update())
    assert refused == []
    assert state.phase("s", "o") == state.phase("s", "p") == READY


def test_update_after_unscale_alone_forgets_it() -> None:
    """The next step divides a second time: the fault that AMP106 knows."""
    state, _ = run(backward(), unscale(), update(), step())
    assert state.buffer("o").units == {Unit((("s", -1),))}


def test_an_unseen_gradient_may_be_stepped() -> None:
    escape = ev.Escape(site=AT, roles=("o",))
    assert run(escape, step())[1] == []


def test_a_new_scaler_knows_nothing() -> None:
    built = ev.Build(site=AT, kind="scaler", role="s")
    state, refused = run(backward(), unscale(), built)
    assert state.phase("s", "o") == READY
    assert "s" not in state.primed
    assert refused == []


def test_a_scaler_is_primed_by_what_it_scaled() -> None:
    assert run(backward())[0].primed == {"s"}
    assert run(backward(ev.Loss()))[0].primed == frozenset()


def test_states_are_values() -> None:
    state, _ = run(backward())
    with pytest.raises(TypeError):
        state.buffers["o"] = Buffer()  # type: ignore[index]
