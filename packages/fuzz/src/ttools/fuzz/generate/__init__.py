"""Random kernels: `generate(seed)` makes the same one each time."""

from ttools.fuzz.generate.kernel import generate

__all__ = ["generate"]
