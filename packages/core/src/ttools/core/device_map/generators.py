"""Random number generators of the mapped device, independent of the CPU's.

The state of a CUDA generator consists of a seed and an offset, which libraries read and set to draw
numbers in their own kernels. Here, the numbers are drawn by a CPU generator, which has a much
larger state. Whenever seed and offset are read or set, the CPU generator is seeded again from them,
so that equal pairs of seed and offset give equal numbers.
"""

from __future__ import annotations

import hashlib
import struct
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache
from typing import Any

import numpy as np
import torch

from ttools.core.device_map.graphs.capture import Capture, capturing
from ttools.core.errors import UnsupportedError

_Original: Any = torch.Generator
#: Layout of the state: seed and offset.
_STATE = struct.Struct("<QQ")
#: Increment of the offset after drawing; CUDA's offsets are multiples of four.
_STEP = 4
#: Offsets of at least this value represent states that become known when a graph is replayed.
_IN_GRAPHS = 1 << 48


class _AnyGenerator(type(_Original)):  # type: ignore[misc]
    def __instancecheck__(cls, instance: object) -> bool:
        return isinstance(instance, _Original)


class Generator(_Original, metaclass=_AnyGenerator):  # type: ignore[misc]
    """A `torch.Generator` whose device may be a mapped one."""

    def __new__(cls, device: Any = "cpu") -> Any:
        """Return a `DeviceGenerator` for a mapped device, else a generator of torch's own."""
        device = torch.device(device)
        if device.type == "cuda":
            return _Original.__new__(DeviceGenerator, "cpu")
        return _Original.__new__(cls, device)


class DeviceGenerator(Generator):
    """A random number generator of the mapped device, whose numbers a CPU generator draws."""

    _seed = _offset = 0
    #: State of the CPU generator that corresponds to this seed and offset.
    _state = b""

    @property
    def device(self) -> Any:
        return torch.device("cuda", 0)

    def get_state(self) -> Any:
        """Return seed and offset in eight bytes each, like a CUDA generator."""
        capture = capturing()
        if capture is not None:
            return self._state_in(capture)
        state, seed = self.long_state(), self.initial_seed()
        if state == _long_state(seed, 0):
            self._remember(seed, 0, state)
        elif state != self._state or seed != self._seed:
            self._begin(seed, _STEP + (self._offset if seed == self._seed else 0))
        return _tensor(_STATE.pack(self._seed, self._offset))

    def set_state(self, state: Any) -> None:
        """Set seed and offset, or a state of the CPU generator."""
        value = _bytes(state)
        capture = capturing()
        if capture is not None:
            self._go_in(capture, value)
        elif len(value) == _STATE.size:
            self._begin(*_STATE.unpack(value))
        else:
            self.set_long_state(value)

    def get_offset(self) -> int:
        _refuse_captured("get_offset")
        self.get_state()
        return self._offset

    def set_offset(self, offset: int) -> None:
        _refuse_captured("set_offset")
        self._begin(self.initial_seed(), offset)

    def clone_state(self) -> Any:
        other = Generator("cuda")
        other.set_state(self.get_state())
        return other

    def manual_seed(self, seed: int) -> Any:
        """Set the seed; during the capture of a graph, only check that it equals the old one."""
        if capturing() is None:
            return super().manual_seed(seed)
        self._check_seed(seed)
        return self

    def seed(self) -> int:
        _refuse_captured("seed")
        return int(super().seed())

    # In CUDA, generators share this state; a copy is sufficient here.
    graphsafe_get_state = clone_state

    def graphsafe_set_state(self, other: Any) -> Any:
        if capturing() is not None:
            raise UnsupportedError(
                "`graphsafe_set_state` during the capture of a CUDA graph on a mapped device",
                help="pass the generator to the operators: `generator=…`",
            )
        self.set_state(other.get_state())
        return self

    def long_state(self) -> bytes:
        """Return the state of the CPU generator."""
        return _bytes(super().get_state())

    def set_long_state(self, value: bytes) -> None:
        """Set the state of the CPU generator."""
        super().set_state(_tensor(value))

    # ---- during the capture of a graph, nothing is drawn before a replay

    def _state_in(self, capture: Capture) -> Any:
        """Return a placeholder for the generator's state at this point of each replay."""
        holder: list[Any] = []
        value = _STATE.pack(self.initial_seed(), _IN_GRAPHS + _STEP * len(capture.states))
        capture.states[value] = holder

        def record() -> None:
            holder[:] = [self.get_state()]

        capture.add("a generator's state", record)
        return _tensor(value)

    def _go_in(self, capture: Capture, value: bytes) -> None:
        holder = capture.states.get(value)
        if holder is None:
            self._check_seed(struct.unpack_from("<Q", value)[0])
            raise UnsupportedError(
                "restoring, inside a CUDA graph, a random generator state that was saved before "
                "the capture"
            )
        capture.add("go to a generator's state", lambda: self.set_state(holder[0]))

    def _check_seed(self, seed: int) -> None:
        if seed != self.initial_seed():
            raise RuntimeError(
                "CUDAGeneratorImpl::set_current_seed can be called during stream capture only if "
                "new seed is the same as the original seed."
            )

    def _begin(self, seed: int, offset: int) -> None:
        state = _long_state(seed, offset)
        self.set_long_state(state)
        self._remember(seed, offset, state)

    def _remember(self, seed: int, offset: int, state: bytes) -> None:
        self._seed, self._offset, self._state = seed, offset, state


def _long_state(seed: int, offset: int) -> bytes:
    """Return the CPU generator's state for a seed and an offset; the state also stores the seed."""
    first = seed
    if offset:
        digest = hashlib.blake2b(_STATE.pack(seed, offset), digest_size=8).digest()
        first = int.from_bytes(digest, "little")
    fresh = _Original("cpu")
    fresh.manual_seed(first)
    # ATen's `CPUGeneratorImplStateLegacy` starts with the first seed.
    return struct.pack("<Q", seed) + _bytes(fresh.get_state())[8:]


def _refuse_captured(name: str) -> None:
    if capturing() is not None:
        raise RuntimeError(f"Cannot call CUDAGeneratorImpl::{name} during CUDA graph capture.")


# Dispatch modes of a script, such as the mode for fake tensors, must not handle these operators.


def _bytes(state: Any) -> bytes:
    with torch._C._DisableTorchDispatch():
        return bytes(state.numpy().tobytes())


def _tensor(value: bytes) -> Any:
    with torch._C._DisableTorchDispatch():
        return torch.from_numpy(np.frombuffer(bytearray(value), np.uint8))


@cache
def default_generator() -> Any:
    """Return the default generator of the mapped device."""
    generator = Generator("cuda")
    generator.manual_seed(torch.default_generator.initial_seed())
    return generator


@contextmanager
def drawing() -> Iterator[None]:
    """Make CPU operators without a generator argument draw from the device's generator."""
    host, device = torch.default_generator, default_generator()
    host_state = host.get_state()
    host.set_state(_tensor(device.long_state()))
    try:
        yield
    finally:
        device.set_long_state(_bytes(host.get_state()))
        host.set_state(host_state)


def of_cuda() -> dict[str, Callable[..., Any]]:
    """Return the random number functions of `torch.cuda`, by name."""

    def set_state(state: Any, device: object = None) -> None:
        default_generator().set_state(state)

    return {
        "manual_seed": lambda seed: default_generator().manual_seed(int(seed)),
        "manual_seed_all": lambda seed: default_generator().manual_seed(int(seed)),
        "seed": lambda: default_generator().seed(),
        "seed_all": lambda: default_generator().seed(),
        "initial_seed": lambda: default_generator().initial_seed(),
        "get_rng_state": lambda device=None: default_generator().get_state(),
        "get_rng_state_all": lambda: [default_generator().get_state()],
        "set_rng_state": set_state,
        "set_rng_state_all": lambda states: set_state(states[0]),
    }
