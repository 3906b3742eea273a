"""Writes recorded launches as a Python file that needs only Triton and torch.

The file contains the source of the kernels with everything that it refers to, statements that make
the tensors, and the launches with their grids, constants and options. Tensors that share memory are
views of one tensor. Contents that a short expression reproduces exactly are written as that
expression, and other small contents as numbers. All remaining contents are stored in a file of
torch next to the script.
"""

from __future__ import annotations

import textwrap
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from typing import TYPE_CHECKING, Any

from msgspec.structs import replace

from ttools.core.errors import UnsupportedError, UsageError
from ttools.core.source_closure import SourceClosure
from ttools.core.spec import ArgumentSpec, CompileOptions, TensorSpec, itemsize
from ttools.core.triton_versions import descriptor_types, has_allocator, is_descriptor
from ttools.interpreter.records.tensor_recipes import Contents, RandomDraws, recipe_of

if TYPE_CHECKING:
    from ttools.core.records.launch_record import LaunchRecord, Storage
    from ttools.interpreter.run.kernel_launch import KernelLaunch

#: Keyword arguments of a launch that are neither parameters nor options.
_NOT_OPTIONS = ("grid", "warmup", "stream")
_RESERVED = ("DEVICE", "DATA", "Path", "generator")
#: Triton assumes that a pointer whose address is divisible by this number is aligned.
_ALIGNMENT = 16
#: Operation for which Triton may need memory from `triton.set_allocator` on a GPU.
_MAKES_DESCRIPTOR = "tt.make_tensor_descriptor"
_INDENT = "    "
#: Suffix of the file with the tensors of a script.
DATA_SUFFIX = ".pt"
#: Text by which an earlier script is recognised.
_MARK = "Recorded with ttools "
_LONGEST_LINE = 100


@dataclass(frozen=True, kw_only=True)
class _PendingCall:
    """A launch whose tensors are still to be written.

    Attributes:
        kernel: Placeholder for the name of the kernel.
        record: The launch as data; storages are numbered as in the record.
        arguments: Expressions of the parameters by name; tensors are written as `{number}`, where
            the number is the index of the tensor in `tensors`.
        tensors: The tensors among the arguments, with the names of their parameters.
        options: Expressions of the launch options by name.
        seed: Seed of torch's generator for the CPU when the launch was made.
        needs_allocator: True if the kernel may need memory from `triton.set_allocator`.
    """

    kernel: str
    record: LaunchRecord
    arguments: Mapping[str, str]
    tensors: Sequence[tuple[str, TensorSpec]]
    options: Mapping[str, str]
    seed: int
    needs_allocator: bool


class ReplayScript:
    """A script that makes recorded launches again."""

    def __init__(self) -> None:
        self._closure = SourceClosure(_RESERVED)
        self._launches: list[_PendingCall] = []

    @property
    def launches(self) -> int:
        """Return the number of launches in the script."""
        return len(self._launches)

    def add(
        self, launch: KernelLaunch, record: LaunchRecord, options: Mapping[str, Any] | None
    ) -> None:
        """Add a launch before it is made.

        Args:
            record: The launch as data.
            options: The launch options that the program passed; None if they are not known.

        Raises:
            UnsupportedError: The kernel or an argument cannot be written as source.
        """
        import torch

        function, source = launch.kernel.function, launch.kernel.source
        if function is None:
            raise UnsupportedError("its Python source is not known")
        if function.is_gluon():
            raise UnsupportedError("it is a Gluon kernel")
        closure = self._closure.copy()
        arguments = _Arguments(closure, record.spec.arguments)
        texts = {
            name: arguments.expression(name, kind, value)
            for (name, kind), value in zip(source.signature.items(), _passed(launch), strict=True)
        }
        if options is None:
            options = _recorded_options(launch.kernel.options)
        written = {
            name: closure.expression(value, f"the option `{name}`")
            for name, value in options.items()
            if value is not None
        }
        made = _PendingCall(
            kernel=closure.kernel(function),
            record=record,
            arguments=texts,
            tensors=arguments.tensors,
            options=written,
            seed=torch.initial_seed(),
            needs_allocator=has_allocator() or _MAKES_DESCRIPTOR in launch.kernel.variants.ttir,
        )
        closure.names()  # refuses the launch if two objects need the same name
        self._launches.append(made)
        self._closure = closure

    def write(
        self, path: Path, storages: Sequence[Storage], made_by: Mapping[str, str]
    ) -> list[Path]:
        """Write the script, and a file of the same name with the suffix `.pt` if it is needed.

        Args:
            path: Path of the script.
            storages: The memory of the record.
            made_by: Versions of the recording programs, and the device.

        Returns:
            The files that were written.

        Raises:
            UsageError: A file cannot be written, or a tensor cannot be written as source.
        """
        import torch

        data: dict[str, Any] = {}
        names = frozenset(self._closure.names().values())
        try:
            bodies = [
                _Function(
                    launch, storages, names, data, number if len(self._launches) > 1 else None
                ).text()
                for number, launch in enumerate(self._launches)
            ]
        except UnsupportedError as error:
            raise UsageError(f"cannot write `{path}`: {error.what}") from error
        imports, definitions, texts = self._closure.texts(*bodies)
        text = _text(path, self._launches, made_by, imports, definitions, texts, bool(data))
        tensors = path.with_suffix(DATA_SUFFIX)
        if data and tensors.exists() and not path.exists():
            raise UsageError(
                f"cannot write `{tensors}`: it exists, and is not the data of an earlier {path}; "
                "choose another name for the script"
            )
        try:
            path.write_text(text, "utf-8")
            if data:
                torch.save(data, tensors)
        except (OSError, RuntimeError) as error:
            raise UsageError(f"cannot write `{path}`: {error}") from error
        return [path, tensors] if data else [path]


def check_script_path(path: Path) -> None:
    """Check that a script may be written.

    Raises:
        UsageError: The name is unsuitable, or the file exists and is not an earlier script.
    """
    if path.suffix != ".py":
        raise UsageError(f"cannot write a script to `{path}`: the name must end in .py")
    try:
        is_other = path.exists() and _MARK not in path.read_text("utf-8", errors="replace")
    except OSError as error:
        raise UsageError(f"cannot write `{path}`: {error.strerror}") from error
    if is_other:
        raise UsageError(
            f"cannot write a script to `{path}`: the file exists and is not a script that ttools "
            "recorded; choose another name"
        )


def launch_options(kernel: Any, kwargs: Mapping[str, Any]) -> dict[str, Any] | None:
    """Return the options among the keyword arguments of a launch; None if they are not known.

    Args:
        kernel: The jit function that is launched, or a kernel of another kind.
    """
    names = getattr(kernel, "arg_names", None)
    if names is None or not hasattr(kernel, "params"):
        return None
    return {
        name: value
        for name, value in kwargs.items()
        if name not in names and name not in _NOT_OPTIONS
    }


def _recorded_options(options: CompileOptions) -> dict[str, Any]:
    passed: dict[str, Any] = {"num_warps": options.warps, "num_stages": options.stages}
    if options.blocks != 1:
        passed["num_ctas"] = options.blocks
    if not options.fp_fusion:
        passed["enable_fp_fusion"] = False
    if options.debug:
        passed["debug"] = True
    if options.cooperative:
        passed["launch_cooperative_grid"] = True
    return passed


def _passed(launch: KernelLaunch) -> list[Any]:
    """Return one value for each parameter of the kernel's source."""
    signature, source = launch.kernel.source.signature, launch.kernel.source
    if len(launch.unflattened) == len(signature):
        return list(launch.unflattened)
    # Inductor does not pass constants.
    rest = iter(launch.unflattened)
    return [
        source.constants.get((number,)) if kind == "constexpr" else next(rest)
        for number, kind in enumerate(signature.values())
    ]


class _Arguments:
    """Writes the arguments of a launch.

    Args:
        closure: Collects what the arguments refer to.
        specs: The flattened arguments as data.
    """

    def __init__(self, closure: SourceClosure, specs: Sequence[ArgumentSpec]) -> None:
        self._closure = closure
        self._specs = iter(specs)
        self.tensors: list[tuple[str, TensorSpec]] = []

    def expression(self, name: str, kind: Any, value: Any) -> str:
        """Return the expression of an argument, with `{number}` for a tensor.

        Args:
            kind: Triton's type of the parameter.
        """
        what = f"argument `{name}`"
        if isinstance(kind, tuple):
            inner = [
                self.expression(name, one, part) for one, part in zip(kind, value, strict=True)
            ]
            joined = ", ".join(inner)
            if hasattr(value, "_fields"):
                return f"{self._closure.reference(type(value))}({joined})"
            return f"({joined},)" if len(inner) == 1 else f"({joined})"
        if kind == "constexpr":
            return _escaped(self._closure.expression(value, what))
        spec = next(self._specs)
        if is_descriptor(kind):
            for _ in descriptor_types(kind)[1:]:
                next(self._specs)
            return self._descriptor(what, spec, value)
        if isinstance(spec.value, TensorSpec):
            return self._tensor(what, spec.name, spec.value, value)
        number = getattr(value, "value", value) if type(value).__name__ == "constexpr" else value
        return _escaped(self._closure.expression(number, what))

    def _tensor(self, what: str, name: str, spec: TensorSpec, value: Any) -> str:
        import torch

        base = getattr(value, "base", None)
        if not isinstance(value, torch.Tensor) and isinstance(base, torch.Tensor):
            dtype = self._closure.expression(value.dtype, what)
            triton = self._closure.module("triton")
            return f"{triton}.reinterpret({self._view(what, name, spec, base)}, {dtype})"
        return self._view(what, name, spec, value)

    def _view(self, what: str, name: str, spec: TensorSpec, tensor: Any) -> str:
        import torch

        if not isinstance(tensor, torch.Tensor):
            raise UnsupportedError(
                f"{what} is an object of type {type(tensor).__name__}; a script contains tensors "
                "of torch only"
            )
        dtype = str(tensor.dtype).removeprefix("torch.")
        if any(stride < 0 for stride in spec.strides):
            raise UnsupportedError(f"{what} has negative strides, which torch does not allow")
        if spec.offset % spec.itemsize:
            raise UnsupportedError(f"{what} begins inside an element of its storage")
        self.tensors.append((name, replace(spec, dtype=dtype)))
        return f"{{{len(self.tensors) - 1}}}"

    def _descriptor(self, what: str, spec: ArgumentSpec, value: Any) -> str:
        if not isinstance(spec.value, TensorSpec) or not hasattr(value, "__dataclass_fields__"):
            raise UnsupportedError(f"{what} is a descriptor of an unknown kind")
        words = [self._tensor(what, spec.name, spec.value, value.base)]
        for item in fields(value):
            part = getattr(value, item.name)
            if item.name != "base" and part != item.default:
                plain = list(part) if isinstance(part, (tuple, list)) else part
                text = self._closure.expression(plain, what)
                words.append(f"{item.name}={_escaped(text)}")
        return f"{self._closure.reference(type(value))}({', '.join(words)})"


def _escaped(text: str) -> str:
    """Protect braces in text that `str.format` will process."""
    return text.replace("{", "{{").replace("}", "}}")


class _Function:
    """Writes the function that makes one launch.

    Args:
        storages: The memory of the record.
        names: Names of the functions and constants in the script.
        data: Receives the contents that are stored in the data file, by key.
        number: Number of the launch; None if it is the only one.
    """

    def __init__(
        self,
        launch: _PendingCall,
        storages: Sequence[Storage],
        names: frozenset[str],
        data: dict[str, Any],
        number: int | None,
    ) -> None:
        self._launch, self._storages, self._data = launch, storages, data
        self.name = "launch" if number is None else f"launch_{number}"
        self._prefix = "" if number is None else f"{number}."
        self._taken: set[str] = {*_RESERVED, *names}

    def text(self) -> str:
        """Return the source of the function, with placeholders."""
        spec = self._launch.record.spec
        lines = [f'"""Launch `{self._launch.kernel}` and return its tensors."""']
        names = self._make_tensors(lines)
        if self._launch.needs_allocator:
            lines += _ALLOCATOR
        grid = list(spec.grid)
        while len(grid) > 1 and grid[-1] == 1:
            grid.pop()
        words = [
            f"{name}={text.format(*names)}" for name, text in self._launch.arguments.items()
        ] + [f"{name}={text}" for name, text in self._launch.options.items()]
        called = f"{self._launch.kernel}[({', '.join(map(str, grid))}{',' * (len(grid) == 1)})]"
        lines += [f"{called}(", *(f"{_INDENT}{word}," for word in words), ")"]
        results = {
            name: variable for (name, _), variable in zip(self._launch.tensors, names, strict=True)
        }
        inner = ", ".join(f'"{name}": {variable}' for name, variable in results.items())
        lines.append(f"return {{{inner}}}")
        return "\n".join([f"def {self.name}():", *(f"{_INDENT}{line}" for line in lines)])

    def _make_tensors(self, lines: list[str]) -> list[str]:
        """Add the lines that make the tensors, and return their variables."""
        groups: dict[int, list[int]] = {}
        for number, (_, spec) in enumerate(self._launch.tensors):
            groups.setdefault(spec.storage, []).append(number)
        variables: dict[int, str] = {}
        contents = {
            storage: Contents.of(self._storages[storage], self._launch.tensors[members[0]][1].dtype)
            for storage, members in groups.items()
        }
        drawn = RandomDraws(self._launch.seed).found(contents)
        if drawn:
            lines.append(f"generator = torch.Generator().manual_seed({self._launch.seed})")
        # The statements must draw random numbers in the order in which the program drew them.
        for storage in [*drawn, *(storage for storage in groups if storage not in drawn)]:
            members = groups[storage]
            content = contents[storage]
            key = self._prefix + self._launch.tensors[members[0]][0]
            text = drawn.get(storage) or recipe_of(content)
            if text is None:
                self._data[key] = content.elements
                # On the CPU, the launch would change the loaded data itself if it were not copied.
                text = f'DATA["{key}"].clone()'
            self._views(lines, text, content, members, variables)
        return [variables[number] for number in range(len(self._launch.tensors))]

    def _views(
        self,
        lines: list[str],
        text: str,
        content: Contents,
        members: Sequence[int],
        variables: dict[int, str],
    ) -> None:
        tensors = [self._launch.tensors[number] for number in members]
        name, first = tensors[0]
        variable = self._variable(name)
        shifted = content.place % _ALIGNMENT
        is_whole = (
            first.is_dense
            and first.offset == 0
            and (first.span[1] == content.size and content.dtype == first.dtype)
        )
        if shifted % itemsize(content.dtype):
            raise UnsupportedError(f"argument `{name}` is not aligned to its elements")
        if is_whole and not shifted and all(spec == first for _, spec in tensors):
            shape = "" if len(first.shape) == 1 else f".reshape({first.shape})"
            lines += _wrapped(f"{variable} = {text}{shape}.to(DEVICE)")
            variables.update(dict.fromkeys(members, variable))
            return
        storage = self._variable(f"{name}_storage")
        lines += _wrapped(f"{storage} = {text}.to(DEVICE)")
        if shifted:
            count = shifted // itemsize(content.dtype)
            lines += [
                f"# The address is {shifted} bytes after a multiple of {_ALIGNMENT}.",
                f"{storage} = torch.cat([{storage}[:1].expand({count}), {storage}])[{count}:]",
            ]
        made: dict[TensorSpec, str] = {}
        for number, (own_name, spec) in zip(members, tensors, strict=True):
            if spec not in made:
                made[spec] = variable if not made else self._variable(own_name)
                typed = storage
                if spec.dtype != content.dtype:
                    typed = f"{storage}.view(torch.{spec.dtype})"
                offset = (spec.offset + shifted) // spec.itemsize
                view = f"{typed}.as_strided({spec.shape}, {spec.strides}, {offset})"
                lines += _wrapped(f"{made[spec]} = {view}")
            variables[number] = made[spec]

    def _variable(self, name: str) -> str:
        stem = "".join(c if c.isalnum() else "_" for c in name).strip("_") or "tensor"
        wanted, count = stem, 2
        while wanted in self._taken:
            wanted, count = f"{stem}_{count}", count + 1
        self._taken.add(wanted)
        return wanted


def _wrapped(line: str) -> list[str]:
    """Break a statement at spaces, which are all inside brackets except those around `=`."""
    width = _LONGEST_LINE - len(_INDENT)
    if len(line) <= width or max(map(len, line.split(" "))) > width // 2:
        return [line]
    return textwrap.wrap(
        line, width, subsequent_indent=_INDENT, break_long_words=False, break_on_hyphens=False
    )


_ALLOCATOR = [
    "triton.set_allocator(",
    f"{_INDENT}lambda size, *_: torch.empty(size, dtype=torch.int8, device=DEVICE)",
    ")",
]


def _text(
    path: Path,
    launches: Sequence[_PendingCall],
    made_by: Mapping[str, str],
    imports: str,
    definitions: str,
    functions: Sequence[str],
    has_data: bool,
) -> str:
    head = "\n".join(_head(path, launches, made_by, has_data))
    constants = ["DEVICE = triton.runtime.driver.active.get_active_torch_device()"]
    if has_data:
        constants.append(
            f'DATA = torch.load(Path(__file__).with_suffix("{DATA_SUFFIX}"), weights_only=True)'
        )
    names = [text.partition("(")[0].removeprefix("def ") for text in functions]
    listed = ", ".join(names) + ("," if len(names) == 1 else "")
    main = "\n".join(
        [
            'if __name__ == "__main__":',
            f"{_INDENT}for make_launch in ({listed}):",
            f"{_INDENT * 2}for name, tensor in make_launch().items():",
            f"{_INDENT * 3}print(name, tensor)",
        ]
    )
    library = "from pathlib import Path\n\n" if has_data else ""
    parts = [
        f"{head}\n\n{library}{imports}\n\n" + "\n".join(constants),
        *([definitions] if definitions else []),
        *functions,
        main,
    ]
    return "\n\n\n".join(parts) + "\n"


def _head(
    path: Path, launches: Sequence[_PendingCall], made_by: Mapping[str, str], has_data: bool
) -> Iterator[str]:
    names = list(dict.fromkeys(launch.record.spec.kernel for launch in launches))
    versions = f"{made_by['ttools']}, Triton {made_by['triton']}, torch {made_by['torch']}"
    what = "A launch" if len(launches) == 1 else f"{len(launches)} launches"
    yield f'"""{what} of {", ".join(names)}, recorded on {made_by["on"]}.'.replace("\\", "/")
    yield ""
    yield f"{_MARK}{versions}."
    yield "The script needs only Triton and torch. Run it on a GPU by `python`, or without a GPU by"
    yield "`ttools interpret`."
    if has_data:
        tensors = path.with_suffix(DATA_SUFFIX).name
        yield f"Tensors are in {tensors}, which must be in the same folder."
    for launch in launches:
        spec = launch.record.spec
        where = f" at {spec.site.line}" if spec.site.line else ""
        yield f"- {spec.kernel}: launched{where}".replace("\\", "/").replace('"', "'")
        if spec.site.config:
            chosen = ", ".join(f"{name}={value}" for name, value in spec.site.config.items())
            yield f"  with the configuration {chosen}".replace("\\", "/").replace('"', "'")
    yield '"""'
