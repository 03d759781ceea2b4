"""What a replay plays with: models, optimizers, scalers and schedules, all of them torch's own.  Needs torch."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Protocol

import torch
from torch import Tensor, nn

from ampcheck.replay.observe import Vector
from ampcheck.replay.scenarios import WORLD, Scenario, start
from ampcheck.replay.script import Cast, Op

__all__ = ["Broken", "Probe", "Stage", "Wrapper", "values"]


class Broken(Exception):
    """The replay's own instrument failed, inside a call of torch's: nothing that the user's loop has done."""


class Probe(nn.Module):
    """A model with two parameters whose loss has the gradient that one wants."""

    def __init__(self, start: tuple[float, float]) -> None:
        super().__init__()
        self.first = nn.Parameter(torch.tensor([start[0]]))
        self.second = nn.Parameter(torch.tensor([start[1]]))

    def forward(self, gradients: Tensor, curved: bool = False) -> Tensor:
        """One loss for each row of `gradients`: ``<p, g>``, or ``½ <g, p²>``."""
        parameters = torch.cat([self.first, self.second])
        return (gradients * (0.5 * parameters**2 if curved else parameters)).sum(dim=1)

    def halved(self, gradients: Tensor) -> Tensor:
        """The same losses by way of a product that autocast computes in its own dtype."""
        parameters = torch.cat([self.first, self.second])
        product = nn.functional.linear(torch.eye(2, device=parameters.device), parameters.unsqueeze(0))
        return (gradients * product.float().T).sum(dim=1)


class Wrapper(Protocol):
    """What DistributedDataParallel is to a machine."""

    module: Probe

    def __call__(self, gradients: Tensor, curved: bool = False) -> Tensor: ...
    def no_sync(self) -> Any: ...


class Stage:
    """One rank's objects, for one scenario."""

    def __init__(self, members: Cast, scenario: Scenario, device: str, wrappers: dict[str, Wrapper]) -> None:
        self.members, self.scenario, self.device, self.wrappers = members, scenario, device, wrappers
        self.models = {
            owner: wrappers[owner].module if owner in wrappers else Probe(start(scenario)).to(device)
            for owner in members["owners"]
        }
        self.optimizers: dict[str, torch.optim.Optimizer] = {}
        self.scalers: dict[str, torch.amp.GradScaler] = {}
        for name in members["optimizers"]:
            self.build_optimizer(name)
        for name in members["scalers"]:
            self.build_scaler(name)
        # On a curved loss a rate would bend the gradients too: those of a loop whose only fault is its schedule.
        gamma = 1.0 if scenario.curved else 0.5
        self.schedules = {
            name: torch.optim.lr_scheduler.ExponentialLR(self.optimizers[optimizer], gamma)
            for name, optimizer in members["schedules"].items()
        }

    def build_optimizer(self, name: str) -> None:
        """SGD with rate 1 whatever the user's optimizer is, since it hides nothing; their own where that is asked."""
        own = self.members["classes"].get(name, "") if self.scenario.own else ""
        kind = getattr(torch.optim, own, torch.optim.SGD) if own else torch.optim.SGD
        optimizer = kind(self.models[name].parameters(), lr=1.0)
        optimizer.register_step_pre_hook(lambda *_: self._watched(name))
        self.optimizers[name] = optimizer

    def _watched(self, name: str) -> None:
        try:
            self.at_step(name)
        except Exception as error:
            raise Broken(f"the hook on the optimizer's step: {type(error).__name__}: {error}") from error

    def build_scaler(self, name: str) -> None:
        """A real scaler for this device; a default-built one disables itself without CUDA."""
        self.scalers[name] = torch.amp.GradScaler(
            self.device,
            init_scale=self.first_scale(name),
            growth_interval=self.scenario.growth_interval,
            enabled=self.scenario.enabled,
        )

    def first_scale(self, name: str) -> float:
        """Each scaler has a scale of its own, so that crossed ones show."""
        return float(self.scenario.scale * 4.0 ** self.members["scalers"].index(name))

    def in_unit(self, loss: Tensor, unit: Op) -> Tensor:
        """A loss multiplied into its unit ``S^a · K^b · W^c``, by the scaler itself where S is concerned."""
        loss = loss * (float(self.members["window"]) ** unit["window"] if unit["window"] > 0 else 1.0)
        loss = loss / float(self.members["window"]) ** max(-unit["window"], 0)
        if not self.members["reduced"]:  # a sum over ranks by hand, and the division that goes with it
            loss = loss * float(WORLD) ** unit["world"]
        for scaler, exponent in unit["scale"].items():
            for _ in range(abs(exponent)):
                loss = self.scalers[scaler].scale(loss) if exponent > 0 else loss / self.scale(scaler)
        return loss

    def scale(self, name: str) -> float:
        """A scaler's present scale."""
        return float(self.scalers[name].get_scale())

    def grads(self, owners: Sequence[str]) -> Iterator[Tensor]:
        """The gradients that owners hold."""
        for owner in owners:
            for parameter in self.models[owner].parameters():
                if parameter.grad is not None:
                    yield parameter.grad

    def gradient(self, owner: str) -> Vector:
        """An owner's gradient, zero where there is none."""
        parameters = self.models[owner].parameters()
        return values(torch.zeros_like(p) if p.grad is None else p.grad for p in parameters)

    def weights(self, owner: str) -> Vector:
        """An owner's parameters."""
        return values(p.detach() for p in self.models[owner].parameters())

    def at_step(self, name: str) -> None:
        """Called from inside the real ``optimizer.step``."""
        raise NotImplementedError


def values(tensors: Iterable[Tensor]) -> Vector:
    """All elements in one list."""
    return [float(x) for t in tensors for x in t.detach().flatten().tolist()]
