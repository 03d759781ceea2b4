"""The checks of `tests.device.checks` as tests: on a CUDA device, or skipped with the reason."""

from __future__ import annotations

import pytest

from tests.device.checks import CHECKS


def _reason() -> str:
    torch = pytest.importorskip("torch")
    return "" if torch.cuda.is_available() else f"torch {torch.__version__} sees no CUDA device"


@pytest.mark.cuda
@pytest.mark.parametrize("name", CHECKS)
def test_on_cuda(name: str) -> None:
    if reason := _reason():
        pytest.skip(reason)
    print(CHECKS[name]("cuda"))


# What also exists without a device is tried there, so that the checks themselves are checked.
ON_CPU = ("float16 autocast with a scaler trains like float32", "two ddp processes on gloo")


@pytest.mark.parametrize("name", ON_CPU)
def test_the_check_itself_works_on_the_cpu(name: str) -> None:
    pytest.importorskip("torch")
    assert CHECKS[name]("cpu")
