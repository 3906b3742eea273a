"""The worker's side of the protocol: it recreates a launch, and runs configurations on request."""

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
    """The first message about a launch, to which the following requests refer.

    Attributes:
        threads: Number of threads that torch may use.
        compiles_only: If True, no configuration is run, so the tensors need not be on a GPU.
        target: Triton's description of the GPU to compile for, in a process that uses neither torch
            nor the GPU; None to run configurations, or to compile for the active driver.
        triton: Hash of Triton's files, and the path of the Triton installation to which it belongs;
            empty strings if the worker has to compute the hash.
        variables: Environment variables that the worker sets, in addition to those of its server,
            before it initialises the GPU.
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
    """Return the message with which a worker recreates a launch.

    Args:
        triton: See the attribute of `Opening`.
        shares: See the argument of `serialize`.
        variables: See the attribute of `Opening`.
        replaces: See the argument of `serialize`.

    Raises:
        CannotSendError: Part of the launch cannot be recreated in a worker.
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


#: The name of a request to compile the configuration that is tried first, and to build launchers
#: meanwhile.
LEAD = "lead"


@dataclass(frozen=True)
class Request:
    """A request about configurations, which are identified by their keys.

    Attributes:
        name: A key of `REQUESTS`.
        keys: Keys of the configurations.
        configs: Serialized configurations that were not sent with the launch, including that of the
            reference.
        rounds: Number of rounds of the comparison of finalists.
    """

    name: str
    keys: tuple[str, ...]
    configs: bytes = b""
    rounds: int = ROUNDS


@dataclass(frozen=True, kw_only=True)
class Answer:
    """The answer to an opening or a request.

    Attributes:
        value: Result of the request; None for an opening.
        error: Exception that prevented a result, or None.
        first_error: Exception of the first configuration that failed to run, or None.
        uncounted: The reason why launches could not be counted; empty if they were.
        device_lost: If True, the worker's GPU context is unusable, as after an illegal access.
    """

    value: Any = None
    error: Exception | None = None
    first_error: Exception | None = None
    uncounted: str = ""
    device_lost: bool = False


def serve(channel: Channel) -> None:
    """Answer openings and requests until the other process disconnects."""
    try:
        message = channel.receive()
        while True:
            message = _Service(channel, message).run()
    except WorkerGoneError:
        return


def wake_gpu() -> None:
    """Load the parts of the driver, torch and Triton that every launch needs, ahead of time.

    Errors are ignored here, because the first launch raises and reports them again.
    """
    import torch

    with suppress(Exception):
        tensor = torch.ones(1024, device="cuda")
        torch.equal(tensor, tensor.clone())
        tensor.double().square().mean().isnan().item()
        triton_versions.load_compiler()


def serve_bench(channel: Channel, make_bench: Callable[[], Bench], configs: Sequence[Any]) -> None:
    """Answer requests about one launch that this process already has, until disconnected.

    Args:
        channel: Connection to the other process, which first sends an opening.
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
        except Exception as error:  # noqa: BLE001 - the launch may fail in any way
            channel.send(Answer(error=portable(error)))
            return
        by_key = {candidate.key: candidate for candidate in candidates(configs)}
        channel.send(Answer())
        while True:
            channel.send(_answer(bench, channel.receive(), by_key))
    except WorkerGoneError:
        return


class _Service:
    """Answers the requests about one launch.

    Args:
        channel: Connection to the process that sends requests.
    """

    def __init__(self, channel: Channel, opening: Opening) -> None:
        self._channel, self._opening = channel, opening
        self._next: Opening | None = None

    def run(self) -> Opening:
        """Answer requests until a different launch is opened; return that opening."""
        try:
            if self._opening.target is None:
                self._launch()
            else:
                self._compile(self._opening.target)
        except WorkerGoneError:
            raise
        except Exception as error:  # noqa: BLE001 - the launch may fail in any way
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
        if parts.mapped:  # query the driver before `map_devices` reports a GPU
            triton_versions.active_driver()
        with map_devices({"cuda": "cpu"}) if parts.mapped else nullcontext():
            if parts.mapped:
                reported_device()  # the script has also queried the GPU
            self._opening.measuring.observe(parts.tuner, parts.arguments, self._answer_with)

    def _answer_with(self, launch: TunedCall, bench: Bench) -> None:
        by_key = {candidate.key: candidate for candidate in candidates(launch.configs)}
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
    except Exception as error:  # noqa: BLE001 - sent to the requesting process
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
    """Add the configurations that came with a request to the worker's configurations."""
    if request.configs:
        for candidate in candidates(deserialize_configs(request.configs)):
            by_key.setdefault(candidate.key, candidate)


def _compiled(compiler: Compiler, request: Request) -> Answer:
    if request.name == LEAD:
        triton_versions.build_launchers()
    try:
        configs = request.configs
        facts_by_key = {key: compiler.compile(key, configs) for key in request.keys}
    except Exception as error:  # noqa: BLE001 - sent to the requesting process
        return Answer(error=portable(error))
    return Answer(value={key: facts for key, facts in facts_by_key.items() if facts is not None})


def _compile(bench: Bench, chosen: list[Candidate], request: Request) -> dict[str, StaticFacts]:
    facts_by_key = {candidate.key: bench.compile(candidate) for candidate in chosen}
    return {key: facts for key, facts in facts_by_key.items() if facts is not None}


def _establish(bench: Bench, chosen: list[Candidate], request: Request) -> None:
    for candidate in chosen:
        bench.establish(candidate)


#: Functions that answer requests to a worker, by the name of the request.
REQUESTS: dict[str, Callable[[Bench, list[Candidate], Request], Any]] = {
    "compile": _compile,
    "establish": _establish,
    "attempt": lambda bench, chosen, request: bench.attempt(chosen[0]),
    "final": lambda bench, chosen, request: bench.final(chosen, request.rounds),
}


def portable(error: Exception) -> Exception:
    """Return the exception, or one with the same text if it cannot be pickled."""
    error.__traceback__ = error.__cause__ = error.__context__ = None
    try:
        again = pickle.loads(pickle.dumps(error))
        if str(again) == str(error):
            return error
    except Exception:  # noqa: BLE001 - third-party classes may raise anything
        pass
    return TtoolsError(f"{type(error).__name__}: {error}")
