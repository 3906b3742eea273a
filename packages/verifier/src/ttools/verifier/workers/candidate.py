"""The candidate's process: calls the candidate on ttools' engine under all checks.

This process does not decide whether results are correct. It sends the results, the arguments after
the call and the findings to the process that compares results. A candidate can falsify the
observations that are made here, but not the values that it returns.
"""

from __future__ import annotations

import gc
import weakref
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import Any

import torch

from ttools.core.device_map.mapping import map_for_good
from ttools.core.errors import KernelError, TtoolsError, UnsupportedError
from ttools.core.gpus.launch_rules import CUDA_GRID
from ttools.core.process.channel import Channel
from ttools.core.process.user_module import load_functions
from ttools.core.reports.accuracy import listed_shares
from ttools.core.reports.text import witness_text
from ttools.core.spec import tensor_on
from ttools.interpreter.api import interpret
from ttools.interpreter.run.kernel_launch import KernelLaunch
from ttools.interpreter.runtime.launch import LaunchReport
from ttools.sanitizer.analysis.kernel_facts import KernelFactsTable
from ttools.sanitizer.api import Sanitization, sanitize
from ttools.sanitizer.checks.accuracy import Accuracy
from ttools.verifier.cases.tensors import (
    TensorImage,
    map_tensors,
    put_values,
    raw_bytes,
    storage_bytes,
    tensor_of,
    whole_storage,
)
from ttools.verifier.replay.work import Work
from ttools.verifier.workers import custom_operators, effects, module, randomness, results
from ttools.verifier.workers.argument_writes import ArgumentWrites
from ttools.verifier.workers.operators import watched
from ttools.verifier.workers.patched import Patched
from ttools.verifier.workers.recording import PlanRecorder
from ttools.verifier.workers.rounded_products import rounded_products
from ttools.verifier.workers.tuned import ChosenConfig
from ttools.verifier.workers.value_log import logged

#: Number of earlier calls whose results are kept, to detect whether later calls change these
#: results.
_KEPT = 12


class Candidate:
    """Answers requests about one candidate.

    Args:
        word: Candidate function as `FILE.py:NAME`.
        timeout: Time limit of a launch in seconds.
        device: Device of the arguments. If `cuda`, the CPU stands in for a GPU.
        number: Number of the process; the seed of its random number generators.
    """

    #: Device of the memory that kernels write value logs to.
    _log_device = "cpu"
    #: True if the bytes of tensors can be read, so that plans of calls can be recorded.
    _is_on_host = True

    def __init__(self, word: str, timeout: float, device: str = "cpu", number: int = 0) -> None:
        self._word, self._timeout, self._device = word, timeout, device
        self._number = number
        self._module: Any = None
        self._function: Any = None
        self._patched: Patched | None = None
        #: Settings of torch after the candidate's file was loaded, see `effects.settings`.
        self._settings: dict[str, str] = {}
        #: Arguments of the last call by name, for a next call that uses the same storages.
        self._held: dict[str, Any] = {}
        self._kept: dict[int, list[torch.Tensor]] = {}
        self._calls = 0
        #: Facts about kernels that the checks have determined, by precision of matrix products.
        self._facts: dict[str, KernelFactsTable] = {}
        #: Chooses the configuration of autotuned kernels in the current call.
        self._tuned = ChosenConfig(None)
        #: Exception that the current call raises in a backward pass that few programs need; empty
        #: if there is none.
        self._declined = ""
        #: Records the call that is being made.
        self._recorder: PlanRecorder | None = None

    def serve(self, channel: Channel) -> None:
        """Answer requests until there are no more."""
        torch.set_num_threads(1)
        module.leave_out_compiler()
        randomness.begin(self._number)
        while True:
            request = channel.receive()
            try:
                answer = self.answer(request)
            except Exception as error:  # noqa: BLE001 - reported in the answer
                # A failure of ttools must not be reported as a failure of the candidate.
                described = module.described(error)
                answer = {"broken": f"{described['kind']}: {described['text']}"}
            channel.send(answer)

    def answer(self, request: dict[str, Any]) -> dict[str, Any]:
        """Return the answer to one request."""
        answers = {"load": self._load, "call": self._called, "kept": self._kept_now}
        return answers[request["do"]](request)

    def _load(self, _: dict[str, Any]) -> dict[str, Any]:
        if self._device == "cuda":
            map_for_good()
        custom_operators.follow()
        self._patched = Patched()
        try:
            with interpret():  # files may launch kernels when they are loaded
                ((self._module, self._function),) = load_functions([self._word])
        except (Exception, SystemExit) as error:  # noqa: BLE001 - the user's code
            return module.not_loaded(error)
        self._settings = effects.settings()
        return {}

    def _kept_now(self, _: dict[str, Any]) -> dict[str, Any]:
        """Return the current elements of the results of earlier calls."""
        return {
            "kept": [
                [number, [raw_bytes(tensor) for tensor in tensors]]
                for number, tensors in self._kept.items()
            ]
        }

    def _called(self, request: dict[str, Any]) -> dict[str, Any]:
        self._calls += 1
        arguments = self._arguments(request)
        owners = results.owners_of(arguments)
        self._tuned = ChosenConfig(request.get("config"))
        answer: dict[str, Any] = {"call": self._calls}
        observations: dict[str, Any] = {
            "launches": 0,
            "constants": [],
            "kernels": [],
            "rounded_products": [],
            "too_large": "",
        }
        tensors = results.tensors_of(arguments)
        writes = ArgumentWrites(tensors)
        has_plan = self._is_on_host and bool(request.get("plan"))
        self._recorder = self._recording(tensors, has_plan)
        self._declined = ""
        returned: Any = None
        state, seeds = randomness.state(), randomness.seeds()
        logs = logged(request.get("log"), self._log_device)
        with self._engine(request, observations, writes) as run, logs as log:
            try:
                with self._watched():
                    returned = self._function(**arguments)
                    if "between" in request:
                        self._function(**map_tensors(self._made, request["between"], TensorImage))
                parts = self._parts(returned, arguments, request)
            except UnsupportedError as error:
                answer["unsupported"] = str(error)
            except KernelError as error:
                answer["error"] = module.described(error)
            except TtoolsError as error:
                answer["unsupported"] = str(error)
            except (Exception, SystemExit) as error:  # noqa: BLE001 - the user's code
                answer["error"] = module.described(error)
            else:
                answer["declined"] = self._declined
                if self._recorder is not None and has_plan and not self._declined:
                    answer["plan"], answer["no_plan"] = self._recorder.plan(parts)
                answer["results"] = [self._described(name, part, owners) for name, part in parts]
                results.share(answer["results"], parts)
                answer["finished_by"] = self._finished_by(parts)
                answer["lazy"] = [name for name, part in parts if results.is_lazy(part)]
                if request.get("keep"):
                    self._keep(parts)
        writes.end()
        answer["stored"], answer["changed"] = writes.stored, writes.changed
        answer["reshaped"] = writes.reshaped
        answer["attached"] = effects.attached(tensors)
        answer["settings"] = effects.changed_settings(self._settings)
        answer["arguments"] = map_tensors(storage_bytes, arguments, torch.Tensor)
        answer["findings"] = [] if run is None else [_finding(finding) for finding in run]
        work = self._work()
        answer["operators"] = [[name, *counts] for name, counts in work.counts.items()]
        answer["finishing"] = [[name, count] for name, count in work.finishing.items()]
        answer.update(observations)
        answer["log"] = log
        answer["configs"] = self._tuned.integers
        answer["drew"] = randomness.state() != state
        answer["reseeded"] = randomness.reseeded(seeds)
        if run is not None and self._recorder is not None and not answer["drew"]:
            answer["structure"] = [self._device, self._recorder.structure]
        answer["replaced"] = self._patched.names() if self._patched else []
        if request.get("hold"):
            self._held = arguments
        return answer

    def _recording(
        self, tensors: list[tuple[str, torch.Tensor]], has_plan: bool
    ) -> PlanRecorder | None:
        """Return a recorder for a call; None if the operators of the call are not observed."""
        return PlanRecorder(tensors, is_on_host=has_plan)

    def _watched(self) -> AbstractContextManager[None]:
        return nullcontext() if self._recorder is None else watched(self._recorder)

    def _work(self) -> Work:
        """Return the counts of the elements on which operators of the last call computed."""
        return Work() if self._recorder is None else self._recorder.work

    def _finished_by(self, parts: list[tuple[str, Any]]) -> list[list[Any]]:
        """Return the torch operators that finish results; see `Executor.finished_by`."""
        return [] if self._recorder is None else self._recorder.finished_by(parts)

    def _parts(
        self, found: Any, arguments: dict[str, Any], request: dict[str, Any]
    ) -> list[tuple[str, Any]]:
        """Return the parts of a result by name, and the gradients of the arguments."""
        backward = results.BackwardPass(**request.get("backward", {}))
        weights = results.weights_of(found, backward)
        if self._recorder is not None:
            self._recorder.take(weights)
        with self._watched():
            own = [weight for _, weight in weights]
            try:
                gradients = results.gradients(found, arguments, own, backward)
            except TtoolsError:
                raise
            except Exception as error:
                if backward.passes == "once":
                    raise
                described = module.described(error)
                self._declined = f"{described['kind']}: {described['text']}"
                gradients = []
        return [*results.flat(found), *gradients]

    def _described(self, name: str, value: Any, owners: dict[int, str]) -> dict[str, Any]:
        try:
            description = results.described(name, value, owners)
            if description.get("device") == self._device:
                description["device"] = "cpu"  # the device of the reference's results
            return description
        except (TypeError, RuntimeError, NotImplementedError) as error:
            return {"name": name, "kind": type(value).__name__, "value": str(error)}

    def _arguments(self, request: dict[str, Any]) -> dict[str, Any]:
        """Return new tensors, or the tensors of the previous call with new values."""
        images = request["arguments"]
        how, shared = request.get("reuse"), request.get("shared")
        if not self._held or not how or (how == "address" and not self._freed()):
            fresh: dict[str, Any] = map_tensors(self._made, images, TensorImage)
            if shared is not None:
                fresh[shared[1]] = fresh[shared[0]]
            return fresh
        previous = dict(self._held)
        for key, value in images.items():
            tensors = [tensor for _, tensor in results.flat(previous[key])]
            for (_, image), tensor in zip(results.flat(value), tensors, strict=True):
                if isinstance(image, TensorImage):
                    put_values(tensor, image, is_new=how == "address")
            if not any(isinstance(part, TensorImage) for _, part in results.flat(value)):
                previous[key] = value
        return previous

    def _made(self, image: TensorImage) -> torch.Tensor:
        tensor = tensor_of(image)
        if self._device == "cpu":
            return tensor
        whole = whole_storage(tensor).to(self._device, copy=True)
        moved: torch.Tensor = tensor_on(whole.untyped_storage(), image.spec)
        return moved.requires_grad_(image.requires_grad)

    def _freed(self) -> bool:
        """Replace the previous call's tensors by new tensors at the same addresses.

        Returns:
            True if the old tensors were freed, because nothing else referred to them.
        """
        own = [tensor for _, tensor in results.tensors_of(self._held)]
        storages = [tensor.untyped_storage() for tensor in own]
        places = [(tensor.storage_offset(), tensor.shape, tensor.stride()) for tensor in own]
        alive = list(map(weakref.ref, own))
        made = [
            torch.empty(0, dtype=tensor.dtype, device=tensor.device).set_(storage, *place)
            for tensor, storage, place in zip(own, storages, places, strict=True)
        ]
        for one, other in zip(made, own, strict=True):
            one.requires_grad_(other.requires_grad)
        following = iter(made)
        self._held = map_tensors(lambda _: next(following), self._held, torch.Tensor)
        del own
        if made:
            del other
        gc.collect()
        return all(reference() is None for reference in alive)

    def _keep(self, parts: list[tuple[str, Any]]) -> None:
        """Keep the tensors of a call's result under the number of the call."""
        self._kept[self._calls] = [part for _, part in parts if isinstance(part, torch.Tensor)]
        while len(self._kept) > _KEPT:
            del self._kept[next(iter(self._kept))]

    @contextmanager
    def _engine(
        self,
        request: dict[str, Any],
        seen: dict[str, Any],
        writes: ArgumentWrites,
    ) -> Iterator[Any]:
        """Run the engine with the options of a request.

        Yields:
            A list that receives the findings after the run; None if the launches are not checked.
        """
        order = request.get("order")
        if order is not None or "log" in request:
            with interpret(
                order=order or "natural",
                seed=request.get("seed", 0),
                threads=request.get("threads", 1),
                first_config=True,
                tune=self._tuned.run,
                dot=request.get("dot", "exact"),
                timeout=self._timeout,
            ):
                yield None
            return
        dot = request.get("dot", "exact")
        run = sanitize(
            checks=Accuracy.name if "accuracy" in request else "default",
            exact_results=request.get("accuracy") == "exact",
            poison=True,
            threads=1,
            first_config=True,
            dot=dot,
            timeout=self._timeout,
        )
        run.session.share_facts(self._facts.setdefault(dot, run.session.kernel_facts))
        run.session.run_one = self._tuned.run
        run_checked = run.session.launch

        recorder = self._recorder

        def observed(launch: KernelLaunch) -> LaunchReport:
            with nullcontext() if recorder is None else recorder.launch(launch):
                return run_launch(launch)

        def run_launch(launch: KernelLaunch) -> LaunchReport:
            kernel = launch.kernel
            seen["launches"] += 1
            seen["too_large"] = seen["too_large"] or _too_large(launch.grid)
            if kernel.name not in seen["kernels"]:
                seen["kernels"].append(kernel.name)
                seen["rounded_products"] += rounded_products(kernel.variants.ttir)
            for value in kernel.constants.values():
                if type(value) is int and value > 1 and value not in seen["constants"]:
                    seen["constants"].append(value)
            if request.get("launches") is False:
                return LaunchReport(programs=0, seconds=0.0)
            report = run_checked(launch)
            writes.launched(launch)
            return report

        run.session.launch = observed  # type: ignore[method-assign]
        findings: list[Any] = []
        with run:
            yield findings
        findings.extend(f for f in run.session.findings if f.check != Accuracy.name)
        if "accuracy" in request:
            seen["accuracy"] = _measured(run)


def _too_large(grid: Sequence[int]) -> str:
    """Describe the dimension of a grid that exceeds CUDA's limit; empty if there is none."""
    for axis, count, most in zip("xyz", grid, CUDA_GRID, strict=False):
        if count > most:
            return f"launches {count:,} programs along {axis}; CUDA allows at most {most:,}"
    return ""


def _measured(run: Sanitization) -> dict[str, Any]:
    """Return what the check `accuracy` has found: findings, limits, and errors of outputs."""
    own = [finding for finding in run.session.findings if finding.check == Accuracy.name]
    outputs = []
    for output in run.accuracy:
        location, share = next(iter(listed_shares(output)), (None, 0.0))
        outputs.append(
            {
                "name": f"`{output.argument}` of {output.kernel}",
                "dtype": output.dtype,
                "ulps": output.ulps,
                "where": "" if location is None else str(location),
                "share": share,
            }
        )
    return {
        "findings": [_finding(finding) for finding in own if finding.severity != "note"],
        "limits": [finding.message for finding in own if finding.kind == "unsupported"],
        "outputs": outputs,
    }


def _finding(finding: Any) -> dict[str, Any]:
    location = finding.location
    return {
        "kind": finding.kind,
        "check": finding.check,
        "severity": finding.severity,
        "message": finding.message,
        "kernel": finding.kernel,
        "where": "" if location is None else str(location),
        "witness": witness_text(finding),
        "help": finding.help or "",
    }
