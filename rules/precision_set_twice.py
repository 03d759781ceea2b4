"""AMP606 precision-set-twice."""

from __future__ import annotations

from collections.abc import Iterator

from ampcheck.events import Precision
from ampcheck.rule import Rule, Violation
from ampcheck.trace import Record, Trace
from ampcheck.windows import once_per_site, story

FRAMEWORKS = frozenset({"accelerator", "arguments", "accelerate"})


class PrecisionSetTwice(Rule):
    """Mixed precision is configured in two ways that contradict each other.

    ## What it does
    Finds float16 and bfloat16 both switched on in one configuration, and a framework's precision that differs from that
    of the DeepSpeed configuration which it is given, or of an Accelerate file beside the code.

    ## Why is this bad
    float16 needs a loss scale and bfloat16 none, so only one place may decide. DeepSpeed refuses both at once, and so
    does `TrainingArguments`. The Trainer refuses a DeepSpeed configuration that says otherwise than its flags;
    Accelerate refuses the other of the two types, and where DeepSpeed's is merely off, trains without the precision
    asked for.

    ## Example
    ```python
    ds_config = {"bf16": {"enabled": True}, "zero_optimization": {"stage": 2}}
    args = TrainingArguments("out", fp16=True, deepspeed=ds_config)
    ```

    ## Use instead
    ```python
    ds_config = {"fp16": {"enabled": "auto"}, "zero_optimization": {"stage": 2}}
    args = TrainingArguments("out", fp16=True, deepspeed=ds_config)
    ```

    ## Known problems
    The same precision in both places is redundant but right, and not reported. Which of several Accelerate files a
    launcher takes is not known, so a contradiction with one of them is only possible.

    ## References
    - [Accelerate: DeepSpeed](https://huggingface.co/docs/accelerate/usage_guides/deepspeed)
    - [DeepSpeed configuration: FP16 training options](https://www.deepspeed.ai/docs/config-json/#fp16-training-options)
    """

    code = "AMP606"
    name = "precision-set-twice"
    severity = "warning"
    unobservable = "the frameworks refuse the contradiction, or settle it, before any step is made"
    hint = 'leave the precision to one place, and write "auto" in the DeepSpeed configuration'

    def check(self, trace: Trace) -> Iterator[Violation]:
        """Yield each configuration that contradicts itself or another one."""
        yield from once_per_site(trace, self._violations(trace))

    def _violations(self, trace: Trace) -> Iterator[Violation]:
        said = list(trace.of(Precision))
        for record, one in said:
            if one.fp16 and one.bf16:
                yield Violation(record.index, f"fp16 and bf16 are both on in {_named(one)}", certain=one.sure)
        for place, (record, later) in enumerate(said):
            for earlier_record, earlier in said[:place]:
                if _contradict(earlier, later):
                    yield self._violation(trace, record, later, earlier_record, earlier)

    def _violation(
        self, trace: Trace, record: Record, later: Precision, earlier_record: Record, earlier: Precision
    ) -> Violation:
        linked = later.within == earlier.owner
        return Violation(
            record.index,
            f"{_named(later)} says {_spelled(later)}, {_named(earlier)} says {_spelled(earlier)}: only one of them can "
            "decide whether there is a loss scale",
            story(trace, earlier_record if earlier.sure else None),
            certain=linked and later.sure and earlier.sure,
        )


def _contradict(earlier: Precision, later: Precision) -> bool:
    """Whether a framework and what it is given, or a file beside the code and the code, disagree on a type."""
    pair = {earlier.kind, later.kind}
    given = later.kind == "deepspeed" and earlier.kind in FRAMEWORKS and later.within in ("", earlier.owner)
    if not given and pair != {"accelerate", "accelerator"}:
        return False
    both = ((earlier.fp16, later.fp16), (earlier.bf16, later.bf16))
    crossed = (earlier.fp16 and later.bf16) or (earlier.bf16 and later.fp16)
    return bool(crossed) or any(a is not None and b is not None and a != b for a, b in both)


def _named(one: Precision) -> str:
    return one.owner if " " in one.owner else f"`{one.owner}`"


def _spelled(one: Precision) -> str:
    on = [name for name, flag in (("fp16", one.fp16), ("bf16", one.bf16)) if flag]
    off = [name for name, flag in (("fp16", one.fp16), ("bf16", one.bf16)) if flag is False]
    return " and ".join(on) or f"no {' and no '.join(off)}"
