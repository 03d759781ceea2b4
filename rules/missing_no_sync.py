"""AMP401 missing-no-sync."""

from __future__ import annotations

from collections.abc import Iterator

from ampcheck.boundaries import is_sure, length, optimizers
from ampcheck.events import EngineCall
from ampcheck.rule import Rule, Violation
from ampcheck.spans import own_micros, spans
from ampcheck.syncing import passes, reduces
from ampcheck.trace import Record, Trace
from ampcheck.windows import name, once_per_site, story


class MissingNoSync(Rule):
    """Accumulation reduces the gradients over ranks on every micro-batch.

    ## What it does
    Finds a window of K micro-batches under DDP or FSDP in which every backward synchronises.

    ## Why is this bad
    It costs K reductions for one, and no more than that: the update is the same. With 8 micro-batches of an 8-million
    parameter model 256 MB travel instead of 32.

    ## Example
    ```python
    (criterion(ddp_model(inputs), targets) / accumulation_steps).backward()
    if (i + 1) % accumulation_steps == 0:
        optimizer.step()
        optimizer.zero_grad()
    ```

    ## Use instead
    ```python
    last = (i + 1) % accumulation_steps == 0
    with contextlib.nullcontext() if last else ddp_model.no_sync():
        (criterion(ddp_model(inputs), targets) / accumulation_steps).backward()
    if last:
        optimizer.step()
        optimizer.zero_grad()
    ```

    ## Known problems
    Under Accelerate the launcher decides whether there are several processes: where a loop accumulates by hand, without
    `accelerator.accumulate`, the finding is *possible* at most.
    FSDP keeps unsharded gradients while it does not synchronise; where memory is short the cost may be worth it.

    ## References
    - [DistributedDataParallel.no_sync](https://docs.pytorch.org/docs/stable/generated/torch.nn.parallel.DistributedDataParallel.html#torch.nn.parallel.DistributedDataParallel.no_sync)
    """

    code = "AMP401"
    name = "missing-no-sync"
    severity = "warning"
    oracle = ("syncs",)
    of_loop = True
    hint = "run all but the last micro-batch of a window inside `model.no_sync()`, forward included"

    def check(self, trace: Trace) -> Iterator[Violation]:
        """Yield the first backward of each optimizer's first window that synchronises K times."""
        if trace.window and trace.complete and length(trace) > 1:
            yield from once_per_site(trace, self._violations(trace))

    def _violations(self, trace: Trace) -> Iterator[Violation]:
        for optimizer in optimizers(trace):
            for span in spans(trace, optimizer):
                # A backward inside `no_sync` whose forward is not is another mistake.
                wasteful = all(b.synced and reduces(trace, b, optimizer) for _, b in span.backwards)
                if (
                    span.step is None
                    or not span.backwards
                    or not wasteful
                    or len(own_micros(trace, span).intersection(span.micros)) < 2
                ):
                    continue
                if not is_sure(span.step.before.buffer(optimizer)):
                    continue
                used = {c.record for c in span.step.before.buffer(optimizer).contributions}
                first, backward = next((b for b in span.backwards if b[0].index in used), span.backwards[0])
                model = passes(trace, backward, optimizer)[0].model
                yield Violation(
                    first.index,
                    f"{name(trace, model)} reduces its gradients on each micro-batch of a window of "
                    f"{trace.window.named if trace.window else 'K'}; only the last one needs to",
                    story(trace, _entry(trace, first), span.backwards[-1][0], span.step),
                    certain=not _is_up_to_launcher(trace, model),
                    predicts="K",
                )
                break


def _is_up_to_launcher(trace: Trace, model: str) -> bool:
    """Whether an Accelerator wraps the model, if it wraps it at all, and was not asked to accumulate."""
    role = trace.roles.get(model)
    if role is None or role.engine != "accelerate" or role.detail != "ddp":
        return False
    return not any(call.call == "accumulate" for _, call in trace.of(EngineCall))


def _entry(trace: Trace, backward: Record) -> Record | None:
    """Where the micro-batch of a backward entered Accelerate's `accumulate`, which should have held it back."""
    entries = [
        r for r, call in trace.of(EngineCall) if call.call == "accumulate" and r.index < backward.index
    ]
    return entries[-1] if entries and entries[-1].iteration == backward.iteration else None
