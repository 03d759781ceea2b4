"""AMP601 scaler-with-bfloat16."""

from __future__ import annotations

from collections.abc import Iterator

from ampcheck.boundaries import is_within
from ampcheck.events import Autocast, Backward, Build
from ampcheck.rule import Rule, Violation
from ampcheck.trace import Record, Trace
from ampcheck.windows import are_known, name, story


class ScalerWithBfloat16(Rule):
    """An enabled GradScaler works together with bfloat16 autocast.

    ## What it does
    Finds a loss scale on losses that were computed under `autocast(dtype=torch.bfloat16)`.

    ## Why is this bad
    bfloat16 has the range of float32, so nothing underflows that a scale could save. The updates are the same, but the
    scale doubles every 2000 steps up to 2^127, until it causes the overflows, and skips the steps, that it is there to
    prevent.

    ## Example
    ```python
    scaler = torch.amp.GradScaler("cuda")
    with torch.autocast("cuda", dtype=torch.bfloat16):
        loss = criterion(model(inputs), targets)
    scaler.scale(loss).backward()
    ```

    ## Use instead
    ```python
    with torch.autocast("cuda", dtype=torch.bfloat16):
        loss = criterion(model(inputs), targets)
    loss.backward()
    ```

    ## Known problems
    Where the dtype is an option, `GradScaler(enabled=dtype == torch.float16)` is right and not reported.

    ## References
    - [Automatic mixed precision: gradient scaling](https://docs.pytorch.org/docs/stable/amp.html#gradient-scaling)
    """

    code = "AMP601"
    name = "scaler-with-bfloat16"
    severity = "warning"
    oracle = ("scale",)
    hint = "drop the scaler, or build it with `enabled=dtype == torch.float16`"

    def check(self, trace: Trace) -> Iterator[Violation]:
        """Yield each scaler that scales losses although every autocast of the run is bfloat16."""
        casts = list(trace.of(Autocast))
        if not casts or any(cast.dtype != "bfloat16" for _, cast in casts):
            return
        first: dict[str, Record] = {}
        for record, backward in trace.of(Backward):
            for unit in backward.loss.parts:
                for scaler, exponent in unit.scale:
                    if exponent > 0 and any(_covers(cast, record) for cast, _ in casts):
                        first.setdefault(scaler, record)
        built = {build.role: record for record, build in trace.of(Build) if build.kind == "scaler"}
        for scaler, record in first.items():
            yield Violation(
                built.get(scaler, record).index,
                f"{name(trace, scaler)} scales losses that are computed in bfloat16, which needs no loss scale",
                story(trace, casts[0][0], record if scaler in built else None),
                certain=are_known(trace, scaler),
            )


def _covers(cast: Record, record: Record) -> bool:
    """Whether a backward follows an autocast in the same iteration, or one around the loop."""
    around = len(cast.iteration) <= len(record.iteration) and is_within(cast, record.iteration)
    return around and cast.index < record.index
