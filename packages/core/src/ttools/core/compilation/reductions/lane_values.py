"""Executes straight-line LLVM IR for all threads of a block, with sums as symbols.

The code must be that of a kernel which loads a tile, adds its elements along an axis, and stores
the sums. Integers are computed. Floats are represented by symbols: a loaded element is a leaf, and
a sum of two symbols is a new node. The symbol of a stored result is therefore the tree in which the
block has added the elements. All threads execute each instruction together; in the absence of
branches, this is a correct order, because barriers separate the stores to shared memory from the
loads.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from ttools.core.errors import TtoolsError

Numbers = NDArray[np.int64]
Stage = Literal["thread", "warp", "block"]
#: Size in bytes of an element, of a register and of a word of shared memory.
WORD = 4
#: Distance between the addresses passed for successive kernel arguments; larger than any tile.
ARGUMENT = 1 << 40
_SHARED_BYTES = 1 << 18
_LANES = 32
_UNWRITTEN = -1
#: Represents the constant -0.0, which does not change any number to which it is added.
_NEUTRAL = -2


class UnsupportedCodeError(TtoolsError):
    """The code contains something that is not executed here."""


@dataclass(frozen=True)
class Symbols:
    """The symbols of a value: for each thread, the number of a node (a leaf or a sum)."""

    nodes: Numbers


#: The value of a variable: integers, symbols, or a list of them for vectors and structures.
Value = Any


@dataclass
class Nodes:
    """The leaves and the sums of an execution.

    The number of a leaf is that of its element. The operands of a sum are sorted, because addition
    is commutative, so equal sums of different threads have the same number.

    Attributes:
        leaves: Number of leaves of the tree.
        operands: The operands of each sum; the first sum has the number `leaves`.
        stages: The stage in which each sum was first computed.
    """

    leaves: int
    operands: list[tuple[int, int]] = field(default_factory=list)
    stages: list[Stage] = field(default_factory=list)
    _numbers: dict[tuple[int, int], int] = field(default_factory=dict)

    def add(self, a: Numbers, b: Numbers, stage: Stage) -> Numbers:
        """Return the sum of two symbols for each thread."""
        pairs = np.stack([np.minimum(a, b), np.maximum(a, b)], axis=-1)
        distinct, inverse = np.unique(pairs, axis=0, return_inverse=True)
        numbers = []
        for low, high in distinct.tolist():
            if low < 0:
                # LLVM fills some unused lanes of vectors with poison, and others with -0.0.
                numbers.append(high if low == _NEUTRAL else _UNWRITTEN)
                continue
            number = self._numbers.get((low, high))
            if number is None:
                number = self._numbers[low, high] = self.leaves + len(self.operands)
                self.operands.append((low, high))
                self.stages.append(stage)
            numbers.append(number)
        return np.array(numbers, np.int64)[inverse.reshape(-1)]


@dataclass
class Execution:
    """The state of the threads of a block.

    Attributes:
        threads: Number of threads of a program.
        nodes: The sums so far.
        stored: Symbols that were stored to the second argument, by number of the element.
    """

    threads: int
    nodes: Nodes
    stored: dict[int, int] = field(default_factory=dict)
    stage: Stage = "thread"
    _variables: dict[str, Value] = field(default_factory=dict)
    _shared: Numbers = field(init=False)

    def __post_init__(self) -> None:
        """Create the shared memory."""
        self._shared = np.full(_SHARED_BYTES // WORD, _UNWRITTEN, np.int64)

    def run(self, llir: str) -> None:
        """Execute the only function of a module.

        Raises:
            UnsupportedCodeError: It contains an unknown instruction, or a branch.
        """
        for line in _instructions(llir, self._variables, self.threads):
            if line.startswith("ret "):
                return
            self._execute(line)
        raise UnsupportedCodeError("the code has no end")

    def _execute(self, line: str) -> None:
        assigned = re.match(r"(%[\w.]+) = (.*)", line)
        text = assigned[2] if assigned else line
        for pattern, rule in _RULES:
            match = pattern.match(text)
            if match:
                result = rule(self, match)
                if assigned:
                    self._variables[assigned[1]] = result
                return
        raise UnsupportedCodeError(f"`{text[:60]}`")

    # ---- operands
    def value(self, text: str) -> Value:
        """Return the value of an operand, which is written without its type."""
        text = text.strip()
        if text in self._variables:
            return self._variables[text]
        if re.fullmatch(r"-?\d+", text):
            return np.full(self.threads, int(text), np.int64)
        if text in ("true", "false"):
            return np.full(self.threads, int(text == "true"), np.int64)
        if text == "@global_smem":
            return np.zeros(self.threads, np.int64)
        if text in ("poison", "undef"):
            return Symbols(np.full(self.threads, _UNWRITTEN, np.int64))
        if re.fullmatch(r"-0\.0+e\+00", text):
            return Symbols(np.full(self.threads, _NEUTRAL, np.int64))
        if text.startswith("<"):
            return [self.value(_untyped(part)) for part in _split(text[1:-1])]
        constant = re.fullmatch(r"getelementptr (?:inbounds |nuw |nusw )*\((.*)\)", text)
        if constant:
            return _pointer(self, constant[1])
        raise UnsupportedCodeError(f"the operand `{text[:60]}`")

    def number(self, text: str) -> Numbers:
        """Return an operand that consists of integers."""
        value = self.value(text)
        if not isinstance(value, np.ndarray):
            raise UnsupportedCodeError(f"integer arithmetic on floats in `{text[:60]}`")
        return value

    def symbols(self, value: Value) -> Numbers:
        """Return the node numbers of a value that consists of symbols."""
        if not isinstance(value, Symbols):
            raise UnsupportedCodeError("a float that is not an element or a sum")
        return value.nodes

    # ---- memory
    def read_shared(self, addresses: Numbers) -> Symbols:
        """Return words of shared memory."""
        return Symbols(self._shared[_words(addresses)])

    def write_shared(self, addresses: Numbers, nodes: Numbers, active: Any = None) -> None:
        """Store words to shared memory; all threads that store to a word must store one symbol."""
        self.stage = "block"
        if active is not None:
            addresses, nodes = addresses[active], nodes[active]
        words = _words(addresses)
        self._shared[words] = nodes
        if (self._shared[words] != nodes).any():
            raise UnsupportedCodeError("threads that store different sums to the same word")

    def read_global(self, addresses: Numbers) -> Symbols:
        """Return elements of the first argument."""
        elements, rest = np.divmod(addresses - ARGUMENT, WORD)
        if rest.any() or (elements < 0).any() or (elements >= self.nodes.leaves).any():
            raise UnsupportedCodeError("a load from other memory than the tile")
        return Symbols(elements)

    def write_global(self, addresses: Numbers, nodes: Numbers, active: Any) -> None:
        """Store elements of the second argument."""
        elements, rest = np.divmod(addresses - 2 * ARGUMENT, WORD)
        for element, part, node in zip(
            elements[active].tolist(), rest[active].tolist(), nodes[active].tolist(), strict=True
        ):
            if part or self.stored.setdefault(element, node) != node:
                raise UnsupportedCodeError("threads that compute a result in different orders")


def _words(addresses: Numbers) -> Numbers:
    words, rest = np.divmod(addresses, WORD)
    if rest.any() or (words < 0).any() or (words >= _SHARED_BYTES // WORD).any():
        raise UnsupportedCodeError("an access to shared memory of another width")
    return words


def _instructions(llir: str, variables: dict[str, Value], threads: int) -> Iterator[str]:
    """Yield the instructions of the function without debug locations, and bind its parameters."""
    start = re.search(r"^define [^@]*@[\w.$]+\((.*?)\)[^()]*\{$", llir, re.MULTILINE)
    if not start:
        raise UnsupportedCodeError("no function")
    parameters = re.findall(r"%[\w.]+", start[1])
    for number, name in enumerate(parameters, 1):
        variables[name] = np.full(threads, number * ARGUMENT, np.int64)
    body = llir[start.end() :].partition("\n}")[0]
    for line in body.splitlines():
        text = re.sub(r", ![\w.]+ ![\w.]+", "", line).strip()
        text = re.sub(r"\s+#\d+$", "", text)
        text = re.sub(r"\b(?:tail |musttail |notail )?call ", "call ", text)
        if text and not text.startswith(";") and not re.match(r"[\w.]+:", text):
            yield text


# ---- rules

Rule = Callable[[Execution, "re.Match[str]"], Value]
_FLAGS = r"(?:nuw |nsw |exact |disjoint |nneg |samesign )*"


def _binary(execution: Execution, match: re.Match[str]) -> Value:
    name, width = match[1], int(match[2])
    a, b = execution.number(match[3]), execution.number(match[4])
    result = _INTEGER[name](a, b)
    return result & ((1 << width) - 1) if width < 64 else result


_INTEGER: dict[str, Callable[[Numbers, Numbers], Any]] = {
    "and": np.bitwise_and,
    "or": np.bitwise_or,
    "xor": np.bitwise_xor,
    "add": np.add,
    "sub": np.subtract,
    "mul": np.multiply,
    "shl": np.left_shift,
    "lshr": np.right_shift,
    "udiv": np.floor_divide,
    "urem": np.remainder,
}
_COMPARE: dict[str, Callable[[Numbers, Numbers], Any]] = {
    "eq": np.equal,
    "ne": np.not_equal,
    "ult": np.less,
    "ule": np.less_equal,
    "ugt": np.greater,
    "uge": np.greater_equal,
    "slt": np.less,
    "sgt": np.greater,
}


def _compare(execution: Execution, match: re.Match[str]) -> Value:
    operands = execution.number(match[2]), execution.number(match[3])
    return np.asarray(_COMPARE[match[1]](*operands)).astype(np.int64)


def _select(execution: Execution, match: re.Match[str]) -> Value:
    condition = execution.number(match[1]) != 0
    a, b = execution.value(match[2]), execution.value(match[3])
    if isinstance(a, Symbols) and isinstance(b, Symbols):
        return Symbols(np.where(condition, a.nodes, b.nodes))
    if isinstance(a, np.ndarray) and isinstance(b, np.ndarray):
        return np.where(condition, a, b)
    raise UnsupportedCodeError("a selection between different kinds of values")


def _sum(execution: Execution, match: re.Match[str]) -> Value:
    a, b = execution.value(match[1]), execution.value(match[2])
    if isinstance(a, list) and isinstance(b, list):
        return [_added(execution, x, y) for x, y in zip(a, b, strict=True)]
    return _added(execution, a, b)


def _added(execution: Execution, a: Value, b: Value) -> Value:
    nodes = execution.symbols(a), execution.symbols(b)
    return Symbols(execution.nodes.add(*nodes, execution.stage))


def _vector_sum(execution: Execution, match: re.Match[str]) -> Value:
    """Add the elements of a vector in order, as LLVM defines it without the flag `reassoc`."""
    total = execution.value(match[1])
    for part in execution.value(match[2]):
        total = _added(execution, total, part)
    return total


def _cast(execution: Execution, match: re.Match[str]) -> Value:
    value, width = execution.number(match[1]), int(match[2])
    return value & ((1 << width) - 1) if width < 64 else value


def _bitcast(execution: Execution, match: re.Match[str]) -> Value:
    if _count(match[1]) != _count(match[3]):
        raise UnsupportedCodeError(f"`{match[0][:60]}`")
    return execution.value(match[2])


def _count(kind: str) -> int:
    """Return the number of words of a type."""
    vector = re.fullmatch(r"<(\d+) x (?:float|i32)>", kind)
    if vector:
        return int(vector[1])
    if kind in ("float", "i32"):
        return 1
    raise UnsupportedCodeError(f"the type `{kind}`")


_SIZES = {"i8": 1, "i16": 2, "half": 2, "i32": 4, "float": 4, "i64": 8, "double": 8}


def _pointer(execution: Execution, text: str) -> Value:
    parts = re.fullmatch(r"(.+?), ptr addrspace\(\d\) (.+), i(?:32|64) (\S+)", text)
    if not parts:
        raise UnsupportedCodeError(f"the address `{text[:60]}`")
    array = re.fullmatch(r"[\[<](\d+) x (\w+)[\]>]", parts[1])
    count, kind = (int(array[1]), array[2]) if array else (1, parts[1])
    if kind not in _SIZES:
        raise UnsupportedCodeError(f"the type `{kind}`")
    index = execution.number(parts[3])
    return execution.number(parts[2]) + index * (count * _SIZES[kind])


def _address(execution: Execution, match: re.Match[str]) -> Value:
    return _pointer(execution, match[1])


def _extract(execution: Execution, match: re.Match[str]) -> Value:
    return execution.value(match[1])[int(match[2])]


def _insert(execution: Execution, match: re.Match[str]) -> Value:
    old = execution.value(match[2])
    values = list(old) if isinstance(old, list) else [old] * int(match[1])
    values[int(match[4])] = execution.value(match[3])
    return values


def _shuffle_vector(execution: Execution, match: re.Match[str]) -> Value:
    count = int(match[1])
    parts = []
    for text in (match[2], match[3]):
        value = execution.value(text)
        parts += value if isinstance(value, list) else [value] * count
    unused = execution.value("poison")
    mask = re.findall(r"i32 (\d+|poison|undef)", match[4])
    return [parts[int(n)] if n.isdigit() else unused for n in mask]


def _tid(execution: Execution, match: re.Match[str]) -> Value:
    return np.arange(execution.threads, dtype=np.int64)


def _shuffle(execution: Execution, match: re.Match[str]) -> Value:
    """Exchange a register between lanes of a warp."""
    if execution.stage == "thread":
        execution.stage = "warp"
    value, by = execution.value(match[2]), execution.number(match[3])
    lanes = np.arange(execution.threads)
    within = lanes % _LANES
    source = lanes - within + (within ^ by if match[1] == "bfly" else by % _LANES)
    if isinstance(value, Symbols):
        return Symbols(value.nodes[source])
    return value[source]


def _reverse_bits(execution: Execution, match: re.Match[str]) -> Value:
    width, value = int(match[1]), execution.number(match[2])
    result = np.zeros_like(value)
    for bit in range(width):
        result |= (value >> bit & 1) << (width - 1 - bit)
    return result


def _load(execution: Execution, match: re.Match[str]) -> Value:
    count, start = _count(match[1]), execution.number(match[2])
    words = [execution.read_shared(start + WORD * n) for n in range(count)]
    return words if match[1].startswith("<") else words[0]


def _store(execution: Execution, match: re.Match[str]) -> Value:
    value, start = execution.value(match[2]), execution.number(match[3])
    _count(match[1])
    for n, word in enumerate(value if isinstance(value, list) else [value]):
        execution.write_shared(start + WORD * n, execution.symbols(word))


_ACCESS = re.compile(
    r"(?:@\$(?P<predicate>\d+) )?(?P<verb>ld|st)\.(?P<space>global|shared)(?:::cta)?"
    r"(?:\.(?:relaxed|weak|cta|gpu|L1::\w+|L2::\w+))*(?:\.v(?P<count>\d))?\.b32 "
    r"(?P<operands>[^;]*);$"
)


def _assembly(execution: Execution, match: re.Match[str]) -> Value:
    """Execute an access to memory, which Triton writes as inline assembly."""
    text, operands = match[1], [_untyped(part) for part in _split(match[2])]
    code = text.replace("\\0A", "\n").replace("\\09", "").replace("\\22", '"')
    lines = [line.strip() for line in code.splitlines()]
    lines = [line for line in lines if not re.fullmatch(r"mov\.u32 \$\d+, 0x0;", line)]
    access = _ACCESS.fullmatch(" ".join(lines))
    if not access:
        raise UnsupportedCodeError(f"inline assembly `{' '.join(lines)[:60]}`")
    count = int(access["count"] or 1)
    # The operands of the assembly are numbered after its results.
    results = count if access["verb"] == "ld" else 0

    def operand(number: str) -> Value:
        return execution.value(operands[int(number) - results])

    parts = _split(access["operands"])
    if len(parts) != 2:
        raise UnsupportedCodeError(f"inline assembly `{' '.join(lines)[:60]}`")
    place, data = parts if access["verb"] == "st" else reversed(parts)
    where = re.fullmatch(r"\[ ?\$(\d+)(?: \+ (\d+))? ?\]", place.strip())
    if not where:
        raise UnsupportedCodeError(f"the address `{place[:60]}`")
    start = operand(where[1]) + int(where[2] or 0)
    predicate = access["predicate"]
    active = np.ones(execution.threads, bool) if predicate is None else operand(predicate) != 0
    is_global = access["space"] == "global"
    if access["verb"] == "ld":
        read = execution.read_global if is_global else execution.read_shared
        words = []
        for n in range(count):
            nodes = np.full(execution.threads, _UNWRITTEN, np.int64)
            nodes[active] = read(start[active] + WORD * n).nodes
            words.append(Symbols(nodes))
        return words if count > 1 else words[0]
    for n, number in enumerate(re.findall(r"\$(\d+)", data)):
        nodes = execution.symbols(operand(number))
        if is_global:
            execution.write_global(start + WORD * n, nodes, active)
        else:
            execution.write_shared(start + WORD * n, nodes, active)
    return None


def _split(text: str) -> Sequence[str]:
    """Split operands at the commas outside brackets."""
    parts, depth = [""], 0
    for letter in text:
        depth += {"(": 1, "{": 1, "<": 1, ")": -1, "}": -1, ">": -1}.get(letter, 0)
        if letter == "," and not depth:
            parts.append("")
        else:
            parts[-1] += letter
    return [part.strip() for part in parts if part.strip()]


def _untyped(operand: str) -> str:
    """Return an operand without its type."""
    match = re.match(r"(?:ptr(?: addrspace\(\d\))?|i\d+|float|<[^>]*>) (?:noundef )?(.*)", operand)
    return match[1] if match else operand


def _nothing(execution: Execution, match: re.Match[str]) -> Value:
    return None


_PTR = r"ptr addrspace\(3\) "
#: Operands of a shuffle among all lanes: mask, value, lane, and bounds of the segment.
_WHOLE_WARP = r"i32 -1, i32 (\S+), i32 (\S+), i32 31"
#: An operand: a variable, a number, or a constant vector.
_ANY = r"(<[^>]*>|[^\s,()]+)"
_RULES: list[tuple[re.Pattern[str], Rule]] = [
    (re.compile(pattern), rule)
    for pattern, rule in (
        (rf"({'|'.join(_INTEGER)}) {_FLAGS}i(\d+) (\S+), (\S+)$", _binary),
        (rf"icmp {_FLAGS}(\w+) i\d+ (\S+), (\S+)$", _compare),
        (r"select i1 (\S+), (?:i\d+|float) (\S+), (?:i\d+|float) (\S+)$", _select),
        (rf"fadd (?:float|<\d+ x float>) {_ANY}, {_ANY}$", _sum),
        (rf"call float @llvm\.vector\.reduce\.fadd\.v\d+f32\(float {_ANY}, <\d+ x float> {_ANY}\)",
         _vector_sum),
        (rf"(?:zext|trunc) {_FLAGS}i\d+ (\S+) to i(\d+)$", _cast),
        (r"bitcast (float|i32|<\d+ x \w+>) (\S+) to (float|i32|<\d+ x \w+>)$", _bitcast),
        (r"getelementptr (?:inbounds |nuw |nusw )*(.*)$", _address),
        (r"extractvalue \{[^}]*\} (\S+), (\d+)$", _extract),
        (r"extractelement <[^>]*> (\S+), i\d+ (\d+)$", _extract),
        (rf"insertelement <(\d+) x \w+> {_ANY}, \w+ {_ANY}, i\d+ (\d+)$", _insert),
        (rf"shufflevector <(\d+) x \w+> {_ANY}, <\d+ x \w+> {_ANY}, <\d+ x i32> <(.*)>$",
         _shuffle_vector),
        (r"call [^@]*i32 @llvm\.nvvm\.read\.ptx\.sreg\.tid\.x\(\)", _tid),
        (rf"call i32 @llvm\.nvvm\.shfl\.sync\.(bfly|idx)\.i32\({_WHOLE_WARP}\)", _shuffle),
        (r"call i\d+ @llvm\.bitreverse\.i(\d+)\(i\d+ (\S+)\)", _reverse_bits),
        (r"call void @llvm\.nvvm\.(?:barrier|bar)[\w.]*\(", _nothing),
        (r"call [^@]*asm (?:sideeffect )?\"(.*?)\", \"[^\"]*\"\((.*)\)$", _assembly),
        (rf"load (float|i32|<\d+ x \w+>), {_PTR}(.+), align \d+$", _load),
        (rf"store (float|i32|<\d+ x \w+>) (\S+), {_PTR}(.+), align \d+$", _store),
    )
]  # fmt: skip
