"""Rewrites a jit function's Python source where the compiler gives it another meaning than Python.

A name that is given a number holds a tensor; `and`, `or`, `not` of tensors are elementwise; `is`
looks through constants; `assert` and `print("…")` happen on the device. All else is left to the
values' own operators. Every node keeps its location, so that debuggers see the source as written.
"""

from __future__ import annotations

import ast
from typing import Any

from ttools.interpreter.eager.debugging.frames import MARK

_DEBUGGER = "pdb.set_trace"


def rewrite(function: ast.FunctionDef) -> ast.Module:
    """A module that defines the function as the eager engine runs it.

    Args:
        function: without decorators; it is changed.
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
    """A call of one of `control`'s functions."""
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
        self._bound |= _stored(*node.targets)
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
        self._bound |= _stored(node.target)
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
        """An expression that keeps a value, and one that reads it again."""
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
        carried = sorted((_stored(*node.body) & self._bound) - _stored(node.target))
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
        self._bound = bound  # what only a loop's body assigns is gone behind it
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
        return node  # nested functions are plain Python, which only runs eagerly


def _stored(*nodes: ast.AST) -> set[str]:
    """The names that something assigns."""
    names = (each for node in nodes for each in ast.walk(node) if isinstance(each, ast.Name))
    return {each.id for each in names if isinstance(each.ctx, ast.Store)}


def _is_static(call: ast.Call) -> bool:
    """Whether a loop over a call's result is unrolled where it is compiled."""
    return ast.unparse(call.func).rpartition(".")[2] == "static_range"


def _is_text(node: ast.expr) -> bool:
    return isinstance(node, ast.Constant) and isinstance(node.value, str)
