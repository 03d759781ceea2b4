"""A replay that cannot run, or breaks, costs no finding: it is inconclusive, and says why."""

from __future__ import annotations

import importlib.metadata
import importlib.util
import subprocess
import sys
from dataclasses import replace

import pytest

from ampcheck.finding import Finding
from ampcheck.replay import ReplayUnavailable, process, replay
from tests.replay.faulty_loops import FAULTS
from tests.replay.oracles import replayed, rule
from tests.tracing import backward, deprecated, finding, loop, raw_step, step, trace, update, zero

FAULT = FAULTS["13 step on every micro-batch"]
RULES = [rule("AMP101", FAULT.oracle), rule("AMP999", (), "nothing numeric about it")]


@pytest.fixture
def broken(monkeypatch):
    """The subprocess runs this code instead."""

    def install(code: str) -> None:
        monkeypatch.setattr(process, "command", lambda: (sys.executable, "-c", code))

    return install


def one(timeout: float = 60.0) -> Finding:
    (result,) = replay([finding(FAULT.trace, 0)], "cpu", timeout, rules=RULES)
    assert result.replay is not None
    return result


def test_a_process_that_dies_leaves_findings_inconclusive(broken):
    broken("import sys; sys.exit('no memory')")
    result = one().replay
    assert result is not None
    assert result.outcome == "inconclusive"
    assert result.text == "the replay's process ended with exit code 1: no memory"


def test_a_process_that_is_killed_says_so(broken):
    broken("import os, signal; os.kill(os.getpid(), signal.SIGKILL)")
    result = one().replay
    assert result is not None
    assert result.text == "the replay's process was killed by signal 9"


def test_garbage_is_no_answer(broken):
    broken("print('Segmentation fault')")
    result = one().replay
    assert result is not None
    assert result.outcome == "inconclusive"
    assert "'Segmentation fault'" in result.text


def test_it_is_stopped_when_time_is_up(broken):
    broken("import time; time.sleep(60)")
    result = one(timeout=0.5).replay
    assert result is not None
    assert result.text == "the replay took more than 0.5 s and was stopped"


def test_answers_before_the_end_are_kept(broken):
    answer = '{"id": 0, "outcome": "confirmed", "device": "cpu", "figures": {}, "text": "as said"}'
    broken(f"print('{answer}', flush=True); raise SystemExit('later')")
    results = replay([finding(FAULT.trace, 0)] * 2, "cpu", rules=RULES)
    assert [r.replay and r.replay.outcome for r in results] == ["confirmed", "inconclusive"]


def test_torch_is_missing(monkeypatch):
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    with pytest.raises(
        ReplayUnavailable, match=r'not installed; install it with: pip install "ampcheck\[replay\]"'
    ):
        one()


def test_torch_is_too_old(monkeypatch):
    monkeypatch.setattr(importlib.metadata, "version", lambda name: "2.2.1+cu121")
    with pytest.raises(ReplayUnavailable, match=r"needs torch 2\.3 or newer, this is 2\.2\.1"):
        one()


def test_an_unpackaged_torch_may_try(monkeypatch):
    def version(name: str) -> str:
        raise importlib.metadata.PackageNotFoundError(name)

    monkeypatch.setattr(importlib.metadata, "version", version)
    process.require_torch()


def test_a_device_that_does_not_exist(broken):
    broken("""print('{"unavailable": "the device cuda was asked for, but torch sees none"}')""")
    with pytest.raises(ReplayUnavailable, match="torch sees none"):
        one()


def test_findings_without_an_oracle_rule_or_run_are_inconclusive():
    good = finding(FAULT.trace, 0)
    seen: list[str] = []
    results = replay(
        [replace(good, code="AMP999"), replace(good, code="AMP998"), replace(good, witness=None)],
        "cpu",
        rules=RULES,
        on_result=lambda f: seen.append(f.code),
    )
    assert [r.replay and r.replay.text for r in results] == [
        "nothing numeric about it",
        "no rule has the code AMP998",
        "there is no run to replay",
    ]
    assert seen == ["AMP999", "AMP998", "AMP101"]


def test_a_replay_that_breaks_is_inconclusive_and_the_others_go_on():
    unknown = trace(
        loop([backward(), step(), update(), zero()], before=[deprecated("torch.cuda.amp.nothing")])
    )
    results = replayed({"broken": (unknown, ("warning",)), "fine": (FAULT.trace, FAULT.oracle)})
    assert results["broken"].outcome == "inconclusive"
    assert results["broken"].text.startswith("the replay itself failed: ")
    assert results["fine"].outcome == "confirmed"


def test_an_exception_elsewhere_does_not_hide_the_fault():
    """Scaled gradients are clipped, and besides the update is missing."""
    both = FAULTS["1 clip before unscale"].trace
    kept = [r for r in both.records if type(r.event).__name__ != "Update"]
    no_update = replace(both, records=tuple(replace(r, index=i) for i, r in enumerate(kept)))
    result = replayed({"both": (no_update, ("gradient",))})["both"]
    assert result.outcome == "confirmed"
    assert result.text.startswith("norm at step 0.125 = M/S, expected 1.0")


def test_an_exception_that_leaves_nothing_to_see_is_inconclusive():
    unscaled = trace(loop([backward(scaler=None), step(), update(), zero()]))
    result = replayed({"unscaled": (unscaled, ("divergence",))})["unscaled"]
    assert result.outcome == "inconclusive"
    assert result.text.startswith("torch raises before the fault can show: Attempted step")


def test_the_parent_never_imports_torch():
    code = "import sys, ampcheck.replay; sys.exit('torch' in sys.modules or 'rich' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_auto_says_which_device_it_took():
    plain = trace(loop([backward(scaler=None), raw_step(), zero()]))
    assert replayed({"plain": (plain, ("steps",))}, device="auto")["plain"].device in ("cpu", "cuda")
