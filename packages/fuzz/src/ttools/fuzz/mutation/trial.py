"""Mutants of captured launches: each is compared bit by bit with the launch it was made from.

A mutant and its base run in the same variants, so that legal differences between targets (the order
of sums, contractions) affect both alike. The base must give the same result each time, and the
checks must find nothing in it, because a kernel that reads out of bounds has no defined result.

Some mutations change the launch instead of the source: `split_grid` runs the programs in two
launches, and `halved_block` uses twice as many programs with blocks of half the size. These must
not change the result, either.
"""

from __future__ import annotations

import ast
import difflib
import random
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ttools.core.spec import TensorSpec
from ttools.fuzz.execution import FindingsError, load_again, refuse_findings, running
from ttools.fuzz.mutation.capture import Captured, CapturedCall, CapturedDescriptor
from ttools.fuzz.mutation.mutators import MUTATORS
from ttools.fuzz.mutation.source import (
    KernelText,
    NotMutableError,
    calls,
    make_function,
    names_of,
)
from ttools.fuzz.passes import fewest_passes
from ttools.fuzz.trial import Failure, Kind, Verdict, is_refusal
from ttools.fuzz.variants import BASELINE, Variant, chosen, environment, launch_options

#: Functions that combine lanes, or depend on the number of lanes.
_COMBINING = {
    "sum", "max", "min", "dot", "dot_scaled", "reduce", "xor_sum", "cumsum", "cumprod", "argmax",
    "argmin", "sort", "associative_scan", "histogram", "gather", "flip", "softmax", "num_programs",
    "reshape", "join", "split", "cat", "rand", "randn", "atomic_add",
}  # fmt: skip
_LEAST_BLOCK = 32


@dataclass(frozen=True)
class Part:
    """A launch that replaces the captured one or a part of it.

    Attributes:
        more: Arguments in addition to the captured ones, or in place of them.
    """

    grid: tuple[int, int, int]
    more: Mapping[str, Any]


def split_grid(text: KernelText, launch: CapturedCall, rng: random.Random) -> list[Part] | None:
    """Return two launches, each with a part of the programs; None if that is impossible."""
    x, y, z = launch.grid
    words = ("atomic", "volatile", "cache_modifier")
    if x < 2 or any(word in _sources(launch, text) for word in words):
        return None
    if any(
        "program_id" in source or "num_programs" in source for source in _called_sources(launch)
    ):
        return None
    places = [
        n for n in ast.walk(text.kernel) if _asks(n, "program_id") or _asks(n, "num_programs")
    ]
    if not all(_is_literal(node) for node in places):
        return None
    first, count = text.new_name("first_"), text.new_name("programs_")
    text.module.body[-1] = _Moved(first, count).visit(text.kernel)
    text.kernel.args.args += [ast.arg(first), ast.arg(count)]
    if text.kernel.args.defaults:
        return None
    cut = rng.randint(1, x - 1)
    return [
        Part((cut, y, z), {first: 0, count: x}),
        Part((x - cut, y, z), {first: cut, count: x}),
    ]


class _Moved(ast.NodeTransformer):
    """Makes a kernel that runs a part of the grid see the program ids and size of the whole grid.

    Only the first axis is divided. Two additional parameters of the kernel contain the index of the
    first program of the part, and the number of programs of the whole grid.
    """

    def __init__(self, first: str, count: str) -> None:
        self._first, self._count = first, count

    def visit_Call(self, node: ast.Call) -> ast.AST:
        self.generic_visit(node)
        if _asks(node, "program_id") and _axis(node) == 0:
            return ast.BinOp(node, ast.Add(), ast.Name(self._first, ast.Load()))
        if _asks(node, "num_programs") and _axis(node) == 0:
            return ast.Name(self._count, ast.Load())
        return node


def halved_block(text: KernelText, launch: CapturedCall) -> list[Part] | None:
    """Return a launch of twice as many programs with half-size blocks, for lane-wise kernels."""
    tree = text.kernel
    loops = any(isinstance(node, (ast.For, ast.While)) for node in ast.walk(tree))
    combined = calls(tree) & _COMBINING or any(
        calls(ast.parse(source)) & _COMBINING for source in _called_sources(launch)
    )
    # The host creates descriptors with their block shapes, which a mutated kernel cannot change.
    described = any(isinstance(v, CapturedDescriptor) for v in launch.arguments.values())
    if loops or combined or described:
        return None
    blocks = [
        name
        for name, value in launch.arguments.items()
        if isinstance(value, int)
        and value >= _LEAST_BLOCK
        and value & (value - 1) == 0
        and _is_block(tree, name)
    ]
    if len(blocks) != 1:
        return None
    x, y, z = launch.grid
    return [Part((2 * x, y, z), {blocks[0]: launch.arguments[blocks[0]] // 2})]


def _is_block(tree: ast.FunctionDef, name: str) -> bool:
    """Return whether a constant is used only as the number of elements per program."""
    programs = {
        node.targets[0].id
        for node in ast.walk(tree)
        if isinstance(node, ast.Assign)
        and isinstance(node.targets[0], ast.Name)
        and _is_program(node.value, set())
    }
    uses = [n for n in ast.walk(tree) if isinstance(n, ast.Name) and n.id == name]
    allowed: list[ast.AST] = []
    multiplied = ranged = False
    for node in ast.walk(tree):
        if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Mult):
            for one, other in ((node.left, node.right), (node.right, node.left)):
                if any(one is use for use in uses) and _is_program(other, programs):
                    allowed.append(one)
                    multiplied = True
        if _asks(node, "arange") and isinstance(node, ast.Call) and len(node.args) == 2:
            start, end = node.args
            is_zero = isinstance(start, ast.Constant) and start.value == 0
            if is_zero and any(end is use for use in uses):
                allowed.append(end)
                ranged = True
    return multiplied and ranged and len(allowed) == len(uses)


def _is_program(value: ast.expr, names: set[str]) -> bool:
    if isinstance(value, ast.Name):
        return value.id in names
    if isinstance(value, ast.Call) and isinstance(value.func, ast.Attribute):
        if value.func.attr == "to":
            return _is_program(value.func.value, names)
        return _asks(value, "program_id") and _axis(value) == 0
    return False


def _asks(node: ast.AST, what: str) -> bool:
    return (
        isinstance(node, ast.Call) and what in calls(ast.Expression(node)) and what == _last(node)
    )


def _last(node: ast.Call) -> str:
    return node.func.attr if isinstance(node.func, ast.Attribute) else ""


def _axis(node: ast.Call) -> object:
    value = node.args[0] if node.args else next((k.value for k in node.keywords), None)
    return value.value if isinstance(value, ast.Constant) else None


def _is_literal(node: ast.AST) -> bool:
    return isinstance(node, ast.Call) and _axis(node) is not None


def _called_sources(launch: CapturedCall) -> Iterator[str]:
    """Yield the sources of `@triton.jit` functions that a kernel may call, directly or not."""
    import textwrap

    visited: set[int] = set()
    pending = [launch.function]
    while pending:
        function = pending.pop()
        names, code = names_of(function), function.fn.__code__
        for name in (*code.co_names, *code.co_freevars):
            called: Any = names.get(name)
            if hasattr(called, "src") and hasattr(called, "fn") and id(called) not in visited:
                visited.add(id(called))
                pending.append(called)
                yield textwrap.dedent(called.src)


def _sources(launch: CapturedCall, text: KernelText) -> str:
    return "\n".join([ast.unparse(text.kernel), *_called_sources(launch)])


#: Variants in which a base must give the same result as in the baseline, because they do not change
#: what is computed. Kernels with atomics may give other results if their programs run in another
#: order.
_SAME_AS_USUAL = ("materialised", "memcheck", "all checks", "opt 0", "opt 1", "opt 3", "guarded")
_IN_ANY_ORDER = ("two threads", "reverse order", "random order")
#: Findings of other checks are ignored: libraries load masked lanes without `other` and mask them
#: later, and the engine loads zeros there.
_STRICT = ("memcheck", "racecheck", "deadlock")
_CHECKED = Variant(name="base checks", checks=",".join(_STRICT))
_MOST_MUTATIONS = 5
#: Changes of a launch instead of the kernel's source.
_SPLIT, _HALVED = "split grid", "halved block"
_LAUNCHES = (_SPLIT, _HALVED)


@dataclass(frozen=True)
class Mutation:
    """One change: the name of a mutator or of a launch change, and a seed that sets its place."""

    name: str
    seed: int


@dataclass(eq=False)
class _Mutant:
    """A changed kernel and its launches."""

    text: str
    function: Any
    parts: Sequence[Part]
    applied: tuple[Mutation, ...]


class _Runner:
    """Runs a function in any variant, each time on the captured memory."""

    def __init__(self, launch: CapturedCall, function: Any, parts: Sequence[Part], cpu: str):
        self._launch, self._function, self._parts, self._cpu = launch, function, parts, cpu
        self._compiled: dict[object, Any] = {}

    def run(self, variant: Variant) -> tuple[Any, ...]:
        storages: tuple[Any, ...] | None = None
        with environment(variant, self._cpu), running(variant) as run:
            for number, part in enumerate(self._parts):
                form = (variant.fusion, variant.simplified, number)
                if form in self._compiled:
                    load_again(self._compiled[form])
                with nullcontext() if variant.simplified else fewest_passes():
                    storages, compiled = self._launch.start(
                        self._function,
                        grid=part.grid,
                        more=part.more,
                        storages=storages,
                        **launch_options(variant),
                    )
                self._compiled[form] = compiled
        if variant.checks:
            refuse_findings(run, _STRICT)
        assert storages is not None
        return storages


@dataclass(eq=False)
class _Base:
    """A captured launch, its results by variant, and the reason if it cannot be mutated."""

    launch: CapturedCall
    cpu: str
    results: dict[str, Any] = field(default_factory=dict)
    unfit: str | None = None

    def __post_init__(self) -> None:
        whole = Part(self.launch.grid, {})
        self._runner = _Runner(self.launch, self.launch.function, [whole], self.cpu)
        self.has_atomics = "atomic" in str(self.launch.function.src)
        try:
            KernelText(self.launch.function, self.launch.arguments)
            first, again = (self._runner.run(BASELINE) for _ in range(2))
            self.results[BASELINE.name] = first
            if difference(self.launch, first, again):
                self.unfit = "its results differ between runs"
            self._runner.run(_CHECKED)
        except FindingsError as finding:
            self.unfit = f"the checks find {finding}"
        except Exception as error:  # noqa: BLE001 - whatever the error, the kernel is left out
            self.unfit = f"{type(error).__name__}: {str(error).splitlines()[0]}"

    def result(self, variant: Variant) -> Any:
        """Return the memory after the launch in a variant."""
        result = self.results.get(variant.name)
        if result is None:
            result = self.results[variant.name] = self._runner.run(variant)
        return result


class MutantTrial:
    """Makes mutants of captured launches, each from a seed.

    Args:
        folder: Folder for the sources of mutants.
        cpu: Target CPU of variants that do not set one.

    Attributes:
        unfit: Reason why launches cannot be mutated, by name of the kernel.
    """

    def __init__(self, captured: Captured, folder: Path, cpu: str = "") -> None:
        self._launches = captured.launches
        self._folder, self._cpu = folder, cpu
        self._bases: dict[int, _Base] = {}
        self.unfit: dict[str, str] = dict(captured.left_out)

    def examine(
        self,
        seed: int,
        variants: Sequence[Variant],
        per_kernel: int,
        announce: Callable[[str], None] = lambda _: None,
    ) -> Verdict:
        """Make a mutant, and compare it in some variants, the baseline first."""
        start = time.process_time()
        rng = random.Random(f"ttools-mutants-{seed}")
        base = self._base(rng)
        if base is None:
            why = "; ".join(f"{name}: {text}" for name, text in list(self.unfit.items())[:5])
            failure = Failure(seed, "error", "capture", f"no launch can be mutated: {why}")
            return Verdict(seed, (), (failure,), time.process_time() - start)
        wanted = _mutations(rng)
        mutant = self._made(base, wanted)
        runner = _Runner(base.launch, mutant.function, mutant.parts, self._cpu)
        ran: list[str] = []
        failures: list[Failure] = []
        for variant in chosen(seed, variants, per_kernel):
            announce(variant.name)
            ran.append(variant.name)
            outcome = self._compared(seed, base, mutant, runner, variant)
            if outcome is not None:
                failures.append(self._smaller(seed, base, wanted, variant, outcome))
                break
        return Verdict(seed, tuple(ran), tuple(failures), time.process_time() - start)

    def text(self, seed: int) -> str:
        """Return the source of a seed's mutant."""
        rng = random.Random(f"ttools-mutants-{seed}")
        base = self._base(rng)
        return "" if base is None else self._made(base, _mutations(rng)).text

    def _base(self, rng: random.Random) -> _Base | None:
        """Return a random launch that can be mutated."""
        for index in rng.sample(range(len(self._launches)), len(self._launches)):
            base = self._bases.get(index)
            if base is None:
                base = self._bases[index] = _Base(self._launches[index], self._cpu)
                if base.unfit:
                    self.unfit[base.launch.name] = base.unfit
            if not base.unfit:
                return base
        return None

    def _made(self, base: _Base, mutations: Sequence[Mutation]) -> _Mutant:
        launch = base.launch
        text = KernelText(launch.function, launch.arguments)
        parts: Sequence[Part] = [Part(launch.grid, {})]
        applied = []
        for mutation in mutations:
            rng = random.Random(mutation.seed)
            if mutation.name in MUTATORS:
                if MUTATORS[mutation.name](text, rng):
                    applied.append(mutation)
                    text.refresh()
                continue
            changed = KernelText(launch.function, launch.arguments)
            split = mutation.name == _SPLIT
            launches = split_grid(changed, launch, rng) if split else halved_block(changed, launch)
            if launches is not None:
                # Changes of launches come first, because they apply to the original source.
                text, parts = changed, launches
                applied.append(mutation)
        written = text.text()
        function = make_function(launch.function, written, self._folder)
        return _Mutant(written, function, parts, tuple(applied))

    def _compared(
        self, seed: int, base: _Base, mutant: _Mutant, runner: _Runner, variant: Variant
    ) -> Failure | None:
        try:
            expected = base.result(variant)
        except Exception as error:  # noqa: BLE001 - the baseline ran, so this is a defect
            return Failure(seed, "error", variant.name, f"the kernel as it is: {_words(error)}")
        names = _SAME_AS_USUAL + (() if base.has_atomics else _IN_ANY_ORDER)
        if variant.name in names:
            wrong = difference(base.launch, base.results[BASELINE.name], expected)
            if wrong:
                text = f"{base.launch.name} as it is: {wrong}"
                return Failure(seed, "wrong", variant.name, text)
        try:
            actual = runner.run(variant)
        except Exception as error:  # noqa: BLE001 - any exception is the mutant's verdict
            kind: Kind = "rejected" if is_refusal(error) else "error"
            if isinstance(error, FindingsError):
                kind = "finding"
            return Failure(seed, kind, variant.name, _words(error))
        wrong = difference(base.launch, expected, actual)
        return Failure(seed, "wrong", variant.name, wrong) if wrong else None

    def _smaller(
        self,
        seed: int,
        base: _Base,
        mutations: Sequence[Mutation],
        variant: Variant,
        failure: Failure,
    ) -> Failure:
        """Return the failure of a minimal set of mutations, with the difference in the source."""
        if " as it is: " in failure.message:
            return failure
        left, latest = list(mutations), failure
        for mutation in mutations:
            fewer = [kept for kept in left if kept is not mutation]
            mutant = self._made(base, fewer)
            runner = _Runner(base.launch, mutant.function, mutant.parts, self._cpu)
            smaller = self._compared(seed, base, mutant, runner, variant)
            if smaller is not None and smaller.kind == failure.kind:
                left, latest = fewer, smaller
        mutant = self._made(base, left)
        original = KernelText(base.launch.function, base.launch.arguments).text()
        lines = difflib.unified_diff(
            original.splitlines(), mutant.text.splitlines(), "kernel", "mutant", lineterm="", n=1
        )
        names = ", ".join(mutation.name for mutation in mutant.applied) or "no mutation"
        parts = "" if len(mutant.parts) == 1 else f" in {len(mutant.parts)} launches"
        head = f"{base.launch.name}{parts} ({names}): {latest.message}"
        return Failure(seed, failure.kind, variant.name, "\n".join([head, *lines]))


def _mutations(rng: random.Random) -> list[Mutation]:
    names = [rng.choice(list(MUTATORS)) for _ in range(rng.randint(0, _MOST_MUTATIONS))]
    if rng.random() < 0.4:
        names.insert(0, rng.choice(_LAUNCHES))
    return [Mutation(name, rng.getrandbits(32)) for name in names]


def difference(launch: CapturedCall, expected: Any, actual: Any) -> str:
    """Describe the first element that differs; empty if no bit does."""
    import torch

    for number, (one, other) in enumerate(zip(expected, actual, strict=True)):
        if torch.equal(one, other):
            continue
        at = int((one != other).nonzero()[0])
        count = int((one != other).sum())
        name, view = _owner(launch, number)
        if view is None:
            return f"byte {at} of {name} differs"
        size = view.itemsize
        element = at // size
        whole = one.numel() // size * size
        values = [
            storage[:whole].view(getattr(torch, view.dtype))[element].item()
            for storage in (one, other)
        ]
        return (
            f"`{name}`, element {element} of its storage, is {values[1]!r}, expected "
            f"{values[0]!r}; {count} bytes differ"
        )
    return ""


def _owner(launch: CapturedCall, storage: int) -> tuple[str, TensorSpec | None]:
    for name, value in launch.tensors():
        if value.storage == storage:
            return name, value
    return f"storage {storage}", None


def _words(error: Exception) -> str:
    text = f"{type(error).__name__}: {error}"
    return text if error.__cause__ is None else f"{text}\n{error.__cause__}"


__all__ = ["MutantTrial", "Mutation", "NotMutableError", "difference"]
