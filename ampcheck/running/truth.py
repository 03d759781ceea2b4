"""How a test comes out in a run, and the guards that record it."""

from __future__ import annotations

from dataclasses import replace

from ampcheck.events import ResultTest, Site
from ampcheck.running import values as v
from ampcheck.running.arithmetic import coerce
from ampcheck.running.describing import is_varying, text_of
from ampcheck.running.machine import Machine, MustFork
from ampcheck.trace import Guard

__all__ = ["atoms_of", "is_decided", "suppose", "truth"]


def truth(
    machine: Machine, value: v.Value, site: Site, text: str = "", leaning: bool | None = None
) -> tuple[bool, list[Guard]]:
    """Whether a value is true in this run, with the guards that say so (none where it is plainly known).

    `leaning` is how a test comes out in an uneventful run, where that is known from what depends on it.
    """
    if not isinstance(value, v.Truth):
        value = coerce(machine, value)
    match value:
        case v.Truth(value=known, boundary=False, modulus=modulus) if modulus:
            guard = Guard(text, known, site, varying=True)
            machine.moduli[guard] = modulus
            return known, [guard]
        case v.Truth(value=known, boundary=boundary):
            return known, [Guard(text, known, site, boundary=True)] if boundary else []
        case v.Const(value=constant):
            return bool(constant), []
        case v.Number(value=number, boundary=boundary):
            return bool(number), [Guard(text, bool(number), site, boundary=True)] if boundary else []
        case v.Seq(items=items):
            return bool(items), []
        case v.DictValue(items=entries):
            return bool(entries), []
        case v.Formula(op="not", left=left):
            known, guards = truth(machine, left, site, text, None if leaning is None else not leaning)
            return not known, guards
        case v.Formula(op=op, left=left, right=right) if right is not None:
            known, guards = truth(machine, left, site, text, leaning)
            if known == (op == "or"):
                return known, guards
            second, more = truth(machine, right, site, text, leaning)
            return second, guards + more
        case v.Atom():
            return _decide(machine, value, site, leaning)
        case v.Unknown(role=None, modulus=modulus) if modulus:
            zero = v.Atom(f"{value.text} == 0", True, False, modulus=modulus, negated=True)
            return _decide(machine, zero, site)
        case v.Unknown(role=None):
            finite = "finite" in value.text or "nan" in value.text.lower() or "inf" in value.text.lower()
            usual = not (finite and "isfinite" not in value.text and value.varying)
            return _decide(
                machine, v.Atom(value.text, is_varying(value), usual, finite=finite), site, leaning
            )
        case v.StepResult(scaler=scaler, optimizer=optimizer):
            machine.emit(ResultTest(site=site, scaler=scaler, optimizer=optimizer))
            return False, []
        case v.GradientNorm():
            return _decide(machine, v.Atom(text_of(value), True, True), site, leaning)
        case _:
            return True, []


def _decide(
    machine: Machine, atom: v.Atom, site: Site, leaning: bool | None = None
) -> tuple[bool, list[Guard]]:
    setting = machine.setting
    # What is due every so often stays so within a loop, whatever jumps on it; before it, it is an argument check.
    if leaning is not None and atom.skip is None and not (atom.modulus and machine.path):
        atom = replace(atom, usual=leaning != atom.negated)
    # Varying tests inside a trial differ by micro-batch; invariant ones that are settled need no fork.
    if machine.trial is not None and (atom.varying or atom.text not in machine.choices.invariant):
        raise MustFork
    # Norms that are taken at two places are two numbers.
    key = f"{atom.text} ({site.path}:{site.line}:{site.column})" if "the gradients" in atom.text else ""
    holds = machine.choices.decide(atom, max(machine.tick, 0), setting.length, key)
    boundary = bool(atom.modulus) and atom.modulus in setting.windows
    guard = Guard(atom.text, holds, site, atom.varying, boundary, atom.finite, atom.skip, atom.doubtful)
    if atom.modulus:
        machine.moduli[guard] = atom.modulus
    return holds != atom.negated, [guard]


def suppose(machine: Machine, test: v.Value, holds: bool) -> None:
    """Take a test to come out in one way, as far as that settles what it consists of."""
    match test:
        case v.Atom(varying=False, text=text, negated=negated):
            machine.choices.suppose(text, holds != negated)
        case v.Unknown(role=None, varying=False, flow=None, text=text, modulus=""):
            machine.choices.suppose(text, holds)
        case v.Formula(op="not", left=left):
            suppose(machine, left, not holds)
        case v.Formula(op=op, left=left, right=right) if right is not None and holds == (op == "and"):
            suppose(machine, left, holds)
            suppose(machine, right, holds)


def atoms_of(value: v.Value) -> list[v.Atom]:
    """The atoms that a test consists of."""
    match value:
        case v.Atom():
            return [value]
        case v.Formula(left=left, right=right):
            return atoms_of(left) + (atoms_of(right) if right is not None else [])
        case v.Unknown(role=None, text=text):
            return [v.Atom(text, is_varying(value))]
        case _:
            return []


def is_decided(machine: Machine, value: v.Value) -> bool:
    """Whether a test needs no new choice of this run."""
    value = coerce(machine, value)
    if isinstance(value, v.Unknown) and value.modulus:
        return False
    return all(not a.varying and a.text in machine.choices.invariant for a in atoms_of(value))
