"""A matrix of a kernel's configurations by GPU: which ones fit, and what they need.

Each configuration is compiled for each GPU, which need not be present. The launch rules determine
whether a configuration fits; the limits of the GPU's multiprocessors determine its occupancy.
"""

from __future__ import annotations

import textwrap
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any, Literal

from ttools.core.compilation.inspection import Inspection
from ttools.core.compilation.kernel_source import KernelSource
from ttools.core.compilation.resources import Occupancy, allocated_needs
from ttools.core.compilation.stages import CompilationError, compile_for
from ttools.core.gpus.launch_rules import GpuNeeds, Violation, broken_rules, limits_of
from ttools.core.gpus.targets import LIMIT_SOURCES, Target, read_target
from ttools.core.location import shown_line
from ttools.core.reports.report import config_text, counted
from ttools.core.triton_versions.version import installed_triton

SCHEMA = "ttools.config-matrix/1"

Verdict = Literal["fits", "does_not_fit", "does_not_compile"]


@dataclass(frozen=True, kw_only=True)
class Configured:
    """A kernel in one configuration.

    Attributes:
        kernel: Name of the kernel.
        values: The configuration: values of parameters and launch options by name; empty for a
            kernel without an autotuner.
        source: The kernel with these values; None if Triton's front end rejects it.
        error: Reason for the rejection.
        launched: `file:line` of the launch; None if it is unknown.
    """

    kernel: str
    values: Mapping[str, Any]
    source: KernelSource | None
    error: str = ""
    launched: str | None = None


@dataclass(frozen=True, kw_only=True)
class Cell:
    """A configuration on a GPU.

    Attributes:
        target: Name of the architecture.
        verdict: Whether the configuration can be launched.
        rule: Name of the launch rule that it breaks; empty if it breaks none.
        reason: Reason why it cannot be launched: the requirement and the exceeded limit, or a
            compiler's error.
        needs: Its requirements; unknown ones are None.
        spilled: Bytes per thread that did not fit into registers; None if unknown.
        local: Bytes of local memory per thread: spilled values and arrays. A GPU driver reports
            only this sum, which Triton calls `n_spills`. None if unknown.
        occupancy: Occupancy of the GPU; None if the limits of the GPU are unknown, or if the
            configuration cannot be launched.
    """

    target: str
    verdict: Verdict
    rule: str = ""
    reason: str = ""
    needs: GpuNeeds = field(default_factory=GpuNeeds)
    spilled: int | None = None
    local: int | None = None
    occupancy: Occupancy | None = None

    @property
    def share(self) -> float | None:
        """Return the occupancy from 0 to 1; None if it is unknown."""
        return None if self.occupancy is None else self.occupancy.share


@dataclass(frozen=True, kw_only=True)
class ConfigRow:
    """A configuration with its cells, one for each GPU.

    Attributes:
        number: Position of the configuration among those of the kernel, from 1.
    """

    number: int
    values: Mapping[str, Any]
    cells: Sequence[Cell]


@dataclass(frozen=True, kw_only=True)
class KernelMatrix:
    """The configurations of one kernel for one launch, by GPU.

    Attributes:
        parameters: Specialisations of the parameters that are specialised alike in all
            configurations.
    """

    kernel: str
    launched: str | None
    parameters: Mapping[str, str]
    rows: Sequence[ConfigRow]

    @property
    def title(self) -> str:
        """Return the name of the kernel with the place of its launch."""
        return self.kernel + (
            f", launched from {shown_line(self.launched)}" if self.launched else ""
        )

    @property
    def common(self) -> dict[str, Any]:
        """Return the values that all configurations have in common."""
        first = dict(self.rows[0].values)
        if len(self.rows) == 1:
            return {}
        return {
            name: value
            for name, value in first.items()
            if all(name in row.values and row.values[name] == value for row in self.rows)
        }

    def column(self, target: str) -> list[tuple[ConfigRow, Cell]]:
        """Return all cells for one GPU, each with its row."""
        return [(row, cell) for row in self.rows for cell in row.cells if cell.target == target]

    def best(self, target: str) -> float | None:
        """Return the highest known occupancy of a configuration on a GPU; None if none is known."""
        shares = [cell.share for _, cell in self.column(target) if cell.share is not None]
        return max(shares, default=None)

    def lost(self, cell: Cell) -> float | None:
        """Return the relative difference between a cell's occupancy and the best one on its GPU."""
        best = self.best(cell.target)
        return 1 - cell.share / best if best and cell.share is not None else None


@dataclass(frozen=True, kw_only=True)
class ConfigMatrix:
    """The matrices of all kernels of a program.

    Attributes:
        targets: Names of the architectures with the names that reports show, such as
            `h100 (sm_90)`, in the order of the columns.
        triton: Version of Triton that compiled the kernels.
    """

    targets: Mapping[str, str]
    kernels: Sequence[KernelMatrix]
    triton: str = field(default_factory=installed_triton)

    def cells(self) -> Iterator[tuple[KernelMatrix, ConfigRow, Cell]]:
        """Yield all cells with their kernels and configurations."""
        for kernel in self.kernels:
            for row in kernel.rows:
                for cell in row.cells:
                    yield kernel, row, cell

    def unusable(self) -> list[tuple[KernelMatrix, str]]:
        """Return each kernel and GPU for which no configuration of the kernel can be launched."""
        return [
            (kernel, shown)
            for kernel in self.kernels
            for target, shown in self.targets.items()
            if all(cell.verdict != "fits" for _, cell in kernel.column(target))
        ]

    def refused(self) -> list[tuple[KernelMatrix, ConfigRow, Cell]]:
        """Return the cells of configurations that cannot be launched."""
        return [entry for entry in self.cells() if entry[2].verdict != "fits"]

    def as_dict(self) -> dict[str, Any]:
        """Return JSON-compatible data with the schema `SCHEMA`."""
        return {
            "schema": SCHEMA,
            "triton": self.triton,
            "gpus": [
                {"name": shown, **_limits(read_target(name))}
                for name, shown in self.targets.items()
            ],
            "kernels": [
                {
                    "kernel": kernel.kernel,
                    "launched": kernel.launched,
                    "parameters": dict(kernel.parameters),
                    "configs": [
                        {
                            "number": row.number,
                            "values": _plain(row.values),
                            "gpus": {cell.target: _cell(kernel, cell) for cell in row.cells},
                        }
                        for row in kernel.rows
                    ],
                }
                for kernel in self.kernels
            ],
        }


def _plain(values: Mapping[str, Any]) -> dict[str, Any]:
    return {
        name: value if isinstance(value, (bool, int, float, str)) else str(value)
        for name, value in values.items()
    }


def _limits(target: Target) -> dict[str, Any]:
    limits = target.limits
    return {
        "gpu": target.name,
        "launch": asdict(limits_of(target)),
        "multiprocessor": None if limits is None else asdict(limits),
        "source": LIMIT_SOURCES[target.backend],
    }


def _cell(kernel: KernelMatrix, cell: Cell) -> dict[str, Any]:
    occupied = cell.occupancy
    needs = {name: value for name, value in vars(cell.needs).items() if name != "grid"}
    return {
        "verdict": cell.verdict,
        "rule": cell.rule,
        "reason": cell.reason,
        **needs,
        "spilled": cell.spilled,
        "local": cell.local,
        "occupancy": cell.share,
        "blocks": occupied.blocks if occupied else None,
        "limited_by": occupied.limited_by if occupied else None,
        "lost": kernel.lost(cell),
    }


# ---- making a matrix


def examine(source: KernelSource, target: Target) -> Cell:
    """Compile a kernel for a GPU, and compare what it needs with the limits of the GPU.

    Raises:
        TtoolsError: NVIDIA's binary tools are missing.
    """
    # The requirements that are known early are checked first: an assembler may take minutes for a
    # kernel that is far too large.
    needs = GpuNeeds(
        threads=int(source.options.get("num_warps", 4)) * target.threads,
        cluster=int(source.options.get("num_ctas", 1)),
    )
    try:
        broken = broken_rules(needs, limits_of(target))
        if not broken and source.path is None:
            needs = replace(allocated_needs(source, target), cluster=needs.cluster)
            broken = broken_rules(needs, limits_of(target))
        if broken:
            return _refused(target, needs, broken)
        inspection = Inspection(compile_for(source, target))
    except CompilationError as error:
        return Cell(
            target=target.name,
            verdict="does_not_compile",
            reason=" ".join(str(error).split()),
            needs=needs,
        )
    resources, broken = inspection.resources, inspection.broken_rules
    metadata = inspection.compilation.metadata
    needs = resources.needs(
        cluster=metadata.get("num_ctas"), tensor_memory=metadata.get("tmem_size")
    )
    if broken:
        return _refused(target, needs, broken, resources.spilled)
    return Cell(
        target=target.name,
        verdict="fits",
        needs=needs,
        spilled=resources.spilled,
        local=resources.local,
        occupancy=inspection.occupancy,
    )


def _refused(
    target: Target, needs: GpuNeeds, broken: Sequence[Violation], spilled: int | None = None
) -> Cell:
    return Cell(
        target=target.name,
        verdict="does_not_fit",
        rule=broken[0].rule,
        reason="; ".join(violation.message for violation in broken),
        needs=needs,
        spilled=spilled,
    )


def make_matrix(
    launches: Iterable[Sequence[Configured]],
    targets: Sequence[Target] | Mapping[Target, str],
    made: Callable[[], object] = lambda: None,
) -> ConfigMatrix:
    """Compile all configurations for all GPUs.

    Args:
        launches: For each launch, the kernel in all of its configurations, at least one.
        targets: The GPUs for which kernels are compiled, optionally with their names in reports,
            which are names of architectures by default.
        made: Function to call after each completed cell.

    Raises:
        TtoolsError: NVIDIA's binary tools are missing.
    """
    kernels = []
    for configs in launches:
        rows = []
        for number, config in enumerate(configs, 1):
            cells = []
            for target in targets:
                if config.source is None:
                    cell = Cell(target=target.name, verdict="does_not_compile", reason=config.error)
                else:
                    cell = examine(config.source, target)
                cells.append(cell)
                made()
            rows.append(ConfigRow(number=number, values=config.values, cells=cells))
        first = configs[0]
        kernels.append(
            KernelMatrix(
                kernel=first.kernel,
                launched=first.launched,
                parameters=_common_parameters(configs),
                rows=rows,
            )
        )
    names = targets.values() if isinstance(targets, Mapping) else [t.name for t in targets]
    return ConfigMatrix(
        targets={target.name: shown for target, shown in zip(targets, names, strict=True)},
        kernels=kernels,
    )


def _common_parameters(configs: Sequence[Configured]) -> dict[str, str]:
    described = [c.source.parameters() for c in configs if c.source is not None]
    first = described[0] if described else {}
    return {
        name: text
        for name, text in first.items()
        if all(other.get(name) == text for other in described)
    }


# ---- as text

_SHORT = {
    "shared_memory": "shared",
    "registers": "regs",
    "threads": "threads",
    "cluster": "cluster",
    "tensor_memory": "tensor",
}
_WIDTH = 80
_COLUMN = 8
#: Limits of the text, so that it fits on a screen: the number of rows of all kernels, and the
#: number of reasons.
_MOST_ROWS, _MOST_REASONS = 12, 5
#: The largest number of kernels for which the text contains a line for each GPU.
_MOST_DESCRIBED = 2


def cell_text(cell: Cell) -> str:
    """Format a cell in at most seven characters: the occupancy, or the limit that is exceeded."""
    if cell.verdict == "does_not_compile":
        return "error"
    if cell.verdict == "does_not_fit":
        return _SHORT.get(cell.rule, "no")
    share = "fits" if cell.share is None else f"{cell.share:.0%}"
    return share + ("*" if cell.spilled else "")


def matrix_text(matrix: ConfigMatrix) -> str:
    """Return a matrix as text of at most 80 columns."""
    rows = max(2, _MOST_ROWS // max(1, len(matrix.kernels)))
    lines: list[str] = []
    for kernel in matrix.kernels:
        lines += _table(kernel, [*matrix.targets.values()], rows)
        if len(matrix.kernels) <= _MOST_DESCRIBED:
            for target, shown in matrix.targets.items():
                lines += _wrapped(column_line(kernel, target, shown), 2)
        lines.append("")
    lines.append("A figure is the occupancy; a word is the limit that is exceeded.")
    if any(cell.spilled for _, _, cell in matrix.cells()):
        lines.append("* spills registers")
    if sentences := list(reasons(matrix)):
        lines.append("")
        for sentence in sentences[:_MOST_REASONS]:
            lines += _wrapped(sentence, 0)
        if len(sentences) > _MOST_REASONS:
            rest = counted(len(sentences) - _MOST_REASONS, "more reason")
            lines.append(f"… {rest}; --format json or html shows all")
    return "\n".join(lines) + "\n"


def _table(kernel: KernelMatrix, names: Sequence[str], most: int) -> Iterator[str]:
    common = kernel.common
    count = counted(len(kernel.rows), "configuration")
    yield from _wrapped(f"{kernel.title}: {count}", 0)
    if common:
        yield from _wrapped(f"all with {config_text(common)}", 2)
    labels = [row_label(row, common) for row in kernel.rows]
    # Names that are too wide for one line, such as `h100 (sm_90)`, take two.
    headings = [names]
    if (max(map(len, names)) + 2) * len(names) > _WIDTH - 8:
        parts = [name.rpartition(" ") for name in names]
        headings = [[product for product, _, _ in parts], [target for _, _, target in parts]]
    column = max(_COLUMN, *(len(name) + 2 for heading in headings for name in heading))
    in_rows = max(map(len, labels)) <= _WIDTH - 8 - column * len(names)
    width = max(map(len, labels)) + 6 if in_rows else 6
    most = most if in_rows else max(1, most // 2)
    for heading in headings:
        if any(heading):
            yield (" " * width + "".join(f"{name:>{column}}" for name in heading)).rstrip()
    for row, label in list(zip(kernel.rows, labels, strict=True))[:most]:
        shown = f"{row.number:>4}  {label if in_rows else ''}"
        cells = "".join(f"{cell_text(cell):>{column}}" for cell in row.cells)
        yield f"{shown:<{width}}{cells}"
        if not in_rows and label:
            yield from _wrapped(label, 6)
    if len(kernel.rows) > most:
        rest = counted(len(kernel.rows) - most, "more configuration")
        yield f"      … {rest}; --format json or html shows all"


def row_label(row: ConfigRow, common: Mapping[str, Any]) -> str:
    """Format the values of a configuration that are not the same in all configurations."""
    return config_text({n: v for n, v in row.values.items() if n not in common})


def column_line(kernel: KernelMatrix, target: str, shown: str) -> str:
    """Describe how many configurations a GPU can run, and their highest and lowest occupancy.

    Args:
        target: Name of the architecture.
        shown: Name of the GPU in reports.
    """
    column = kernel.column(target)
    fitting = [(row, cell) for row, cell in column if cell.verdict == "fits"]
    text = f"{shown}: {len(fitting)} of {len(column)} fit"
    occupancies = [(row, cell.share) for row, cell in fitting if cell.share is not None]
    if fitting and not occupancies:
        return f"{text}; occupancy is unknown, because ttools has no limits for {shown}"
    if len(occupancies) < 2:
        return text
    best, worst = (
        max(occupancies, key=lambda item: item[1]),
        min(occupancies, key=lambda item: item[1]),
    )
    if best[1] == worst[1]:
        return f"{text}; occupancy {best[1]:.0%} in all of them"
    lost = 1 - worst[1] / best[1]
    return (
        f"{text}; occupancy {worst[1]:.0%} (config {worst[0].number}, {lost:.0%} less) to "
        f"{best[1]:.0%} (config {best[0].number})"
    )


def reasons(matrix: ConfigMatrix) -> Iterator[str]:
    """Yield one sentence for each configuration that cannot be launched on some GPUs.

    GPUs for which the reason is the same are named in one sentence.
    """
    united: dict[tuple[str, str], list[str]] = {}
    for kernel, row, cell in matrix.refused():
        name = f"{kernel.kernel}, " if len(matrix.kernels) > 1 else ""
        gpus = united.setdefault((f"{name}config {row.number}", cell.reason), [])
        gpus.append(matrix.targets[cell.target])
    for (config, reason), targets in united.items():
        yield f"{config} on {', '.join(targets)}: {reason}"


def _wrapped(text: str, indent: int) -> list[str]:
    space = " " * indent
    return textwrap.wrap(
        text, _WIDTH, initial_indent=space, subsequent_indent=f"{space}  ", max_lines=3,
        placeholder=" …",
    )  # fmt: skip
