"""A kernel as Python text that needs only Triton, and a script that compiles it.

`source_closure.py` collects the kernel and everything that it refers to. Comments and everything
that Triton's compiler ignores are removed from the text, because `reduction` makes kernels smaller.
"""

from __future__ import annotations

import ast
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import takewhile

from ttools.core.compilation.kernel_source import KernelSource
from ttools.core.errors import UnsupportedError, UsageError
from ttools.core.gpus.targets import Target
from ttools.core.source_closure import SourceClosure
from ttools.core.syntax_trees import read_names

#: An index path inside a parameter: `()` is the parameter, `(0,)` the first element of a tuple.
Path = tuple[int, ...]


@dataclass(frozen=True, kw_only=True)
class Parameter:
    """A parameter of a kernel with its specialisation, as Python expressions.

    Attributes:
        kind: Entry of the signature, such as `'*fp32'` or `'constexpr'`.
        constants: Values of constants by index path.
        hints: Triton's attributes by index path.
    """

    name: str
    kind: str
    constants: tuple[tuple[Path, str], ...] = ()
    hints: tuple[tuple[Path, str], ...] = ()


@dataclass(frozen=True, kw_only=True)
class StandaloneKernel:
    """A kernel with its specialisation, as text.

    Attributes:
        definitions: Source text with imports, constants, functions and the kernel.
        options: Launch options by name, as Python expressions.
    """

    name: str
    definitions: str
    parameters: tuple[Parameter, ...]
    options: tuple[tuple[str, str], ...]

    @property
    def source(self) -> str:
        """Return a Python expression that creates Triton's `ASTSource` for the kernel."""
        signature = {repr(p.name): p.kind for p in self.parameters}
        constants = {
            repr((index, *path)): text
            for index, parameter in enumerate(self.parameters)
            for path, text in parameter.constants
        }
        hints = {
            repr((index, *path)): text
            for index, parameter in enumerate(self.parameters)
            for path, text in parameter.hints
        }
        arguments = [f"fn={self.name}", f"signature={_dict(signature)}"]
        arguments += [f"constexprs={_dict(constants)}"] if constants else []
        arguments += [f"attrs={_dict(hints)}"] if hints else []
        return f"ASTSource({', '.join(arguments)})"

    @property
    def options_text(self) -> str:
        """Return the expression of the launch options."""
        return _dict({repr(name): value for name, value in self.options})

    def script(self, target: Target, after: str = "") -> str:
        """Return a script that compiles the kernel for a target.

        Args:
            after: Statements that follow the compilation; they can use its result as `compiled`.
        """
        gpu = target.gpu_target()
        options = f", options={self.options_text}" if self.options else ""
        call = (
            f"compiled = triton.compile({self.source}, "
            f"target=GPUTarget({gpu.backend!r}, {gpu.arch!r}, {gpu.warp_size!r}){options})"
        )
        lines = self.definitions.splitlines()
        imports = list(takewhile(lambda line: line.startswith(("import ", "from ")), lines))
        body = "\n".join(lines[len(imports) :]).strip()
        gap = "\n" if body.startswith(("@", "class ")) else ""
        parts = [*imports, IMPORTS, gap, body, "\n", _wrapped(call), after]
        return "\n".join(parts).rstrip() + "\n"


#: Imports of the names that `StandaloneKernel.source` and `script` use.
IMPORTS = "from triton.backends.compiler import GPUTarget\nfrom triton.compiler import ASTSource"


def _dict(entries: Mapping[str, str]) -> str:
    return "{" + ", ".join(f"{key}: {value}" for key, value in entries.items()) + "}"


def _wrapped(call: str) -> str:
    """Format an assignment of a call with one keyword argument per line."""
    statement = ast.parse(call).body[0]
    assert isinstance(statement, ast.Assign)
    assert isinstance(statement.value, ast.Call)
    outer = statement.value
    source = outer.args[0]
    assert isinstance(source, ast.Call)
    lines = [f"{ast.unparse(statement.targets[0])} = {ast.unparse(outer.func)}("]
    lines.append(f"    {ast.unparse(source.func)}(")
    lines += [f"        {ast.unparse(keyword)}," for keyword in source.keywords]
    lines.append("    ),")
    lines += [f"    {ast.unparse(keyword)}," for keyword in outer.keywords]
    return "\n".join([*lines, ")"])


def standalone_kernel(source: KernelSource) -> StandaloneKernel:
    """Return a kernel with its specialisation as text.

    Raises:
        UsageError: The kernel has no Python source, or uses an object that has no source.
    """
    if source.function is None:
        raise UsageError(f"`{source.name}` is TTIR, which has no Python source")
    closure = SourceClosure(keep_globals=True)
    try:
        kernel = closure.kernel(source.function)
        constants = {
            path: closure.expression(value, f"`{_parameter_at(source, path)}`")
            for path, value in source.constants.items()
        }
        imports, body, texts = closure.texts(kernel, *constants.values())
    except UnsupportedError as error:
        raise UsageError(error.what) from None
    name, *expressions = texts
    parameters = tuple(
        Parameter(
            name=parameter,
            kind=repr(kind),
            constants=tuple(
                (path[1:], text)
                for path, text in zip(constants, expressions, strict=True)
                if path[0] == index
            ),
            hints=tuple(
                (path[1:], repr(value)) for path, value in source.hints.items() if path[0] == index
            ),
        )
        for index, (parameter, kind) in enumerate(source.signature.items())
    )
    options = tuple((option, repr(value)) for option, value in source.options.items())
    return StandaloneKernel(
        name=name,
        definitions=_definitions(f"{imports}\n{body}", name, expressions),
        parameters=parameters,
        options=options,
    )


def _parameter_at(source: KernelSource, path: Path) -> str:
    return list(source.signature)[path[0]]


def _definitions(text: str, kernel: str, expressions: Sequence[str]) -> str:
    """Return definitions without unused imports, and without everything that the compiler ignores.

    The compiler ignores the default values of the kernel's parameters, because the specialisation
    contains all values. It also ignores the annotations of jit functions, except `tl.constexpr`.

    Raises:
        UsageError: The kernel has a parameter with `*`.
    """
    tree = ast.parse(text)
    for statement in tree.body:
        if isinstance(statement, ast.FunctionDef) and statement.decorator_list:
            _simplify(statement, is_kernel=statement.name == kernel)
    used = read_names(tree).union(*(read_names(ast.parse(text)) for text in expressions))
    tree.body = [
        statement
        for statement in tree.body
        if not isinstance(statement, (ast.Import, ast.ImportFrom))
        or any((alias.asname or alias.name) in used for alias in statement.names)
    ]
    return ast.unparse(ast.fix_missing_locations(tree)) + "\n"


def _simplify(function: ast.FunctionDef, *, is_kernel: bool) -> None:
    """Remove a function's options and annotations; for the kernel, also its default values."""
    decorator = function.decorator_list[0]
    keywords = decorator.keywords if isinstance(decorator, ast.Call) else []
    if isinstance(decorator, ast.Call):
        decorator.keywords = [keyword for keyword in keywords if keyword.arg == "noinline"]
        if not decorator.keywords:
            function.decorator_list = [decorator.func]
    function.returns = None
    signature = function.args
    arguments = [*signature.posonlyargs, *signature.args, *signature.kwonlyargs]
    for argument in arguments:
        if argument.annotation is not None and "constexpr" not in ast.unparse(argument.annotation):
            argument.annotation = None
    if not is_kernel:
        return
    if signature.vararg or signature.kwarg:
        raise UsageError(f"`{function.name}` has a parameter with `*`, which is not supported")
    function.args = ast.arguments([], arguments, None, [], [], None, [])
