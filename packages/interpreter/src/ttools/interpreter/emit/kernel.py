"""Emission of a whole kernel: its functions, callees first, and the loop that runs its programs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from ttools.core.errors import InvalidKernelError, UnsupportedError
from ttools.core.location import SourceLocation
from ttools.interpreter.abi.module import (
    MONITOR,
    TRANSLATIONS,
    CallbackKind,
    EmitOptions,
    EmittedModule,
    Facts,
    ProbeSite,
    Site,
)
from ttools.interpreter.abi.probe_layout import probe_bytes
from ttools.interpreter.analysis.contraction import contract
from ttools.interpreter.analysis.effects import Provenance
from ttools.interpreter.emit import rules  # noqa: F401 - registers them
from ttools.interpreter.emit.debug_locations import LocatedBuilder, LocatedEmitter
from ttools.interpreter.emit.function import Callee, Emitter, Signature
from ttools.interpreter.emit.instruments.loop_iterations import mark_cross_thread
from ttools.interpreter.emit.instruments.probe import (
    WATCH,
    Prober,
    ThreadProbe,
    is_watched,
    monitor_of,
)
from ttools.interpreter.emit.launch_fields import launch_field
from ttools.interpreter.emit.lower.control import region_blocks
from ttools.interpreter.emit.lower.regions import outline_regions
from ttools.interpreter.llvm.builder import Builder, memory_type, register_type
from ttools.interpreter.llvm.lines import Instruction, body_text
from ttools.interpreter.llvm.value import ARENA, LAUNCH, PROBE, Label, SSAValue
from ttools.interpreter.native.jit import QUICK, QUICKEST
from ttools.interpreter.schedule.schedule import make_plan
from ttools.interpreter.schedule.verification import verify_plan
from ttools.interpreter.tiles.representation import from_memory
from ttools.interpreter.tiles.slot import Slot
from ttools.ir import (
    Module,
    Operation,
    PointerType,
    TensorType,
    Type,
    Value,
)
from ttools.ir.dialects.traits import CALL

#: Kernels with more loops than this traverse small tiles many times, as hand-written sorts do, or
#: contain unrolled loops. A short list of LLVM passes halves their compilation time and adds at
#: most a seventh to their run time (nothing for a hash of 32 unrolled tiles).
_MANY_LOOPS = 48
#: Code that is longer than this and has no loop over a tile computes each of its scalars only once.
#: Optimising such code takes the code generator more than quadratic time, and makes the code only
#: 10% faster.
_MANY_SCALAR_LINES = 4000
#: With more loops than this, the code generator's own loop optimisations take seconds.
_TOO_MANY_LOOPS = 400

_PROGRAM = "ptr %launch, i64 %program, i32 %px, i32 %py, i32 %pz, ptr noalias %arena"


def emit_kernel(module: Module, facts: Facts, options: EmitOptions) -> EmittedModule:
    """Emit the kernel of `module` for launches for which `facts` hold.

    Raises:
        UnsupportedError: An operation has no lowering; the error contains its name and source line.
    """
    kind = LocatedBuilder if options.instruments.lines else Builder
    b = kind()
    if options.fp_fusion:
        contract(module)
    outline_regions(module)
    sites: list[Site] = []
    bodies: list[str] = []
    kernel = module.kernel
    parameters = kernel.regions[0].entry.arguments
    probes: list[ProbeSite] = []
    numbers = {op: n for n, op in enumerate(module.walk())}
    parts = _Parts(
        b=b,
        options=options,
        sites=sites,
        probes=probes,
        numbers=numbers,
        parameter_count=len(parameters),
    )

    def emit(prefix: str, *, watches: bool) -> Callee:
        callees: dict[str, Callee] = {}
        for function in _callees_first(module, kernel):
            function_facts = facts if function is kernel else Facts(translated=facts.translated)
            symbol = f"{prefix}.{len(callees)}"
            text, callee = _function(
                parts, function, function_facts, callees, symbol, watches=watches
            )
            callees[str(function.attributes["sym_name"])] = callee
            bodies.append(text)
        return callees[str(kernel.attributes["sym_name"])]

    entry = emit("ttools.function", watches=True)
    unwatched = None
    if options.instruments.only_rewrites and any(op.name == WATCH for op in numbers):
        # Code that records variables is slower even in programs that are not watched, so those
        # programs run a second version of the kernel that records nothing.
        unwatched = emit("ttools.unwatched", watches=False)
    arena_bytes = max(64, entry.arena_bytes, unwatched.arena_bytes if unwatched else 0)
    monitor = len(parameters) + facts.translated if options.instruments.any else None
    logs = options.instruments.logs
    probe = None
    if monitor is not None:
        probe = ThreadProbe(b, arena_bytes, len(probes), logs=logs)
    bodies.append(_driver(b, entry, unwatched, parameters, monitor, probe))
    locations: tuple[SourceLocation, ...] = ()
    if isinstance(b, LocatedBuilder):
        locations = tuple(b.locations)
        bodies.append(b.metadata)
    return EmittedModule(
        name=str(kernel.attributes["sym_name"]),
        llvm_ir="\n\n".join(
            [
                *_effort(b, options, bodies),
                *(*b.declarations.values(), *b.definitions.values(), *bodies, _ATTRS),
            ]
        ),
        arena_bytes=arena_bytes + (probe_bytes(len(probes)) if options.instruments.any else 0),
        parameters=(
            *(str(v.type) for v in parameters),
            *((TRANSLATIONS,) if facts.translated else ()),
            *((MONITOR,) if options.instruments.any else ()),
        ),
        sites=tuple(sites),
        spins=any(site.kind == CallbackKind.SPIN for site in sites),
        probes=tuple(probes),
        probe_offset=arena_bytes,
        locations=locations,
    )


def _effort(b: Builder, options: EmitOptions, bodies: Sequence[str]) -> list[str]:
    """Return a line that requests a short list of LLVM passes; nothing for the full list.

    The short list is requested if the full list would make the code little faster, or if the code
    need not run fast.
    """
    lines = sum(body.count("\n") for body in bodies)
    if b.loops > _TOO_MANY_LOOPS or (b.loops == 0 and lines > _MANY_SCALAR_LINES):
        return [QUICKEST]
    oracle = options.schedule == "materialised"
    quick = oracle or 2 * b.straight_lines > lines or b.loops > _MANY_LOOPS
    return [QUICK] if quick else []


_ATTRS = 'attributes #0 = { nounwind "prefer-vector-width"="512" "no-trapping-math"="true" }'


def _callees_first(module: Module, kernel: Operation) -> list[Operation]:
    order: list[Operation] = []
    active: set[str] = set()

    def visit(function: Operation) -> None:
        if function in order:
            return
        name = str(function.attributes["sym_name"])
        active.add(name)
        for op in function.walk():
            if CALL in op.traits:
                target = str(op.attributes["callee"])
                if target in active:
                    raise InvalidKernelError(f"recursion in {target}", op.location)
                visit(module.functions[target])
        active.discard(name)
        order.append(function)

    visit(kernel)
    return order


@dataclass(frozen=True, kw_only=True)
class _Parts:
    """State that the functions of a module share while they are emitted.

    Attributes:
        sites: The places that may call back in the functions emitted so far.
        probes: The probes in the functions emitted so far.
        numbers: The index of each operation in the module.
        parameter_count: The number of the kernel's parameters.
    """

    b: Builder
    options: EmitOptions
    sites: list[Site]
    probes: list[ProbeSite]
    numbers: dict[Operation, int]
    parameter_count: int


def _function(
    parts: _Parts,
    function: Operation,
    facts: Facts,
    callees: dict[str, Callee],
    symbol: str,
    *,
    watches: bool,
) -> tuple[str, Callee]:
    """Emit one function; its signature follows the calling convention of `tt.call`."""
    b, options = parts.b, parts.options
    public, region = _is_public(function), function.regions[0]
    own = region.entry.arguments
    provenance = Provenance(function)
    prober = None
    if options.instruments.any:
        of_kernel = provenance if public else None
        prober = Prober(
            options.instruments, facts, of_kernel, parts.probes, parts.numbers, watches=watches
        )
    plan = make_plan(function, facts, options, provenance)
    problems = verify_plan(function, plan, facts, provenance)
    if problems:
        raise UnsupportedError(
            f"the schedule that ttools has made for this function: {problems[0]}",
            function.location,
            "this is a bug in ttools; please report it. The kernel may run with "
            '`ttools.interpreter.interpret(schedule="materialised")`',
        )
    located = isinstance(b, LocatedBuilder)
    results = _result_types(function)
    scalars = [register_type(t) for t in results if not isinstance(t, TensorType)]
    return_type = "{ " + ", ".join(["i32", *scalars]) + " }"
    outs = [SSAValue(f"%out{n}", "ptr") for n, t in enumerate(results) if isinstance(t, TensorType)]

    def is_foreign(pointer: Value) -> bool:
        # In a called function, the origin of pointers is unknown, so any pointer may be foreign.
        return bool(facts.translated) and (not public or None in provenance.of(pointer))

    e = (LocatedEmitter if located else Emitter)(
        b,
        plan,
        options,
        parts.sites,
        Signature(
            return_type=return_type,
            outs=tuple(outs),
            callees=callees,
            parameters={value: n for n, value in enumerate(own)} if public else {},
            is_foreign=is_foreign,
            parameter_count=parts.parameter_count,
        ),
        prober,
    )
    signature = [_PROGRAM, *_arguments(e, function), *(f"ptr {out}" for out in outs)]
    if prober is not None:
        signature.insert(1, "ptr noalias %probe")

    mark = _begin(b, symbol)
    with b.function_body() as lines:
        b.start(Label("entry"))
        if prober is not None and public:
            pointers = [n for n, v in enumerate(own) if isinstance(v.type, PointerType)]
            prober.bind(b, pointers, parts.parameter_count + facts.translated)
        mark_cross_thread(e, function)
        region_blocks(e, region.blocks)
        body = body_text(lines)
    # If the kernel were inlined into `ttools_run`, LLVM would optimise it twice, alone and inlined.
    # The call costs a nanosecond per program. With line tables, the kernel may be inlined, because
    # only the line table of `ttools_run` is read.
    once = "noinline " if public and not located else ""
    head = f"define internal {return_type} @{symbol}({', '.join(signature)}) {once}#0{mark}"
    return f"{head} {{\n{body}\n}}", Callee(function, symbol, return_type, e.arena_bytes)


def _is_public(function: Operation) -> bool:
    """Return whether a function is the kernel itself."""
    return function.attributes["visibility"] == "public"


def _begin(b: Builder, symbol: str) -> str:
    """Begin a function; return the `!dbg` attachment of its definition, if there is one."""
    return b.begin_function(symbol) if isinstance(b, LocatedBuilder) else ""


def _arguments(e: Emitter, function: Operation) -> list[str]:
    """Bind a function's parameters, and return them as text.

    Scalars are passed by value, tiles as the addresses of slots.
    """
    signature = []
    attributes = function.attributes["arg_attrs"]
    assert isinstance(attributes, tuple)
    for n, value in enumerate(function.regions[0].entry.arguments):
        if isinstance(value.type, TensorType):
            name = SSAValue(f"%arg{n}", "ptr")
            e.slots[value] = Slot(name, 0, value.type.shape, value.type.element)
            signature.append(f"ptr {name}")
            continue
        hints = attributes[n] if n < len(attributes) else {}
        divisor = hints.get("tt.divisibility", 1) if isinstance(hints, dict) else 1
        name = SSAValue(f"%arg{n}", register_type(value.type))
        # For a pointer, the hint is a divisor of the address in bytes; for an integer, of the
        # value.
        e.set_scalar(value, name, int(divisor) if isinstance(divisor, int) else 1)
        signature.append(f"{register_type(value.type)} {name}")
    return signature


def _result_types(function: Operation) -> list[Type]:
    for op in function.walk():
        if op.name == "tt.return":
            return [v.type for v in op.operands]
    return []


def _driver(
    b: Builder,
    entry: Callee,
    unwatched: Callee | None,
    parameters: Sequence[Value],
    monitor: int | None,
    probe: ThreadProbe | None,
) -> str:
    """Emit `ttools_run`, which takes programs from the shared counter until none is left.

    Args:
        entry: The function that runs a program.
        unwatched: The function for programs that are not watched, if it is a different one.
        monitor: The monitor's index among the parameters; None without instruments.
        probe: The thread's probe; None without instruments.
    """
    mark = _begin(b, "ttools_run")
    with b.function_body() as lines:
        b.start(Label("entry"))
        if probe is not None and monitor is not None:
            probe.begin(monitor_of(b, monitor))
        params = launch_field(b, "parameters")
        values = [_parameter(b, params, n, v.type) for n, v in enumerate(parameters)]
        grid = [launch_field(b, f"grid_{axis}") for axis in "xy"]
        gx, gy = (b.cast("zext", g, "i64") for g in grid)
        count, batch = launch_field(b, "count"), launch_field(b, "batch")
        order = launch_field(b, "order")
        natural = b.compare("icmp eq", order, SSAValue("null", "ptr"))
        b.branch(Label("take"))
        b.start(Label("take"))
        stopped = launch_field(b, "abort")
        abort = b.compare("icmp ne", stopped, 0)
        b.cond_branch(abort, Label("out"), Label("next"))
        b.start(Label("next"))
        first = b.change("add", LAUNCH, batch, "seq_cst")
        end = b.binary("add", first, batch)
        last = b.overloaded("umin", end, count)
        some = b.compare("icmp ult", first, count)
        b.cond_branch(some, Label("program"), Label("out"))
        b.start(Label("program"))
        phi = b.open_phi("at", first, Label("next"))
        position, following = phi.value, b.fresh("i64", "at")
        phi.add(following, Label("finished"))
        b.cond_branch(natural, Label("identity"), Label("ordered"))
        b.start(Label("ordered"))
        cell = b.element("i64", order, position)
        listed = b.load("i64", cell, 8)
        b.branch(Label("identity"))
        b.start(Label("identity"))
        program = b.phi((position, Label("program")), (listed, Label("ordered")))
        row = b.binary("udiv", program, gx)
        px = b.binary("urem", program, gx)
        pz = b.binary("udiv", row, gy)
        py = b.binary("urem", row, gy)
        x, y, z = (b.cast("trunc", p, "i32") for p in (px, py, pz))
        arguments = [LAUNCH, program, x, y, z, ARENA, *((PROBE,) if probe else ()), *values]
        if probe is not None:
            probe.begin_program(program)
        answer = _run_program(b, entry, unwatched, program, arguments)
        if probe is not None:
            probe.end_program()
        status = b.field(answer, 0)
        failed = b.compare("icmp ne", status, 0)
        b.cond_branch(failed, Label("out"), Label("finished"))
        b.start(Label("finished"))
        b.lines.append(Instruction(following, ("add i64 ", position, ", 1")))
        more = b.compare("icmp ult", following, last)
        b.cond_branch(more, Label("program"), Label("take"))
        b.start(Label("out"))
        if probe is not None:
            probe.end()
        b.ret()
        body = body_text(lines)
    return f"define void @ttools_run(ptr %launch, ptr noalias %arena) #0{mark} {{\n{body}\n}}"


def _run_program(
    b: Builder,
    entry: Callee,
    unwatched: Callee | None,
    program: SSAValue,
    arguments: Sequence[SSAValue],
) -> SSAValue:
    """Call the function that runs a program; return its status."""
    if unwatched is None:
        return b.call(entry.return_type, f"@{entry.symbol}", *arguments)
    # Two direct calls, unlike one call through a pointer, can be inlined.
    b.cond_branch(is_watched(b, program), Label("watched"), Label("unwatched"))
    b.start(Label("watched"))
    recorded = b.call(entry.return_type, f"@{entry.symbol}", *arguments)
    b.branch(Label("ran"))
    b.start(Label("unwatched"))
    unrecorded = b.call(entry.return_type, f"@{unwatched.symbol}", *arguments)
    b.branch(Label("ran"))
    b.start(Label("ran"))
    return b.phi((recorded, Label("watched")), (unrecorded, Label("unwatched")))


def _parameter(b: Builder, params: SSAValue, n: int, type: Type) -> SSAValue:
    """Load parameter `n` from its 8-byte slot."""
    return from_memory(b, b.load(memory_type(type), b.offset(params, 8 * n), 8), type)
