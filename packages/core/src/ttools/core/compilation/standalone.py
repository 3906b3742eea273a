"""A kernel as Python text that needs only Triton, and a script that compiles it.

The text contains the kernel, the functions and classes that it uses, their global constants, and
imports of Triton's own modules. Objects of other modules are written into the text, and references
to them are renamed.
"""

from __future__ import annotations

import ast
import builtins
import inspect
import math
import textwrap
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import takewhile
from types import FunctionType, ModuleType
from typing import Any

from ttools.core.compilation.kernel_source import KernelSource
from ttools.core.errors import UsageError
from ttools.core.gpus.targets import Target
from ttools.core.ownership import owner_of_class, owner_of_function, owner_of_module
from ttools.core.syntax_trees import assigned_names
from ttools.core.triton_versions import constexpr_function_class, jit_function_class

#: An index path inside a parameter: `()` is the parameter, `(0,)` the first element of a tuple.
Path = tuple[int, ...]
#: Owners whose modules a stand-alone script may import.
_IMPORTED = ("triton", "python")


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
        """Return the expression of Triton's `ASTSource` for the kernel."""
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
            after: Statements that follow the compilation, which is called `compiled`.
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
    """Write an assigned call with one keyword argument per line."""
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
    collected = _Definitions()
    name = collected.kernel(source.function)
    parameters = tuple(
        Parameter(
            name=parameter,
            kind=repr(kind),
            constants=tuple(
                (path[1:], collected.expression(value, f"`{parameter}`"))
                for path, value in source.constants.items()
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
        name=name, definitions=collected.text(), parameters=parameters, options=options
    )


class _Definitions:
    """Collects the definitions that a kernel needs."""

    def __init__(self) -> None:
        import triton
        import triton.language

        self._imports: dict[str, str] = {}
        self._constants: list[str] = []
        self._functions: list[str] = []
        #: The object of each name, and the name of each function and class.
        self._objects: dict[str, Any] = {}
        self._names: dict[int, str] = {}
        self._bind("triton", triton)
        self._bind("tl", triton.language)

    def text(self) -> str:
        """Return the text of all definitions; the kernel is the last one."""
        head = [*self._imports.values(), *self._constants]
        return "\n".join([*head, *(f"\n{function}" for function in self._functions)]) + "\n"

    def kernel(self, function: Any) -> str:
        """Add a kernel, whose parameters need no default values; return its name."""
        tree = self._jit_tree(function)
        signature = tree.args
        if signature.vararg or signature.kwarg:
            raise UsageError(f"`{tree.name}` has a parameter with `*`, which is not supported")
        parameters = [*signature.posonlyargs, *signature.args, *signature.kwonlyargs]
        tree.args = ast.arguments([], parameters, None, [], [], None, [])
        return self._define(function, tree, function.fn)

    def expression(self, value: Any, what: str) -> str:
        """Return an expression for a value.

        Args:
            what: Name of the value for error messages.

        Raises:
            UsageError: The value has no expression.
        """
        import triton.language as tl

        if isinstance(value, tl.constexpr):
            return self.expression(value.value, what)
        if isinstance(value, float) and not math.isfinite(value):
            return f'float("{value}")'
        if value is None or type(value) in (bool, int, float, str):
            return repr(value)
        if type(value) in (tuple, list):
            elements = [self.expression(element, what) for element in value]
            if type(value) is list:
                return f"[{', '.join(elements)}]"
            return f"({', '.join(elements)}{',' * (len(elements) == 1)})"
        if isinstance(value, tl.dtype):
            names = [name for name, other in vars(tl).items() if other is value]
            if names:
                return f"tl.{names[0]}"
        if _is_definition(value):
            return self._name_of(value, what)
        raise UsageError(
            f"the value of {what}, an object of the class {type(value).__name__}, cannot be "
            "written into a script"
        )

    # ---- names
    def _bind(self, name: str, value: Any) -> str:
        """Return a name for an object, and import or define the object under it."""
        if name in self._objects and self._objects[name] is value:
            return name
        if _is_definition(value) and not _is_importable(value):
            return self._name_of(value, f"`{name}`")
        free = self._free_name(name)
        self._objects[free] = value
        if isinstance(value, ModuleType):
            plain = value.__name__ == free
            self._imports[free] = f"import {value.__name__}{'' if plain else f' as {free}'}"
        elif _is_definition(value):
            origin = getattr(value, "fn", value)
            same = origin.__name__ == free
            rename = "" if same else f" as {free}"
            self._imports[free] = f"from {origin.__module__} import {origin.__name__}{rename}"
        else:
            import triton.language as tl

            text = self.expression(value, f"`{name}`")
            constant = f"tl.constexpr({text})" if isinstance(value, tl.constexpr) else text
            self._constants.append(f"{free} = {constant}")
        return free

    def _free_name(self, name: str) -> str:
        number, free = 1, name
        while free in self._objects:
            number += 1
            free = f"{name}_{number}"
        return free

    def _name_of(self, value: Any, what: str) -> str:
        if id(value) in self._names:
            return self._names[id(value)]
        if isinstance(value, jit_function_class()):
            return self._define(value, self._jit_tree(value), value.fn)
        python = getattr(value, "fn", value)
        try:
            (tree,) = ast.parse(textwrap.dedent(inspect.getsource(python))).body
        except (OSError, TypeError, ValueError, SyntaxError):
            raise UsageError(f"the source of {what} is not known") from None
        if not isinstance(tree, (ast.FunctionDef, ast.ClassDef)):
            raise UsageError(f"{what} is not a plain function or class")
        if isinstance(value, constexpr_function_class()):
            tree.decorator_list = [ast.parse("triton.constexpr_function", mode="eval").body]
        return self._define(value, tree, python)

    # ---- functions
    def _jit_tree(self, function: Any) -> ast.FunctionDef:
        try:
            (tree,) = ast.parse(textwrap.dedent(function.src)).body
        except (SyntaxError, ValueError):
            tree = None
        if not isinstance(tree, ast.FunctionDef):
            raise UsageError(f"the source of `{function.__name__}` is not known")
        decorator = "triton.jit(noinline=True)" if function.noinline else "triton.jit"
        tree.decorator_list = [ast.parse(decorator, mode="eval").body]
        tree.returns = None
        arguments = [*tree.args.posonlyargs, *tree.args.args, *tree.args.kwonlyargs]
        constants = {p.name for p in function.params if p.is_constexpr}
        for argument in arguments:
            is_constant = argument.arg in constants
            argument.annotation = (
                ast.parse("tl.constexpr", mode="eval").body if is_constant else None
            )
        return tree

    def _define(self, value: Any, tree: ast.FunctionDef | ast.ClassDef, python: Any) -> str:
        name = self._free_name(tree.name)
        self._names[id(value)] = name
        self._objects[name] = value
        scope: dict[str, Any] = {}
        if isinstance(python, FunctionType):
            scope = {**python.__globals__, **_closure(python)}
        elif isinstance(python, type):
            scope = dict(vars(inspect.getmodule(python)) or {})
        tree = _Renaming(self, scope, tree).visit(tree)
        tree.name = name
        self._functions.append(ast.unparse(ast.fix_missing_locations(tree)))
        return name

    def name_in(self, name: str, scope: Mapping[str, Any]) -> str:
        """Return the name by which the text refers to a global name of a function."""
        if name not in scope:  # a builtin, or undefined, which may be the error that is sought
            return name
        return self._bind(name, scope[name])

    def member(self, node: ast.Attribute, scope: Mapping[str, Any]) -> str | None:
        """Return the name of an object that is an attribute of a module of the program.

        The result is None if the expression is not such an attribute.
        """
        path = ast.unparse(node).split(".")
        value: Any = scope.get(path[0])
        for part in path[1:]:
            if not isinstance(value, ModuleType) or owner_of_module(value) in _IMPORTED:
                return None
            value = getattr(value, part, None)
        if value is None or isinstance(value, ModuleType):
            return None
        return self._bind(path[-1], value)


class _Renaming(ast.NodeTransformer):
    """Renames the global names of a function, and replaces attributes of modules by names."""

    def __init__(
        self,
        definitions: _Definitions,
        scope: Mapping[str, Any],
        tree: ast.FunctionDef | ast.ClassDef,
    ) -> None:
        self._definitions, self._scope = definitions, scope
        arguments = [node.arg for node in ast.walk(tree) if isinstance(node, ast.arg)]
        self._local = {*assigned_names(tree), *arguments}

    def visit_Name(self, node: ast.Name) -> ast.AST:
        is_global = isinstance(node.ctx, ast.Load) and node.id not in self._local
        if is_global and not (node.id not in self._scope and hasattr(builtins, node.id)):
            node.id = self._definitions.name_in(node.id, self._scope)
        return node

    def visit_Attribute(self, node: ast.Attribute) -> ast.AST:
        base: ast.expr = node
        while isinstance(base, ast.Attribute):
            base = base.value
        if isinstance(base, ast.Name) and base.id not in self._local:
            name = self._definitions.member(node, self._scope)
            if name is not None:
                return ast.Name(name, ast.Load())
        return self.generic_visit(node)


def _closure(function: FunctionType) -> dict[str, Any]:
    cells = zip(function.__code__.co_freevars, function.__closure__ or (), strict=True)
    values: dict[str, Any] = {}
    for name, cell in cells:
        try:
            values[name] = cell.cell_contents
        except ValueError:  # the variable has no value yet
            continue
    return values


def _is_definition(value: Any) -> bool:
    kinds = (jit_function_class(), constexpr_function_class(), type)
    return isinstance(value, kinds) or inspect.isroutine(value)


def _is_importable(value: Any) -> bool:
    """Return whether a function or class belongs to Triton or to Python's library."""
    owner = owner_of_class(value) if isinstance(value, type) else owner_of_function(value)
    return owner in _IMPORTED
