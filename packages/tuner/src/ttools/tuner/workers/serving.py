"""What a worker process does: it makes a launch again, and runs configurations of it on request.

Owns the requests and their answers. Must not know why a configuration is run, nor how processes
begin and end.
"""

from __future__ import annotations

import pickle
from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext, suppress
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any

from ttools.core import triton_versions
from ttools.core.device_map.mapping import map_devices, reported_device
from ttools.core.errors import TtoolsError
from ttools.core.process.channel import Channel, WorkerGoneError
from ttools.interpreter.run.tuned_launch import TunedCall
from ttools.tuner.cost.static_cost import StaticFacts
from ttools.tuner.measure.bench import Bench
from ttools.tuner.measure.finalists import ROUNDS
from ttools.tuner.measure.measuring import Measuring
from ttools.tuner.space.candidate import Candidate, candidates
from ttools.tuner.workers.compiling import Compiler
from ttools.tuner.workers.serialized_launch import (
    SerializedCall,
    deserialize,
    deserialize_configs,
    serialize,
)
from ttools.tuner.workers.target_driver import compile_for_target


@dataclass(frozen=True, kw_only=True)
class Opening:
    """The launch that the requests which follow are about.

    Attributes:
        threads: how many torch may use.
        compiles_only: nothing will be run, so memory need not be on a GPU.
        target: Triton's name of the GPU to compile for, in a process that needs neither torch nor
            a context on it; None to compile for the active driver, or to run.
        triton: Triton's hash of its files, and which Triton that is; empty where it is to be made.
        variables: of the environment that a worker needs besides its server's, before it asks for
            a GPU.
    """

    launch: SerializedCall
    measuring: Measuring
    threads: int
    compiles_only: bool = False
    target: Any = None
    triton: tuple[str, str] = ("", "")
    variables: Mapping[str, str] = field(default_factory=dict)


def opening_of(
    launch: TunedCall,
    measuring: Measuring,
    triton: tuple[str, str] = ("", ""),
    shares: bool = False,
    variables: Mapping[str, str] = MappingProxyType({}),
    replaces: bool = False,
) -> Opening:
    """What has a worker make a launch again.

    Args:
        triton: see `Opening`.
        shares: see `serialize`.
        variables: see `Opening`.
        replaces: see `serialize`.

    Raises:
        CannotSendError: a worker could not.
    """
    import torch

    threads = torch.get_num_threads()
    serialized = serialize(launch, shares, replaces)
    return Opening(
        launch=serialized,
        measuring=measuring,
        threads=threads,
        triton=triton,
        variables=dict(variables),
    )


#: The request to compile what everything waits for: what launches it is made meanwhile.
LEAD = "lead"


@dataclass(frozen=True)
class Request:
    """Something to do with configurations, which are named by their keys.

    Attributes:
        name: of `REQUESTS`.
        keys: of the configurations.
        configs: those that the launch was sent without, and that of the reference.
        rounds: of a comparison.
    """

    name: str
    keys: tuple[str, ...]
    configs: bytes = b""
    rounds: int = ROUNDS


@dataclass(frozen=True, kw_only=True)
class Answer:
    """What came of a request.

    Attributes:
        value: of the request; None for an opening.
        error: why there is none.
        first_error: of the first configuration that did not run.
        uncounted: why launches could not be counted.
        device_lost: whether the worker's GPU is of no use any more, as after an illegal access.
    """

    value: Any = None
    error: Exception | None = None
    first_error: Exception | None = None
    uncounted: str = ""
    device_lost: bool = False


def serve(channel: Channel) -> None:
    """Answers openings and requests until the other side is gone."""
    try:
        message = channel.receive()
        while True:
            message = _Service(channel, message).run()
    except WorkerGoneError:
        return


def wake_gpu() -> None:
    """Has the driver, torch and Triton load what every launch needs, before there is one.

    What fails here fails again, and is reported, when a launch is made.
    """
    import torch

    with suppress(Exception):
        some = torch.ones(1024, device="cuda")
        torch.equal(some, some.clone())
        some.double().square().mean().isnan().item()
        triton_versions.load_compiler()


def serve_bench(channel: Channel, make_bench: Callable[[], Bench], configs: Sequence[Any]) -> None:
    """Answer the requests about one launch, which this process has, until the other side is gone.

    Args:
        channel: To the process that asks; it begins with an opening.
        make_bench: Makes the bench of the launch.
        configs: The configurations of the launch.
    """
    import torch

    try:
        opening = channel.receive()
        torch.set_num_threads(opening.threads)
        try:
            bench = make_bench()
            bench.make_ready()
        except Exception as error:  # noqa: BLE001 - whatever stands in the way of the launch
            channel.send(Answer(error=portable(error)))
            return
        by_key = {each.key: each for each in candidates(configs)}
        channel.send(Answer())
        while True:
            channel.send(_answer(bench, channel.receive(), by_key))
    except WorkerGoneError:
        return


class _Service:
    """Answers the requests about one launch.

    Args:
        channel: to the process that asks.
    """

    def __init__(self, channel: Channel, opening: Opening) -> None:
        self._channel, self._opening = channel, opening
        self._next: Opening | None = None

    def run(self) -> Opening:
        """Answers until another launch is opened, which it returns."""
        try:
            if self._opening.target is None:
                self._launch()
            else:
                self._compile(self._opening.target)
        except WorkerGoneError:
            raise
        except Exception as error:  # noqa: BLE001 - whatever stands in the way of the launch
            self._channel.send(Answer(error=portable(error)))
            self._next = self._channel.receive()
        assert self._next is not None
        return self._next

    def _launch(self) -> None:
        import torch

        torch.set_num_threads(self._opening.threads)
        triton_versions.use_hash(*self._opening.triton)
        device = "cpu" if self._opening.compiles_only else None
        parts = deserialize(self._opening.launch, device)
        if parts.mapped:  # before a GPU seems to be there
            triton_versions.active_driver()
        with map_devices({"cuda": "cpu"}) if parts.mapped else nullcontext():
            if parts.mapped:
                reported_device()  # as the script has asked for a GPU
            self._opening.measuring.observe(parts.tuner, parts.arguments, self._answer_with)

    def _answer_with(self, launch: TunedCall, bench: Bench) -> None:
        by_key = {each.key: each for each in candidates(launch.configs)}
        bench.make_ready()
        self._answer_all(lambda request: _answer(bench, request, by_key))

    def _compile(self, target: Any) -> None:
        compile_for_target(target)
        compiler = Compiler(self._opening.launch)
        self._answer_all(lambda request: _compiled(compiler, request))

    def _answer_all(self, answer: Callable[[Request], Answer]) -> None:
        self._channel.send(Answer())
        while True:
            message = self._channel.receive()
            if isinstance(message, Opening):
                self._next = message
                return
            self._channel.send(answer(message))


def _answer(bench: Bench, request: Request, by_key: dict[str, Candidate]) -> Answer:
    value, failure = None, None
    try:
        _add_configs(request, by_key)
        chosen = [by_key[key] for key in request.keys]
        value = REQUESTS[request.name](bench, chosen, request)
    except Exception as error:  # noqa: BLE001 - sent to the process that asked
        failure = portable(error)
    first = bench.first_error
    return Answer(
        value=value,
        error=failure,
        first_error=None if first is None else portable(first),
        uncounted=bench.uncounted,
        device_lost=first is not None and bench.is_device_lost(),
    )


def _add_configs(request: Request, by_key: dict[str, Candidate]) -> None:
    """Adds the configurations that came with a request to those that a worker has."""
    if request.configs:
        for each in candidates(deserialize_configs(request.configs)):
            by_key.setdefault(each.key, each)


def _compiled(compiler: Compiler, request: Request) -> Answer:
    if request.name == LEAD:
        triton_versions.build_launchers()
    try:
        configs = request.configs
        found = {key: compiler.compile(key, configs) for key in request.keys}
    except Exception as error:  # noqa: BLE001 - sent to the process that asked
        return Answer(error=portable(error))
    return Answer(value={key: facts for key, facts in found.items() if facts is not None})


def _compile(bench: Bench, chosen: list[Candidate], request: Request) -> dict[str, StaticFacts]:
    found = {each.key: bench.compile(each) for each in chosen}
    return {key: facts for key, facts in found.items() if facts is not None}


def _establish(bench: Bench, chosen: list[Candidate], request: Request) -> None:
    for each in chosen:
        bench.establish(each)


#: What can be asked of a worker.
REQUESTS: dict[str, Callable[[Bench, list[Candidate], Request], Any]] = {
    "compile": _compile,
    "establish": _establish,
    "attempt": lambda bench, chosen, request: bench.attempt(chosen[0]),
    "final": lambda bench, chosen, request: bench.final(chosen, request.rounds),
}


def portable(error: Exception) -> Exception:
    """The exception, or one with its text if pickle cannot write it."""
    error.__traceback__ = error.__cause__ = error.__context__ = None
    try:
        again = pickle.loads(pickle.dumps(error))
        if str(again) == str(error):
            return error
    except Exception:  # noqa: BLE001 - somebody else's class
        pass
    return TtoolsError(f"{type(error).__name__}: {error}")
