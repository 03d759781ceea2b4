"""AMP409 optimizer-before-sharding."""

from __future__ import annotations

from collections.abc import Iterator

from ampcheck.events import Build, Step
from ampcheck.rule import Rule, Violation
from ampcheck.sharding import wraps
from ampcheck.trace import Record, Trace
from ampcheck.windows import name, once_per_site, story


class OptimizerBeforeSharding(Rule):
    """The optimizer is built before sharding replaces the parameters that it holds.

    ## What it does
    Finds optimizers that are built over a model's parameters before the model is wrapped in
    `torch.distributed.fsdp.FullyShardedDataParallel` or passed to `fully_shard`.

    ## Why is this bad
    Both replace the model's parameters: FSDP1 by flat ones, FSDP2 by DTensors. The optimizer keeps the old ones,
    which never get a gradient again. Every step runs, and nothing is ever updated.

    ## Example
    ```python
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4)
    fully_shard(model)
    criterion(model(inputs), targets).backward()
    optimizer.step()
    ```

    ## Use instead
    ```python
    fully_shard(model)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4)
    criterion(model(inputs), targets).backward()
    optimizer.step()
    ```

    ## Known problems
    FSDP1 with `use_orig_params=True` keeps the parameters, and is not reported; where that is an option, the finding
    is *possible* only. Blocks that are sharded one after the other, without the whole, are not looked at.

    ## References
    - https://docs.pytorch.org/docs/stable/fsdp.html: the optimizer is built after the module is wrapped.
    - https://docs.pytorch.org/docs/stable/distributed.fsdp.fully_shard.html
    - Measured: the update is exactly 0, with one rank as well.
    """

    code = "AMP409"
    name = "optimizer-before-sharding"
    severity = "error"
    oracle = ("shards",)
    hint = "build the optimizer after the model is sharded"

    def check(self, trace: Trace) -> Iterator[Violation]:
        """Yield the optimizers that hold parameters from before their model was sharded."""
        yield from once_per_site(trace, self._violations(trace))

    def _violations(self, trace: Trace) -> Iterator[Violation]:
        last = {b.role: (r, b) for r, b in trace.of(Build) if b.kind == "optimizer"}
        for optimizer, (record, _) in last.items():
            step = next((r for r, s in trace.of(Step) if s.optimizer == optimizer), None)
            wrap = _later(trace, optimizer, record)
            if wrap is None or step is None or not isinstance(wrap.event, Build):
                continue
            if any(trace.roles[r].engine for r in (optimizer, wrap.event.role) if r in trace.roles):
                continue  # an engine that wraps gives the optimizer the new parameters
            yield Violation(
                record.index,
                f"{name(trace, optimizer)} is built before {name(trace, wrap.event.role)} is sharded: it holds "
                "parameters that get no gradient, and updates nothing",
                story(trace, wrap, step),
                certain=not wrap.event.detail.endswith("use_orig_params?") and trace.roles[optimizer].known,
            )


def _later(trace: Trace, optimizer: str, built: Record) -> Record | None:
    """Where the optimizer's model is sharded although the optimizer has its parameters already."""
    role = trace.roles.get(optimizer)
    found = wraps(trace, role.models if role else ())
    after = [r for r in found if r.index > built.index and not _keeps(r)]
    before = any(r.index < built.index for r in found)
    return after[0] if after and not before else None


def _keeps(wrap: Record) -> bool:
    return isinstance(wrap.event, Build) and wrap.event.detail.endswith(" use_orig_params")
