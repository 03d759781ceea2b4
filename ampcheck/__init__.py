"""ampcheck lints PyTorch training loops for mixed precision, and confirms each finding on tensors."""

__all__ = ["__version__"]

__version__ = "0.1.0"
