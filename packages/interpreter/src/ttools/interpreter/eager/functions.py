"""Eager versions of jit functions, made by rewriting their source.

Python source is rewritten where the compiler gives it a different meaning than Python. A variable
that is assigned a number holds a tensor; `and`, `or`, `not` of tensors are elementwise; `is`
compares the values of constants; `assert` and `print("…")` are device functions. For example,
`x = 1` becomes `x = __ttools_eager__.tensor_of(1)`, where `__ttools_eager__` is the module
`control`. All other expressions work because the values overload Python's operators. The rewritten
code has the file name and line numbers of the original, so that debuggers show the original source.
"""

from __future__ import annotations

import ast
import inspect
from collections.abc import Mapping
from types import CodeType, FunctionType
from typing import Any

from ttools.core.errors import UsageError
from ttools.core.syntax_trees import assigned_names
from ttools.core.triton_versions import compilation_error, source_file
from ttools.interpreter.eager import control
from ttools.interpreter.eager.debugging.debugger import breakpoint_function
from ttools.interpreter.eager.debugging.frames import MARK, location
from ttools.interpreter.eager.observation import observer
from ttools.interpreter.eager.session import current
from ttools.interpreter.eager.values import EagerConstexpr, EagerTensor, constant_of
from ttools.interpreter.frontend.triton_passes import definition_offset

_DEBUGGER = "pdb.set_trace"


def rewrite(function: ast.FunctionDef) -> ast.Module:
    """Return a module that defines the rewritten function.

    Args:
        function: Definition of the function without decorators; it is changed in place.
    """
    function.args.defaults = [_keep(ast.Constant(None), d) for d in function.args.defaults]
    function.args.kw_defaults = [
        None if default is None else _keep(ast.Constant(None), default)
        for default in function.args.kw_defaults
    ]
    for argument in ast.walk(function.args):
        if isinstance(argument, ast.arg):
            argument.annotation = None
    function.returns = None
    function.decorator_list = []
    rewriter = _Rewriter({a.arg for a in ast.walk(function.args) if isinstance(a, ast.arg)})
    function.body = [rewriter.visit(statement) for statement in function.body]
    return ast.fix_missing_locations(ast.Module(body=[function], type_ignores=[]))


def _keep(node: Any, source: ast.AST) -> Any:
    return ast.copy_location(node, source)


def _call(name: str, source: ast.AST, *arguments: ast.expr) -> Any:
    """Return the syntax tree of a call of a function in `control`."""
    runtime = _keep(ast.Name(MARK, ast.Load()), source)
    function = _keep(ast.Attribute(runtime, name, ast.Load()), source)
    return _keep(ast.Call(function, list(arguments), []), source)


class _Rewriter(ast.NodeTransformer):
    def __init__(self, parameters: set[str]) -> None:
        self._bound = parameters
        self._held = 0
        self._loops = 0

    # ---- names

    def visit_Assign(self, node: ast.Assign) -> Any:
        node.value = _call("tensor_of", node.value, self.visit(node.value))
        self._bound |= assigned_names(*node.targets)
        return node

    def visit_AugAssign(self, node: ast.AugAssign) -> Any:
        if not isinstance(node.target, ast.Name):
            return self.generic_visit(node)
        old = _keep(ast.Name(node.target.id, ast.Load()), node.target)
        new = _keep(ast.BinOp(old, node.op, self.visit(node.value)), node)
        return _keep(ast.Assign([node.target], _call("tensor_of", node, new)), node)

    def visit_AnnAssign(self, node: ast.AnnAssign) -> Any:
        if node.value is None:
            return _keep(ast.Pass(), node)
        value = _call("annotated", node.value, node.annotation, self.visit(node.value))
        self._bound |= assigned_names(node.target)
        return _keep(ast.Assign([node.target], value), node)

    def visit_NamedExpr(self, node: ast.NamedExpr) -> Any:
        node.value = _call("tensor_of", node.value, self.visit(node.value))
        return node

    # ---- logic

    def visit_BoolOp(self, node: ast.BoolOp) -> Any:
        method = "logical_and" if isinstance(node.op, ast.And) else "logical_or"
        values = [self.visit(value) for value in node.values]
        result = values[0]
        for value in values[1:]:
            store, load = self._hold(result)
            both = _call(method, node, load, value)
            static = (value, load) if method == "logical_and" else (load, value)
            chosen = _keep(ast.IfExp(load, *static), node)
            result = _keep(ast.IfExp(_call("is_dynamic", node, store), both, chosen), node)
        return result

    def visit_IfExp(self, node: ast.IfExp) -> Any:
        self.generic_visit(node)
        store, load = self._hold(node.test)
        dynamic = _keep(
            ast.IfExp(
                load,
                _call("tensor_of", node.body, node.body),
                _call("tensor_of", node.orelse, node.orelse),
            ),
            node,
        )
        static = _keep(ast.IfExp(load, node.body, node.orelse), node)
        return _keep(ast.IfExp(_call("is_dynamic", node, store), dynamic, static), node)

    def _hold(self, value: ast.expr) -> tuple[ast.expr, ast.expr]:
        """Return an expression that assigns a value to a temporary name, and one that reads it."""
        name = f"{MARK}{self._held}"
        self._held += 1
        store = _keep(ast.NamedExpr(_keep(ast.Name(name, ast.Store()), value), value), value)
        return store, _keep(ast.Name(name, ast.Load()), value)

    def visit_UnaryOp(self, node: ast.UnaryOp) -> Any:
        self.generic_visit(node)
        return _call("not_", node, node.operand) if isinstance(node.op, ast.Not) else node

    def visit_Compare(self, node: ast.Compare) -> Any:
        self.generic_visit(node)
        if len(node.ops) == 1 and isinstance(node.ops[0], (ast.Is, ast.IsNot)):
            name = "is_" if isinstance(node.ops[0], ast.Is) else "is_not"
            return _call(name, node, node.left, node.comparators[0])
        return node

    # ---- statements and calls

    def visit_For(self, node: ast.For) -> Any:
        if not isinstance(node.iter, ast.Call) or _is_static(node.iter):
            return self.generic_visit(node)
        carried = sorted((assigned_names(*node.body) & self._bound) - assigned_names(node.target))
        self._loop(node)
        if carried:
            names = [_keep(ast.Constant(name), node.iter) for name in carried]
            node.iter = _call("carrying", node.iter, node.iter, *names)
        return node

    def visit_While(self, node: ast.While) -> Any:
        return self._loop(node)

    def _loop(self, node: ast.stmt) -> Any:
        bound = set(self._bound)
        self._loops += 1
        self.generic_visit(node)
        self._loops -= 1
        self._bound = bound  # as in Triton, names first assigned in a loop are undefined after it
        return node

    def visit_Return(self, node: ast.Return) -> Any:
        self.generic_visit(node)
        if not self._loops:
            return node
        return [_keep(ast.Expr(_call("refuse_return", node)), node), node]

    def visit_Assert(self, node: ast.Assert) -> Any:
        self.generic_visit(node)
        message = node.msg or _keep(ast.Constant(""), node)
        return _keep(ast.Expr(_call("assert_", node, node.test, message)), node)

    def visit_Call(self, node: ast.Call) -> Any:
        self.generic_visit(node)
        called = ast.unparse(node.func)
        if called == "print" and node.args and _is_text(node.args[0]):
            node.func = _keep(
                ast.Attribute(_keep(ast.Name(MARK, ast.Load()), node), "device_print", ast.Load()),
                node.func,
            )
        elif called == _DEBUGGER:
            node.func = _keep(ast.Name("breakpoint", ast.Load()), node.func)
        return node

    def visit_FunctionDef(self, node: ast.FunctionDef) -> Any:
        return node  # Triton cannot compile nested functions, so they keep Python's meaning


def _is_static(call: ast.Call) -> bool:
    """Return whether a call is `tl.static_range`, so that the compiler unrolls a loop over it."""
    return ast.unparse(call.func).rpartition(".")[2] == "static_range"


def _is_text(node: ast.expr) -> bool:
    return isinstance(node, ast.Constant) and isinstance(node.value, str)


class EagerFunction:
    """A jit function that runs as Python.

    Args:
        function: The `JITFunction` to run.
    """

    def __init__(self, function: Any) -> None:
        self.jit_function = function
        self._signature = inspect.signature(function.fn)
        self._constants = frozenset(p.name for p in function.params if p.is_constexpr)
        self._globals: dict[str, Any] = {}
        self._seen: dict[str, Any] = {}
        self._launch = -1
        self._python: dict[type | None, FunctionType] = {}
        self.__name__ = function.fn.__name__
        self.__doc__ = function.fn.__doc__

    def __call__(self, *arguments: Any, **named: Any) -> Any:
        """Run the function in the current session."""
        bound = self._signature.bind(*arguments, **named)
        bound.apply_defaults()
        for name, value in bound.arguments.items():
            bound.arguments[name] = self._argument(name, value)
        if self.jit_function.noinline:
            self._refuse_blocks(bound.arguments)
        return self.python(*bound.args, **bound.kwargs)

    def _refuse_blocks(self, arguments: Mapping[str, Any]) -> None:
        """Raise the compiler's error if a block is passed to a function marked `noinline`."""
        for name, value in arguments.items():
            if isinstance(value, EagerTensor) and value.type.is_block():
                what = (
                    f"`{self.__name__}` is marked noinline, but `{name}` is not a scalar: "
                    f"{value.type}"
                )
                raise compilation_error(location(), TypeError(what))

    @property
    def python(self) -> FunctionType:
        """The Python function, with the values that the module's globals have in this launch."""
        if self._launch != _launches[0]:
            self._refresh()
            self._launch = _launches[0]
        kind = None if observer() is None else type(observer())
        if kind not in self._python:
            self._python[kind] = self._compile()
        return self._python[kind]

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return getattr(self.jit_function, name)

    def __repr__(self) -> str:
        return f"<jit function {self.__name__}>"

    def _argument(self, name: str, value: Any) -> Any:
        if self._signature.parameters[name].kind is inspect.Parameter.VAR_POSITIONAL:
            return tuple(map(constant_of, value))
        if name in self._constants and not isinstance(value, EagerConstexpr):
            return value if hasattr(value, "handle") else EagerConstexpr(value)
        return constant_of(value)

    def _refresh(self) -> None:
        """Copy globals that have changed in the module in which the function was defined."""
        language = current().language
        if not self._globals:
            self._globals[MARK] = control
        for name, value in self.jit_function.get_capture_scope().items():
            if name not in self._seen or self._seen[name] is not value:
                self._globals[name] = value if name.startswith("__") else language.wrap(value)
                # Add the name last, because another thread runs the function once all names are in
                # `_seen`.
                self._seen[name] = value
        self._globals["__builtins__"] = language.python_builtins(breakpoint_function())

    def _compile(self) -> FunctionType:
        function = self.jit_function
        tree = ast.parse(function.src)
        definition = tree.body[0]
        if not isinstance(definition, ast.FunctionDef):
            raise UsageError(f"`{function.fn.__name__}` is not a function definition")
        _move(definition, *definition_offset(function))
        observed_by = observer()
        if observed_by is not None:
            observed_by.instrument(definition)
        name = source_file(function)
        code = compile(rewrite(definition), name, "exec", dont_inherit=True)
        # The module is not executed, because a debugger would stop at the definition. The code of
        # the function is among the constants of the module's code.
        body = next(constant for constant in code.co_consts if isinstance(constant, CodeType))
        original = function.fn
        python = FunctionType(body, self._globals, original.__name__)
        python.__defaults__ = original.__defaults__
        python.__kwdefaults__ = original.__kwdefaults__
        python.__module__ = original.__module__
        python.__qualname__ = original.__qualname__
        return python


def _move(tree: ast.AST, lines: int, columns: int) -> None:
    """Shift the positions of all nodes, so that they are positions in the function's file."""
    for node in ast.walk(tree):
        if isinstance(
            node, (ast.stmt, ast.expr, ast.arg, ast.keyword, ast.alias, ast.excepthandler)
        ):
            node.lineno += lines
            node.col_offset += columns
            node.end_lineno = (node.end_lineno or node.lineno) + lines
            node.end_col_offset = (node.end_col_offset or 0) + columns


_launches = [0]
_functions: dict[int, tuple[Any, str, EagerFunction]] = {}


def function_for(function: Any) -> EagerFunction:
    """Return the eager version of a jit function; there is one for each jit function."""
    cached = _functions.get(id(function))
    if cached is not None and cached[0] is function and cached[1] == function.src:
        return cached[2]
    made = EagerFunction(function)
    _functions[id(function)] = function, function.src, made
    return made


def begin_launch() -> None:
    """Make every eager function look up its module's globals again at its next call."""
    _launches[0] += 1
