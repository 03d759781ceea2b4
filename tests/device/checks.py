"""Checks on a CUDA device, without pytest or anything else that is not torch: ``python -m tests.device.checks``.

Each check is a function of the device that returns what it saw, in a line, or raises.  They say whether what the
replay shows on the CPU is what happens on the device, with its own float16, kernels and processes.
"""

from __future__ import annotations

import sys
import time
import traceback
from collections.abc import Callable

__all__ = ["CHECKS", "main"]

Check = Callable[[str], str]
CHECKS: dict[str, Check] = {}


def check(function: Check) -> Check:
    """Add a check, under its name in plain words."""
    CHECKS[function.__name__.replace("_", " ")] = function
    return function


@check
def every_fault_is_confirmed_on_the_device(device: str) -> str:
    """The hand-made faulty loops, with the same lines for people as on the CPU."""
    from tests.replay.faulty_loops import FAULTS
    from tests.replay.oracles import replayed

    done = replayed({name: (fault.trace, fault.oracle) for name, fault in FAULTS.items()}, device)
    wrong = {
        name: result.text
        for name, result in done.items()
        if result.outcome != "confirmed" or FAULTS[name].says not in result.text
    }
    assert not wrong, wrong
    devices = {result.device for result in done.values()}
    return f"{len(done)} confirmed, on {' and '.join(sorted(devices))}"


@check
def nothing_is_found_in_correct_loops_on_the_device(device: str) -> str:
    """The hand-made correct loops, in every observable."""
    from ampcheck.replay import compare
    from tests.replay.correct_loops import CORRECT

    found = dict(zip(CORRECT, compare(list(CORRECT.values()), device), strict=True))
    assert not any(found.values()), {name: one for name, one in found.items() if one}
    return f"{len(found)} agree with their references"


@check
def float16_autocast_with_a_scaler_trains_like_float32(device: str) -> str:
    """A real net: the error of the update is that of float16, and each fault's factor comes out of it."""
    from tests.device.training import Loop, distance, trained

    exact = trained(Loop(device, precision="float32"))
    right = trained(Loop(device))
    error = distance(right.update, exact.update)
    assert error < 5e-3, error
    clipped = trained(Loop(device, threshold=0.01, unscales=False))
    assert abs(clipped.norm * clipped.scale / 0.01 - 1) < 5e-3, clipped
    whole = trained(Loop(device, divided=False))
    factor = float(whole.update.norm() / right.update.norm())
    assert abs(factor / 4 - 1) < 5e-3, factor
    left = f"clip before unscale leaves M/S = {clipped.norm:.3g}"
    return f"error {error:.1e}; {left}; not divided: × {factor:.4g} (K = 4)"


@check
def small_gradients_vanish_in_float16_without_a_scaler(device: str) -> str:
    """2⁻²⁶ is below all that float16 has; the scale carries it through the backward."""
    import torch

    found = []
    for scale in (1.0, 65536.0):
        weight = torch.zeros(1, 1, device=device, requires_grad=True)
        with torch.autocast(device, dtype=torch.float16):
            out = torch.nn.functional.linear(torch.ones(1, 1, device=device), weight)
        (out.float().sum() * 2.0**-26 * scale).backward()
        assert weight.grad is not None
        found.append(float(weight.grad) / scale)
    assert found == [0.0, 2.0**-26], found
    return "0 without a scaler, 2⁻²⁶ with one"


@check
def bfloat16_gradients_under_a_scaler(device: str) -> str:
    """Silent on the CPU; CUDA has had no kernel for it (pytorch#127176): whichever it is, it is said."""
    import torch

    weight = torch.zeros(2, device=device, dtype=torch.bfloat16, requires_grad=True)
    optimizer = torch.optim.SGD([weight], lr=1.0)
    scaler = torch.amp.GradScaler(device, init_scale=8.0)
    scaler.scale(weight.sum()).backward()
    try:
        scaler.unscale_(optimizer)
    except (NotImplementedError, RuntimeError) as error:
        if device != "cuda" or "BFloat16" not in str(error):
            raise
        return f"raises {type(error).__name__}: {error}".splitlines()[0]
    assert weight.grad is not None
    assert weight.grad.tolist() == [1.0, 1.0]
    return "is silent, and unscales"


@check
def fused_optimizers_skip_inside_their_kernel(device: str) -> str:
    """On an overflow their `step` is called all the same, and changes nothing; gradients are left unscaled."""
    import torch

    seen = []
    for kind in (torch.optim.SGD, torch.optim.Adam, torch.optim.AdamW):
        weight = torch.zeros(2, device=device, requires_grad=True)
        try:
            optimizer = kind([weight], lr=1.0, fused=True)
        except RuntimeError as error:
            if device == "cuda":
                raise
            return f"not on this CPU: {error}"
        calls: list[object] = []
        optimizer.register_step_pre_hook(lambda *arguments, calls=calls: calls.append(arguments))
        scaler = torch.amp.GradScaler(device, init_scale=8.0)
        for infinite in (True, False):
            before = weight.detach().clone()
            scaler.scale((weight * (float("inf") if infinite else 3.0)).sum()).backward()
            scaler.step(optimizer)
            scaler.update()
            moved = not torch.equal(before, weight.detach())
            assert moved is not infinite, (kind, infinite)
            if not infinite:
                assert weight.grad is not None
                assert weight.grad.tolist() == [3.0, 3.0], weight.grad
            optimizer.zero_grad()
        assert scaler.get_scale() == 4.0
        seen.append(f"{kind.__name__} called {len(calls)} of 2 times")
    return ", ".join(seen)


@check
def a_fused_optimizer_takes_float16_gradients_in_silence(device: str) -> str:
    """`Attempting to unscale FP16 gradients.` comes from `unscale_`, which a fused optimizer does not need."""
    import torch

    weight = torch.zeros(2, device=device, dtype=torch.float16, requires_grad=True)
    plain = torch.optim.SGD([weight], lr=1.0)
    scaler = torch.amp.GradScaler(device, init_scale=8.0)
    scaler.scale(weight.float().sum()).backward()
    try:
        scaler.step(plain)
    except ValueError as error:
        if str(error) != "Attempting to unscale FP16 gradients.":
            raise
    else:
        raise AssertionError("the plain optimizer took them too")
    try:
        fused = torch.optim.Adam([weight], lr=1.0, fused=True)
        scaler = torch.amp.GradScaler(device, init_scale=8.0)
        scaler.scale(weight.float().sum()).backward()
        scaler.step(fused)
    except (RuntimeError, NotImplementedError) as error:
        return f"not here: {type(error).__name__}: {error}".splitlines()[0]
    return "Adam(fused=True) steps, SGD raises"


@check
def two_ddp_processes_on_gloo(device: str) -> str:
    """All-reduces by comm hook and divergence, for tensors of the device: right, D1 (no `no_sync`) and D2 (only it)."""
    from tests.device.ranks import measured

    seen = measured(device)
    assert seen["no_sync until the last"] == (2, 0.0), seen
    assert seen["never no_sync"] == (6, 0.0), seen
    assert seen["always no_sync"][0] == 0, seen
    assert seen["always no_sync"][1] > 0.1, seen
    return ", ".join(
        f"{name}: {syncs} all-reduces, apart {apart:.2g}" for name, (syncs, apart) in seen.items()
    )


@check
def fixtures_are_confirmed_on_the_device(device: str) -> str:
    """The tour, from its source; it needs libcst."""
    try:
        import libcst  # noqa: F401
    except ImportError:
        return "not checked: libcst is not installed here"
    from ampcheck.check import check_paths
    from ampcheck.replay import replay

    done = replay(check_paths(["fixtures/tour"]).findings, device)
    wrong = [(f.code, f.replay) for f in done if f.replay is None or f.replay.outcome != "confirmed"]
    assert not wrong, wrong
    return f"{len(done)} confirmed"


def main() -> int:
    """Run all of them; 1 where one fails."""
    import torch

    device = "cuda" if torch.cuda.is_available() else "cpu"
    begun = time.perf_counter()
    failed = 0
    for name, function in CHECKS.items():
        start = time.perf_counter()
        try:
            outcome, line = "ok", function(device)
        except Exception:
            failed += 1
            outcome, line = "FAILED", traceback.format_exc()
        print(f"{outcome:<6} {name} ({time.perf_counter() - start:.1f} s): {line}", flush=True)
    where = f"{torch.cuda.get_device_name()}, CUDA {torch.version.cuda}" if device == "cuda" else "the CPU"
    print(
        f"torch {torch.__version__} on {where}: {len(CHECKS) - failed} passed, {failed} failed, "
        f"in {time.perf_counter() - begun:.0f} s"
    )
    if device == "cpu":
        print("CUDA was not seen: nothing above says anything about a device")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
