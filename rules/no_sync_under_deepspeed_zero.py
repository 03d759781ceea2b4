"""AMP407 no-sync-under-deepspeed-zero."""

from __future__ import annotations

from collections.abc import Iterator

from ampcheck.engines import engine_of
from ampcheck.events import EngineCall
from ampcheck.rule import Measured, Rule, Violation
from ampcheck.trace import Trace
from ampcheck.windows import once_per_site

PARTITIONED = ("deepspeed-zero2", "deepspeed-zero3")


class NoSyncUnderDeepspeedZero(Rule):
    """`no_sync` is entered under ZeRO stage 2 or 3, which cannot do without the reduction.

    ## What it does
    Finds `engine.no_sync()` of a DeepSpeed engine whose gradients are partitioned.

    ## Why is this bad
    Stages 2 and 3 reduce in order to partition: the engine refuses with an AssertionError. Where the call is only
    reached on a cluster, that is where it fails.

    ## Example
    ```python
    with engine.no_sync():  # "zero_optimization": {"stage": 2}
        engine.backward(loss)
    ```

    ## Use instead
    ```python
    engine.backward(loss)  # "gradient_accumulation_steps": K
    engine.step()
    ```

    ## Known problems
    At stages 0 and 1 `no_sync` works. Where the stage is not in the code the finding is only possible.

    ## References
    - deepspeed/runtime/engine.py: "no_sync context manager is incompatible with gradient partitioning logic of ZeRO
      stage 2".
    """

    code = "AMP407"
    name = "no-sync-under-deepspeed-zero"
    severity = "error"
    measured = (
        Measured(
            "deepspeed",
            "DeepSpeed raises: no_sync context manager is incompatible with gradient partitioning",
            "DeepSpeed 0.19.8, tests/models/test_deepspeed.py",
        ),
    )
    hint = "let the engine accumulate: set gradient_accumulation_steps and call engine.step() on every micro-batch"

    def check(self, trace: Trace) -> Iterator[Violation]:
        """Yield the contexts that the engine refuses."""
        yield from once_per_site(trace, self._violations(trace))

    def _violations(self, trace: Trace) -> Iterator[Violation]:
        for record, call in trace.of(EngineCall):
            if (call.library, call.call) != ("deepspeed", "no_sync"):
                continue
            engine = next((engine_of(trace, role) for role in call.roles if engine_of(trace, role)), "")
            if engine == "deepspeed" or engine in PARTITIONED:
                stage = engine.removeprefix("deepspeed-zero") if engine in PARTITIONED else "2 or 3"
                yield Violation(
                    record.index,
                    f"`no_sync` under ZeRO stage {stage}: gradients are partitioned as they are reduced, and DeepSpeed "
                    "raises",
                    certain=engine in PARTITIONED,
                )
