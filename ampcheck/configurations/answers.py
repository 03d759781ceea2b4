"""Configurations as plain values, and what several of them say together."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Generic, Literal, TypeVar

from ampcheck.events import Site

__all__ = ["Answer", "Configuration", "Configurations", "Precision", "Problem"]

T = TypeVar("T")
Precision = Literal["float16", "bfloat16", "float32"]


@dataclass(frozen=True, slots=True)
class Answer(Generic[T]):
    """What is configured, and `owner` who says so; not `sure` where others disagree, or it is another script's file."""

    value: T
    owner: str
    sure: bool = True


@dataclass(frozen=True, slots=True)
class Problem:
    """A file that the code names as its configuration and that cannot be read; `line` from 1."""

    path: str
    message: str
    line: int = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Configuration:
    """One place that configures a training.

    `owner` is how people call it ("ds_config.json", "TrainingArguments"), `path` the file that it stands in, `site`
    where the code holds or names it (None: it lies beside the code).  `fp16` and `bf16` are None where nothing is said,
    and so are all the others: K, the clipping threshold, the stage of ZeRO (0 to 3).  `within` is the `owner` of the
    configuration that takes this one in (``TrainingArguments(deepspeed="ds_config.json")``).
    """

    kind: Literal["deepspeed", "accelerate", "accelerator", "arguments"]
    owner: str
    path: str
    site: Site | None = None
    fp16: bool | None = None
    bf16: bool | None = None
    gradient_accumulation_steps: int | None = None
    gradient_clipping: float | None = None
    zero_stage: int | None = None
    distributed_type: str | None = None
    within: str = ""

    @property
    def precision(self) -> Precision | None:
        """The one precision that is asked for; None where nothing is said, or both."""
        if self.fp16 and self.bf16:
            return None
        if self.fp16 or self.bf16:
            return "float16" if self.fp16 else "bfloat16"
        return "float32" if self.fp16 is False and self.bf16 is False else None


@dataclass(frozen=True, slots=True)
class Configurations:
    """All that was found, and what was broken."""

    found: tuple[Configuration, ...] = ()
    problems: tuple[Problem, ...] = ()

    @property
    def gradient_accumulation_steps(self) -> Answer[int] | None:
        """K."""
        return self._answer(lambda c: c.gradient_accumulation_steps)

    @property
    def precision(self) -> Answer[Precision] | None:
        """The dtype of mixed precision; "float32" for none."""
        return self._answer(lambda c: c.precision)

    @property
    def zero_stage(self) -> Answer[int] | None:
        """The stage of DeepSpeed's ZeRO."""
        return self._answer(lambda c: c.zero_stage)

    @property
    def gradient_clipping(self) -> Answer[float] | None:
        """The threshold of the engine's own clip."""
        return self._answer(lambda c: c.gradient_clipping)

    @property
    def distributed_type(self) -> Answer[str] | None:
        """Accelerate's distributed type, in capitals: "MULTI_GPU", "FSDP", "DEEPSPEED", "NO"."""
        return self._answer(lambda c: c.distributed_type)

    def _answer(self, ask: Callable[[Configuration], T | None]) -> Answer[T] | None:
        """The answer of those who have one: of the code and the files it names, else of the files beside it."""
        said = [(c, value) for c in self.found if (value := ask(c)) is not None]
        named = [pair for pair in said if pair[0].site is not None] or said
        if not named:
            return None
        first, value = named[0]
        agreed = all(other == value for _, other in named)
        return Answer(value, first.owner, agreed and first.site is not None)
