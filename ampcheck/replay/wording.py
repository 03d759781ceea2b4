"""Deviations in the field's units: "norm at step 0.125 = M/S, expected 1.0"."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from ampcheck.replay.factors import Known, bound_name, factor_name, number
from ampcheck.replay.observe import Observed, norm, same
from ampcheck.replay.scenarios import Scenario
from ampcheck.replay.script import Cast

__all__ = ["Wording", "describe", "differing", "settings"]

Figures = dict[str, float | int | str]

SETTINGS = {
    "quiet": "with M/S < ‖g‖ < M",
    "curved": "with a curved loss",
    "tail": "with a leftover window",
    "growth": "while the scale grows",
    "overflow": "in an overflow run",
    "overflow of the second": "in an overflow run",
    "real overflow": "in a run that overflows until S is small enough",
    "ranks": "on two ranks",
    "small": "of gradients that float16 cannot hold",
    "disabled": "with enabled=False",
    "shards": "on two ranks that each hold a shard",
    "shards, overflow": "on two ranks that each hold a shard, with an overflow in one of them",
}


@dataclass(frozen=True, slots=True)
class Wording:
    """A deviation in words and figures; `factor` is the name of the ratio where it has one."""

    text: str
    figures: Figures
    factor: str = ""


def describe(
    observable: str, user: Observed, reference: Observed, known: Known, scenario: Scenario
) -> Wording:
    """One observable in which the user's loop differs from a reference."""
    wording = _describe(observable, user, reference, known)
    setting = SETTINGS.get(scenario.name, "")
    return Wording(f"{wording.text}, {setting}" if setting else wording.text, wording.figures, wording.factor)


def settings(members: Cast) -> str:
    """What of the replayed window is the code's own, what stands for something that it leaves open, and when."""
    own: list[str] = []
    left_open: list[str] = []
    if members["window"] > 1:
        text = f"K = {members['window']}"
        if members["length"]:
            left_open.append(f"{text} for `{members['length']}`")
        else:
            own.append(text)
    if members["clips"]:
        text = f"M = {' and '.join(f'{m:g}' for m in members['thresholds'])}"
        if members["said"]:
            own.append(text)
        else:
            left_open.append(f"{text} for the clip's own")
    parts = [f"{', '.join(own)} as in the code"] if own else []
    parts += left_open
    parts += [f"when {members['condition']}"] if members["condition"] else []
    return f"; {', '.join(parts)}" if parts else ""


def _describe(observable: str, user: Observed, reference: Observed, known: Known) -> Wording:
    windows = max((len(w) for w in reference.windows.values()), default=0)
    match observable:
        case "exception":
            where = f" at micro-batch {user.exception_at + 1}"
            first = user.exception.split(". ")[0].rstrip(".")
            return Wording(f"torch raises{where}: {first}", {"exception": user.exception})
        case "warning":
            texts = "; ".join(w for w in user.warning if w not in reference.warning)
            return Wording(f"torch warns: {texts}" if texts else "no warning", {"warning": texts})
        case "steps":
            return _counts("optimizer steps", "steps", user.steps, reference.steps, windows)
        case "schedule":
            return _schedule(user, reference)
        case "decay":
            return _counts("updates of the average", "decay", user.decay, reference.decay, windows)
        case "dtype":
            mine, right = (seen.dtype[0] if seen.dtype else "none" for seen in (user, reference))
            return Wording(f"recompute in {mine}, expected {right}", {"dtype": mine, "dtype expected": right})
        case "syncs":
            return _counts("all-reduces", "syncs", user.syncs, reference.syncs, windows)
        case "divergence":
            text = f"gradients of the ranks differ by {user.divergence:.0%} at the step, expected none"
            return Wording(text, {"divergence": user.divergence, "divergence expected": 0.0})
        case "rates":
            return _plain("learning rate at step", "rates", user.rates, reference.rates)
        case "scale":
            return _scale(user, reference)
        case "saved-scale":
            return _saved_scale(user, reference)
        case "windows":
            key = _key(user.windows, reference.windows)
            found, expected = (", ".join(map(str, w.windows.get(key, ()))) for w in (user, reference))
            text = f"micro-batches per step {found or 'none'}, expected {expected}"
            return Wording(text, {"windows": found, "windows expected": expected})
        case "clip-norm":
            return _norm("norm handed to the clip", observable, user.clip_norm, reference.clip_norm, known)
        case "read-norm":
            return _norm("norm read", observable, user.read_norm, reference.read_norm, known)
        case "derivative":
            return _derivative(user, reference, known)
        case "skip-test":
            return _skip_test(user)
        case "gradient":
            return _gradient(user, reference, known)
        case _:
            return _parameters(user, reference)


def _key(user: Mapping[str, object], reference: Mapping[str, object]) -> str:
    return next((k for k in {**reference, **user} if user.get(k) != reference.get(k)), "")


def _counts(
    what: str, observable: str, user: Mapping[str, int], reference: Mapping[str, int], windows: int
) -> Wording:
    key = _key(user, reference)
    found, expected = user.get(key, 0), reference.get(key, 0)
    if found and expected and expected == windows and found % expected == 0:
        found, expected, what = found // expected, 1, f"{what} per window"
    text = f"{what} {found}, expected {expected}"
    return Wording(text, {observable: found, f"{observable} expected": expected})


def _schedule(user: Observed, reference: Observed) -> Wording:
    key = _key(user.schedule, reference.schedule)
    found, expected = user.schedule.get(key, 0), reference.schedule.get(key, 0)
    steps = max(user.steps.values(), default=0)
    text = f"scheduler {found} steps, optimizer {steps}"
    if steps != expected:
        text += f", expected {expected}"
    return Wording(text, {"schedule": found, "schedule expected": expected, "steps": steps})


def _scale(user: Observed, reference: Observed) -> Wording:
    key = _key(user.scale, reference.scale)
    found, expected = user.scale.get(key, []), reference.scale.get(key, [])
    at = _first_difference([[x] for x in found], [[x] for x in expected])
    now = found[at] if at < len(found) else math.nan
    should = expected[at] if at < len(expected) else math.nan
    text = f"loss scale {number(now)} × S, expected {number(should)} × S"
    return Wording(text, {"scale": now, "scale expected": should})


def _skip_test(user: Observed) -> Wording:
    tests = [test for one in user.skip_test.values() for test in one]
    said = {outcome: {s for one, s in tests if one == outcome} for outcome in ("done", "skipped")}
    shared = ", ".join(sorted(said["done"] & said["skipped"]))
    counts = {outcome: sum(one == outcome for one, _ in tests) for outcome in said}
    skipped, done = counts["skipped"], counts["done"]
    text = f"the step returns {shared} where it was skipped ({skipped}) and where it was done ({done})"
    return Wording(text, {"skip-test": shared, "skipped": skipped, "done": done})


def _saved_scale(user: Observed, reference: Observed) -> Wording:
    expected = dict(reference.saved_scale)
    for micro, found in user.saved_scale:
        if micro in expected and not same([found], [expected[micro]]):
            text = f"saved loss scale {number(found)} × S, expected {number(expected[micro])} × S"
            return Wording(text, {"saved-scale": found, "saved-scale expected": expected[micro]})
    return Wording("saved loss scale differs", {})


def _plain(
    what: str, observable: str, user: Mapping[str, Sequence[float]], reference: Mapping[str, Sequence[float]]
) -> Wording:
    key = _key(user, reference)
    found, expected = user.get(key, ()), reference.get(key, ())
    at = _first_difference([[x] for x in found], [[x] for x in expected])
    now, should = (s[at] if at < len(s) else math.nan for s in (found, expected))
    text = f"{what} {at + 1} {number(now)}, expected {number(should)}"
    return Wording(text, {observable: now, f"{observable} expected": should})


def _norm(
    what: str,
    observable: str,
    user: list[tuple[int, float]],
    reference: list[tuple[int, float]],
    known: Known,
) -> Wording:
    expected = dict(reversed(reference))
    for micro, found in user:
        if micro in expected and not same([found], [expected[micro]]):
            factor = factor_name(found / expected[micro], known) if expected[micro] else ""
            text = f"{what} {number(found)}, expected {number(expected[micro])}"
            text += f" (× {factor})" if factor else ""
            return Wording(text, {observable: found, f"{observable} expected": expected[micro]}, factor)
    return Wording(f"{what} differs", {})


def _derivative(user: Observed, reference: Observed, known: Known) -> Wording:
    """The norm of a derivative, and what a penalty on it would be."""
    wording = _norm("norm of the derivatives", "derivative", user.derivative, reference.derivative, known)
    found, should = (wording.figures.get(key) for key in ("derivative", "derivative expected"))
    if not (isinstance(found, float) and isinstance(should, float)):
        return wording
    penalty, expected = (found - 1) ** 2, (should - 1) ** 2
    figures = {**wording.figures, "penalty": penalty, "penalty expected": expected}
    text = f"{wording.text}: a penalty (‖g‖ − 1)² is {number(penalty)}, expected {number(expected)}"
    return replace(wording, text=text, figures=figures)


def _parameters(user: Observed, reference: Observed) -> Wording:
    key = _key(user.parameters, reference.parameters)
    found, expected = user.parameters.get(key, []), reference.parameters.get(key, [])
    figures: Figures = {"parameters": _vector(found), "parameters expected": _vector(expected)}
    if any(not math.isfinite(x) for x in found) and all(math.isfinite(x) for x in expected):
        return Wording(f"parameters become {_vector(found)}, expected finite", figures)
    return Wording(f"parameters {_vector(found)}, expected {_vector(expected)}", figures)


# --- the gradient at the step ---


def _first_difference(user: Sequence[Sequence[float]], reference: Sequence[Sequence[float]]) -> int:
    """The first place where two series of vectors differ; their common length where they do not."""
    common = min(len(user), len(reference))
    return next((i for i in range(common) if not same(user[i], reference[i])), common)


def _gradient(user: Observed, reference: Observed, known: Known) -> Wording:
    name, at = differing(user, reference)
    found, expected = user.gradient.get(name, []), reference.gradient.get(name, [])
    if at >= min(len(found), len(expected)):
        text = f"gradient at step: {len(found)} steps, expected {len(expected)}"
        return Wording(text, {"gradient": len(found), "gradient expected": len(expected)})
    now, should = found[at], expected[at]
    size, true = norm(now), norm(should)
    parallel = _are_parallel(now, should)
    factor = factor_name(size / true, known) if parallel and true else ""
    figures: Figures = {"gradient": size, "gradient expected": true}
    clipped = known.clips and any(math.isclose(true, m, rel_tol=1e-4) for m in known.thresholds)
    bound = bound_name(factor_name(size / true, known)) if clipped else ""
    if bound or (clipped and parallel):
        text = f"norm at step {number(size)}{f' = {bound}' if bound else ''}, expected {number(true)}"
        if parallel and any(should[1:]):
            text += f": {_vector(now)} for {_vector(should)}"
        return Wording(text, figures, bound)
    spelled = _spelled(user.carried.get(name, []), at, now, known)
    spread = any(now[1:]) or any(should[1:])
    text = f"gradient at step {spelled}{_vector(now, spread)}, expected {_vector(should, spread)}"
    if factor:
        text += f" (× {factor})"
    elif not parallel and size and true and math.isfinite(size):
        cosine = sum(a * b for a, b in zip(now, should, strict=True)) / (size * true)
        figures["cosine"] = cosine
        text += f" (cosine {cosine:.4f})"
    return Wording(text, figures, factor)


def differing(user: Observed, reference: Observed) -> tuple[str, int]:
    """The optimizer whose gradients differ first, and at which step; a difference in value before one in number."""
    places = [
        (_first_difference(user.gradient.get(o, []), reference.gradient.get(o, [])), o)
        for o in {**reference.gradient, **user.gradient}
    ]
    of_value = [
        (at, o)
        for at, o in places
        if at < min(len(user.gradient.get(o, [])), len(reference.gradient.get(o, [])))
    ]
    of_number = [
        (at, o) for at, o in places if len(user.gradient.get(o, [])) != len(reference.gradient.get(o, []))
    ]
    at, name = min(of_value or of_number or places, key=lambda p: p[0])
    return name, at


def _are_parallel(one: Sequence[float], other: Sequence[float]) -> bool:
    sizes = norm(one) * norm(other)
    if not math.isfinite(sizes) or not sizes:
        return False
    return math.isclose(sum(a * b for a, b in zip(one, other, strict=True)), sizes, rel_tol=1e-6)


def _spelled(carried: Sequence[Sequence[float]], at: int, now: Sequence[float], known: Known) -> str:
    """ "48/8 = " where what a step used was unscaled from a larger number first."""
    if at >= len(carried) or known.scale == 1.0:
        return ""
    before, after = _nonzero(carried[at]), _nonzero(now)
    if (
        len(before) != 1
        or len(after) != 1
        or before[0] % 1
        or not math.isclose(before[0], after[0] * known.scale, rel_tol=1e-6)
    ):
        return ""
    return f"{before[0]:g}/{known.scale:g} = "


def _nonzero(vector: Sequence[float]) -> list[float]:
    return [x for x in vector if x]


def _vector(vector: Sequence[float], spread: bool | None = None) -> str:
    """A vector as people write it; a plain number where only the first component counts."""
    if not vector or (any(vector[1:]) if spread is None else spread):
        return f"({', '.join(_components(vector))})"
    return number(vector[0])


def _components(vector: Sequence[float]) -> Iterator[str]:
    return (f"{x:.5g}" for x in vector)
