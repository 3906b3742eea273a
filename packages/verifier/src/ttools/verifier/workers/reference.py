"""The reference's process: draws inputs and evaluates the reference, also in double precision."""

from __future__ import annotations

from typing import Any

import torch

from ttools.core.device_map.mapping import map_for_good
from ttools.core.errors import UsageError
from ttools.core.process.channel import Channel
from ttools.core.process.user_module import load_functions
from ttools.interpreter.api import interpret
from ttools.verifier.cases.domain import entries_of, example_of_inputs, read_domain
from ttools.verifier.cases.tensors import TensorImage, image_of, map_tensors, tensor_of
from ttools.verifier.oracle.evaluation import evaluate
from ttools.verifier.workers import module, randomness
from ttools.verifier.workers.module import has_loaded
from ttools.verifier.workers.patched import Patched
from ttools.verifier.workers.results import BackwardPass


class Reference:
    """Answers requests about one reference.

    Args:
        reference: Reference function as `FILE.py:NAME`.
        inputs: Function that draws the inputs, as `FILE.py:NAME`.
        is_mapped: If True, the CPU stands in for a GPU, for files that need one.
        candidate: Candidate function as `FILE.py:NAME`, to find out whether its file has been
            loaded.
    """

    def __init__(
        self, reference: str, inputs: str, is_mapped: bool = False, candidate: str = ""
    ) -> None:
        self._reference, self._inputs, self._is_mapped = reference, inputs, is_mapped
        self._candidate = candidate
        self._function: Any = None
        self._draw: Any = None
        self._entries: dict[str, Any] = {}

    def serve(self, channel: Channel) -> None:
        """Answer requests until there are no more."""
        torch.set_num_threads(1)
        module.leave_out_compiler()
        while True:
            channel.send(self.answer(channel.receive()))

    def answer(self, request: dict[str, Any]) -> dict[str, Any]:
        """Return the answer to one request."""
        answers = {"load": self._load, "draw": self._drawn, "evaluate": self._evaluated}
        return answers[request["do"]](request)

    def _load(self, _: dict[str, Any]) -> dict[str, Any]:
        """Load the files, read the domain, and restore library functions that files replaced."""
        if self._is_mapped:
            map_for_good()
        before = Patched()
        try:
            (drawing, self._draw), (comparing, self._function) = load_functions(
                [self._inputs, self._reference]
            )
            self._entries = entries_of(drawing, self._draw)
            domain = read_domain(drawing, self._draw)
        except UsageError as error:
            return {"misuse": str(error)}
        except (Exception, SystemExit) as error:  # noqa: BLE001 - the user's code
            return module.not_loaded(error)

        def named(key: str) -> list[str]:
            return list(getattr(drawing, key, None) or getattr(comparing, key, []))

        return {
            "domain": domain,
            "inplace": named("INPLACE"),
            "finite": named("FINITE"),
            "contiguous": named("CONTIGUOUS"),
            "shared": named("SHARED"),
            "patched": before.put_back(),
            "has_candidate": has_loaded(self._candidate, [drawing, comparing]),
        }

    def _drawn(self, request: dict[str, Any]) -> dict[str, Any]:
        try:
            arguments = dict(request["sizes"])
            for name, number in request["choices"].items():
                arguments[name] = self._entries[name][number]
            if request["is_seeded"]:
                arguments["seed"] = request["seed"]
            else:
                # Equal cases have equal inputs, even if `inputs` draws from the default generators.
                randomness.begin(request["seed"])
            drawn = self._draw(**arguments)
            if not isinstance(drawn, dict):
                sizes = list(request["sizes"])
                example = example_of_inputs(self._function, sizes, request["is_seeded"])
                return {"misuse": type(drawn).__name__, "example": example}
            return {"drawn": map_tensors(image_of, drawn, torch.Tensor)}
        except (Exception, SystemExit) as error:  # noqa: BLE001 - the user's code
            return {"error": module.described(error)}

    def _evaluated(self, request: dict[str, Any]) -> dict[str, Any]:
        """Evaluate the reference in its own types, in double precision, and on perturbed inputs."""
        arguments = map_tensors(tensor_of, request["arguments"], TensorImage)
        seeds = randomness.seeds()
        try:
            with interpret(dot="exact") as run:  # a reference may be a kernel, too
                backward = BackwardPass(**request["backward"])
                how = request["inplace"], request["shared"], backward
                answer = evaluate(self._function, arguments, *how)
            answer["reseeded"] = randomness.reseeded(seeds)
            if run.stats:
                answer |= {"operators": [*answer["operators"], "launch"]}
                answer |= {"work": 0, "work_of_parts": []}
                answer |= {"operations": 0, "operations_of_parts": []}
            return answer
        except (Exception, SystemExit) as error:  # noqa: BLE001 - the user's code
            return {"error": module.described(error)}
