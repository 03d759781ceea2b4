"""Executes a script on real tensors: real scalers, optimizers, clips, schedulers.  Needs torch."""

# ampcheck: ignore-file[AMP101, AMP204] what a trace says is done, right or wrong
from __future__ import annotations

import operator
import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, nullcontext
from typing import Any

import torch
from torch import Tensor, nn

from ampcheck.replay.observe import Observed, Vector
from ampcheck.replay.recompute import recomputed
from ampcheck.replay.scenarios import Scenario, gradient
from ampcheck.replay.script import Cast, Op
from ampcheck.replay.stage import Stage, Wrapper, values

__all__ = ["Machine", "Reduction", "execute"]

COMPARISONS: dict[str, Callable[[float, float], bool]] = {
    "<": operator.lt,
    "<=": operator.le,
    "==": operator.eq,
    "!=": operator.ne,
    ">=": operator.ge,
    ">": operator.gt,
}

DEPRECATED: dict[str, tuple[object, ...]] = {
    "torch.cuda.amp.GradScaler": (),
    "torch.cpu.amp.GradScaler": (),
    "torch.cuda.amp.autocast": (),
    "torch.cpu.amp.autocast": (),
    "torch.cuda.amp.custom_fwd": (abs,),
    "torch.cuda.amp.custom_bwd": (abs,),
}
"""Deprecated names that can be called to see whether torch warns, with the arguments that they need."""


Reduction = Callable[[str, int, Tensor], Tensor]
"""The mean over ranks of an owner's gradient, given this rank's number and its own."""


class _Refused(Exception):
    """torch refused a call that the script asked for; the message is torch's."""


def execute(members: Cast, ops: Sequence[Op], scenario: Scenario, device: str) -> Observed:
    """Run a script in one scenario, on one rank."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        machine = Machine(members, scenario, device)
        machine.run(ops)
    observed = machine.finish()
    texts = [str(w.message) for w in caught if _matters(w)]
    observed.warning = sorted({text.split(". ")[0].split(" See more details")[0].strip() for text in texts})
    return observed


def _matters(caught: warnings.WarningMessage) -> bool:
    return issubclass(caught.category, FutureWarning) or "lr_scheduler.step()" in str(caught.message)


class Machine(Stage):
    """One rank at work: it executes operations on its stage and writes down what there is to see."""

    def __init__(
        self,
        members: Cast,
        scenario: Scenario,
        device: str,
        rank: int = 0,
        wrappers: dict[str, Wrapper] | None = None,
        reduce: Reduction | None = None,
    ) -> None:
        self.seen = Observed()
        super().__init__(members, scenario, device, wrappers or {})
        self.rank = rank
        self.reduce = reduce
        self.readings: dict[int, float] = {}
        self.tests: dict[str, bool] = {}
        self.fired: dict[str, bool] = {}
        self.since_step: dict[str, set[int]] = {}
        self.latest: dict[str, Op] = {}
        self.results: dict[str, str] = {}
        self.before_unscale: dict[str, Vector] = {}
        self.losses_finite = True
        self.norms_finite: bool | None = None
        self.seen.schedule = dict.fromkeys(self.schedules, 0)
        self.seen.decay = dict.fromkeys(members["averages"], 0)
        self.seen.scale = {name: [] for name in self.scalers}
        self.seen.steps = dict.fromkeys(self.optimizers, 0)
        for name in self.optimizers:
            for series in (self.seen.gradient, self.seen.carried, self.seen.rates, self.seen.windows):
                series[name] = []

    # --- running ---

    def run(self, ops: Sequence[Op]) -> None:
        """Execute the operations in order; a call that torch refuses ends the run, as it would the user's.

        In a scenario that does not stop there, the call is left out and the run goes on.
        """
        for op in ops:
            if self.seen.stopped or not all(self._holds(test, op) for test in op.get("if", ())):
                continue
            try:
                getattr(self, "_do_" + op["do"].replace("-", "_"))(op)
            except _Refused as refusal:
                self.seen.stopped = self.scenario.stops
                if not self.seen.exception:
                    self.seen.exception, self.seen.exception_at = str(refusal), op["micro"]

    def finish(self) -> Observed:
        """What was observed, with the parameters and scales at the end."""
        self._sample_scales(self.scalers)
        self.seen.parameters = {name: self.weights(name) for name in self.optimizers}
        return self.seen

    def _sample_scales(self, names: Iterable[str]) -> None:
        for name in names:
            self.seen.scale[name].append(self.scale(name) / self.first_scale(name))

    def _holds(self, test: Op, op: Op) -> bool:
        if "stepped" in test:
            return all(self.fired.get(o, False) for o in test["stepped"])
        if "scale" in test:
            left, comparison, right = test["scale"]
            if left not in self.readings or right not in self.readings:
                return True
            return COMPARISONS[comparison](self.readings[left], self.readings[right]) == bool(test["holds"])
        if test["key"] not in self.tests:
            self.tests[test["key"]] = self._is_finite(test["finite"], op)
        return self.tests[test["key"]] == bool(test["holds"])

    def _is_finite(self, what: str, op: Op) -> bool:
        if what == "loss":
            return self.losses_finite
        if what == "norm" and self.norms_finite is not None:
            return self.norms_finite
        owner = op.get("optimizer")
        return self._are_finite([owner] if owner else op.get("owners") or self.members["owners"])

    def _are_finite(self, owners: Sequence[str]) -> bool:
        """Whether owners' gradients are; their norm may overflow all the same, where they are huge."""
        return all(bool(torch.isfinite(g).all()) for g in self.grads(owners))

    @contextmanager
    def _asked(self) -> Iterator[None]:
        """A call that the user's code makes: what it raises is an observation."""
        try:
            yield
        except (RuntimeError, AssertionError, ValueError, TypeError, AttributeError) as error:
            raise _Refused(str(error).strip().split("\n")[0]) from error

    def at_step(self, name: str) -> None:
        """What a step uses is what counts."""
        self.fired[name] = True
        self.seen.steps[name] += 1
        gradient_now = self.gradient(name)
        self.seen.gradient[name].append(gradient_now)
        self.seen.carried[name].append(self.before_unscale.pop(name, gradient_now))
        self.seen.rates[name].append(float(self.optimizers[name].param_groups[0]["lr"]))

    # --- operations ---

    def _do_shard(self, op: Op) -> None:
        """One rank alone holds everything."""

    def _gradients(self, op: Op, owner: str) -> Tensor:
        """The true gradients of a backward, one row for each part of the loss."""
        number = self.members["owners"].index(owner)
        rows = [
            gradient(
                self.scenario,
                op["micro"],
                op["nth"],
                number,
                part,
                self.rank,
                self.members["window"],
                self.members["thresholds"][-1],
            )
            for part in range(len(op["parts"]))
        ]
        return torch.tensor(rows, device=self.device)

    def _do_backward(self, op: Op) -> None:
        self._sample_scales({s for unit in op["parts"] for s in unit["scale"]})
        total = torch.zeros((), device=self.device)
        self.losses_finite = True
        with ExitStack() as stack:
            for owner in op["reaches"]:
                rows = self._gradients(op, owner)
                self.losses_finite = self.losses_finite and bool(torch.isfinite(rows).all())
                losses = self._forward(op, owner, rows)
                for loss, unit in zip(losses, op["parts"], strict=True):
                    total = total + self.in_unit(loss * op["items"] / op["divisor"], unit).float()
                self.since_step.setdefault(owner, set()).add(op["micro"])
            if not op["synced"]:
                for owner in set(op["reaches"]) & set(self.wrappers):
                    stack.enter_context(self.wrappers[owner].no_sync())
            if op["reaches"]:
                total.backward()  # type: ignore[no-untyped-call]
        for owner in op["reaches"]:
            self.latest[owner] = op
            self.before_unscale[owner] = self.gradient(owner)

    def _do_differentiate(self, op: Op) -> None:
        """``autograd.grad`` of the loss as the loop has it, used as it comes."""
        owner = op["owner"]
        losses = self.models[owner](self._gradients(op, owner), self.scenario.curved)
        parts = [self.in_unit(loss, unit) for loss, unit in zip(losses, op["parts"], strict=True)]
        found = torch.autograd.grad(torch.stack(parts).sum(), list(self.models[owner].parameters()))
        self.seen.derivative.append((op["micro"], float(torch.cat([g.flatten() for g in found]).norm())))

    def _forward(self, op: Op, owner: str, rows: Tensor) -> Tensor:
        rows = rows.to(next(self.models[owner].parameters()).dtype)
        wrapper, how = self.wrappers.get(owner), op["passes"].get(owner)
        if self.scenario.half:
            with torch.autocast(self.device, dtype=torch.float16):
                return self.models[owner].halved(rows)
        if wrapper is None or how is None or how["bypassed"]:
            return self.models[owner](rows, self.scenario.curved)  # type: ignore[no-any-return]
        with nullcontext() if how["synced"] else wrapper.no_sync():
            return wrapper(rows, self.scenario.curved)

    def _do_unscale(self, op: Op) -> None:
        with self._asked():
            self.scalers[op["scaler"]].unscale_(self.optimizers[op["optimizer"]])

    def _do_clip(self, op: Op) -> None:
        owners = [] if op["empty"] else op["owners"]  # an iterator that has been consumed
        self.norms_finite = self._are_finite(owners)
        chosen = [list(self.models[o].parameters())[: None if op["whole"] else 1] for o in owners]
        parameters = [p for group in chosen for p in group]
        for group in [[p] for p in parameters] if op["each"] else [parameters]:
            if op["style"] == "value":
                components = [abs(x) for p in group if p.grad is not None for x in values([p.grad])]
                self.seen.clip_norm.append((op["micro"], max(components, default=0.0)))
                if components:  # with no gradient at all, some versions of torch raise and others do nothing
                    nn.utils.clip_grad_value_(group, self.bound(op))
                continue
            with self._asked():
                total = nn.utils.clip_grad_norm_(group, self.bound(op), error_if_nonfinite=op["raises"])
            self.seen.clip_norm.append((op["micro"], float(total)))

    def bound(self, op: Op) -> float:
        """M: the code's own, or a stand-in."""
        return float(op["threshold"] or self.members["thresholds"][-1])

    def _do_edit(self, op: Op) -> None:
        factor = self.in_unit(torch.ones((), device=self.device), op["factor"])
        for grad in self.grads(op["owners"]):
            match op["effect"]:
                case "multiply":
                    grad.mul_(factor)
                case "shift":
                    grad.add_(1.0)
                case "nonlinear":
                    grad.sign_()
                case _:
                    torch.nan_to_num_(grad)

    def _do_read(self, op: Op) -> None:
        owners = [] if op["empty"] else op["owners"]
        self.norms_finite = self._are_finite(owners)
        grads = list(self.grads(owners))
        total = float(torch.cat([g.flatten().float() for g in grads]).norm()) if grads else 0.0
        self.seen.read_norm.append((op["micro"], total))

    def _do_reduce(self, op: Op) -> None:
        """A mean: the sum over ranks and the division that goes with it are one."""
        if self.reduce is None:  # one rank alone
            return
        for owner in op["owners"]:
            for parameter in self.models[owner].parameters():
                if parameter.grad is not None:
                    parameter.grad.copy_(self.reduce(owner, self.rank, parameter.grad))

    def _do_step(self, op: Op) -> None:
        name = op["optimizer"]
        self.fired[name] = False
        again = self._again(name)
        arguments: dict[str, Any] = {"closure": again} if op["closure"] == "keyword" else {}
        positional = [again] if op["closure"] == "positional" else []
        with self._asked():
            if op["scaler"]:
                result = self.scalers[op["scaler"]].step(self.optimizers[name], *positional, **arguments)
            else:
                result = self.optimizers[name].step(*positional, **arguments)
            self.results[name] = str(result)
        trained = self.since_step.pop(name, set())
        if self.fired[name]:
            self.seen.windows[name].append(len(trained))

    def _again(self, name: str) -> Callable[[], float]:
        """A closure that clears an optimizer's gradients and computes them anew."""

        def closure() -> float:
            self.models[name].zero_grad()
            if name in self.latest:
                self._do_backward(self.latest[name])
            return 0.0

        return closure

    def _do_test_result(self, op: Op) -> None:
        name = op["optimizer"]
        outcome = "done" if self.fired.get(name) else "skipped"
        said = outcome if op["asks"] == "outcome" else self.results.get(name, "")
        self.seen.skip_test.setdefault(name, []).append((outcome, said))

    def _do_update(self, op: Op) -> None:
        scaler = self.scalers[op["scaler"]]
        with self._asked():
            scaler.update(self.first_scale(op["scaler"])) if op["explicit"] else scaler.update()

    def _do_zero(self, op: Op) -> None:
        for owner in op["owners"]:
            self.models[owner].zero_grad(set_to_none=op["to_none"])
            self.since_step.pop(owner, None)

    def _do_schedule(self, op: Op) -> None:
        self.seen.schedule[op["scheduler"]] += 1
        self.schedules[op["scheduler"]].step()

    def _do_average(self, op: Op) -> None:
        self.seen.decay[op["average"]] += 1

    def _do_read_scale(self, op: Op) -> None:
        self.readings[op["reading"]] = self.scale(op["scaler"])

    def _do_build(self, op: Op) -> None:
        build = self.build_scaler if op["kind"] == "scaler" else self.build_optimizer
        if op["role"] in self.members["scalers"] + self.members["optimizers"]:
            build(op["role"])

    def _do_save_scale(self, op: Op) -> None:
        saved = float(self.scalers[op["scaler"]].state_dict()["scale"])
        self.seen.saved_scale.append((op["micro"], saved / self.first_scale(op["scaler"])))

    def _do_resume(self, op: Op) -> None:
        for name in op["lost"]:
            self.build_scaler(name)

    def _do_convert(self, op: Op) -> None:
        for owner in op["owners"]:
            self.models[owner].to(getattr(torch, op["dtype"]))

    def _do_recompute(self, op: Op) -> None:
        self.seen.dtype.append(recomputed(self.device, getattr(torch, op["dtype"]), op["restores"]))

    def _do_internal(self, op: Op) -> None:
        with self._asked():
            getattr(self.scalers[op["scaler"]], op["name"])

    def _do_deprecated(self, op: Op) -> None:
        operator.attrgetter(op["name"].removeprefix("torch."))(torch)(*DEPRECATED[op["name"]])
