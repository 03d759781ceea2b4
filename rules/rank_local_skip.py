"""AMP410 rank-local-skip."""

from __future__ import annotations

import re
from collections.abc import Iterator

from ampcheck.boundaries import optimizers
from ampcheck.events import Backward, Jump
from ampcheck.rule import Rule, Violation
from ampcheck.syncing import reduces
from ampcheck.trace import Guard, Record, Trace
from ampcheck.windows import once_per_site, story

AGREED = re.compile(
    r"reduc|gather|broadcast|sync|world|distributed|dist\.|\brank|global|any_rank|all_ranks", re.IGNORECASE
)
LOSS = re.compile(r"loss|\bnan\b|isnan|isinf|isfinite", re.IGNORECASE)


class RankLocalSkip(Rule):
    """A test that each rank makes for itself skips a backward that synchronises.

    ## What it does
    Finds a `continue`, `return` or `break`, or a condition around the backward, that depends on a rank's own loss under
    DDP or FSDP, where a backward reduces gradients over all ranks.

    ## Why is this bad
    The ranks that do not skip wait in their all-reduce for the one that does. They hang until the timeout, or meet it
    in its next backward: then the gradients of different batches are averaged, and the ranks stay one batch apart.

    ## Example
    ```python
    loss = criterion(ddp_model(inputs), targets)
    if not torch.isfinite(loss):
        continue
    loss.backward()
    ```

    ## Use instead
    ```python
    loss = criterion(ddp_model(inputs), targets)
    finite = torch.isfinite(loss).float()
    dist.all_reduce(finite, op=dist.ReduceOp.MIN)
    if not finite:
        continue
    loss.backward()
    ```

    ## Known problems
    Always *possible* only: whether ranks see different losses, and how the test's value came about, is more than the
    code alone settles. With a GradScaler the test is not needed: a non-finite gradient reaches all ranks, and all of
    them skip.

    ## References
    - [DistributedDataParallel: internal design](https://docs.pytorch.org/docs/stable/notes/ddp.html)
    """

    code = "AMP410"
    name = "rank-local-skip"
    severity = "warning"
    unobservable = "ranks that wait for each other hang: there is no figure to compare"
    hint = "all-reduce the verdict, so that either every rank skips or none does"

    def check(self, trace: Trace) -> Iterator[Violation]:
        """Yield each jump or condition by which a rank alone leaves a synchronised backward out."""
        yield from once_per_site(trace, self._violations(trace))

    def _violations(self, trace: Trace) -> Iterator[Violation]:
        synced = [r for r, b in trace.of(Backward) if any(reduces(trace, b, o) for o in optimizers(trace))]
        chosen = next((g for g in trace.choices if _is_of_one_rank(g)), None)
        if not synced or chosen is None:
            return
        jump = next((r for r, _ in trace.of(Jump) if any(g.text == chosen.text for g in r.guards)), None)
        if jump is None:
            for record in synced:
                if any(g.text == chosen.text for g in record.guards):
                    yield self._violation(trace, record, chosen, None)
        elif _leaves_out(trace, jump, synced):
            yield self._violation(trace, jump, chosen, synced[0])

    def _violation(self, trace: Trace, record: Record, guard: Guard, other: Record | None) -> Violation:
        return Violation(
            record.index,
            f"`{guard.text}` is tested by each rank for itself, and decides whether this rank takes part in the "
            "all-reduce of the backward: the others wait for it, or meet it in another batch",
            story(trace, other),
            certain=False,
        )


def _leaves_out(trace: Trace, jump: Record, synced: list[Record]) -> bool:
    """Whether a jump leaves an iteration before its backward, while other iterations have theirs."""
    assert isinstance(jump.event, Jump)
    if jump.event.kind == "raise" or jump.iteration in {r.iteration for r in synced}:
        return False
    return any(len(r.iteration) == len(jump.iteration) for r in synced)


def _is_of_one_rank(guard: Guard) -> bool:
    if not guard.varying or guard.boundary or guard.skip is not None or AGREED.search(guard.text):
        return False
    return guard.finite or LOSS.search(guard.text) is not None
