"""Smaller variants of a kernel's text: fewer statements, simpler expressions, fewer parameters.

Each function changes a syntax tree in place, yields while the change is present, and undoes it
afterwards, because copying trees would take longer than compiling most candidates.
"""

from __future__ import annotations

import ast
import builtins
import copy
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace

from ttools.core.compilation.standalone import Parameter, StandaloneKernel
from ttools.core.syntax_trees import assigned_names, read_names

_SMALL_INTEGERS = (0, 1, 2, 16)
#: A longer line counts as several lines.
_LONGEST_LINE = 100
#: Replacements for expressions.
_VALUES: tuple[int | float, ...] = (0, 1.0)
_Edits = Callable[[ast.Module], Iterator[None]]
Step = Callable[[StandaloneKernel], Iterator[StandaloneKernel]]


def weight(kernel: StandaloneKernel) -> tuple[int, ...]:
    """Return the quantities to minimise, lexicographically: lines, nodes, characters, integers."""
    tree = ast.parse(kernel.definitions)
    specialised = len(kernel.options) + sum(len(p.hints) for p in kernel.parameters)
    integers = [node.value for node in ast.walk(tree) if isinstance(node, ast.Constant)]
    integers += [_integer(text) for p in kernel.parameters for _, text in p.constants]
    integers += [_integer(text) for _, text in kernel.options]
    return (
        sum(1 + len(line) // _LONGEST_LINE for line in kernel.definitions.splitlines() if line),
        sum(1 for _ in ast.walk(tree)) + specialised,
        len(kernel.definitions),
        sum(abs(value) for value in integers if type(value) is int),
    )


def lines(kernel: StandaloneKernel) -> int:
    """Return the number of lines of the definitions, without empty ones."""
    return sum(1 for line in kernel.definitions.splitlines() if line.strip())


def _integer(text: str) -> int:
    try:
        value = ast.literal_eval(text)
    except (ValueError, SyntaxError):
        return 0
    return value if type(value) is int else 0


# ---- names


def undefined_names(kernel: StandaloneKernel) -> set[str]:
    """Return the names that functions read although nothing defines them."""
    tree = ast.parse(kernel.definitions)
    everywhere = _module_names(tree) | set(dir(builtins))
    return {
        name
        for function in _functions(tree)
        for name in read_names(function) - everywhere - _local_names(function)
    }


def _module_names(tree: ast.Module) -> set[str]:
    return {name for statement in tree.body for name in _bound(statement)}


def _bound(statement: ast.stmt) -> set[str]:
    """Return the names that a module-level statement defines."""
    if isinstance(statement, (ast.FunctionDef, ast.ClassDef)):
        return {statement.name}
    if isinstance(statement, (ast.Import, ast.ImportFrom)):
        return {alias.asname or alias.name.partition(".")[0] for alias in statement.names}
    return assigned_names(statement)


def _local_names(function: ast.FunctionDef) -> set[str]:
    return assigned_names(function) | {node.arg for node in _arguments_of(function)}


def _arguments_of(function: ast.FunctionDef) -> list[ast.arg]:
    signature = function.args
    optional = [argument for argument in (signature.vararg, signature.kwarg) if argument]
    return [*signature.posonlyargs, *signature.args, *signature.kwonlyargs, *optional]


def _functions(tree: ast.Module) -> list[ast.FunctionDef]:
    return [node for node in tree.body if isinstance(node, ast.FunctionDef)]


# ---- removal of unused parts


def without_unused(kernel: StandaloneKernel) -> StandaloneKernel:
    """Return the kernel without docstrings and unused parameters, functions and imports."""
    tree = ast.parse(kernel.definitions)
    for function in _functions(tree):
        if ast.get_docstring(function, clean=False) is not None:
            function.body[:1] = [] if len(function.body) > 1 else [ast.Pass()]
        for node in ast.walk(function):
            for block in _blocks_of(node):
                if len(block) > 1:
                    block[:] = [s for s in block if not isinstance(s, ast.Pass)] or [ast.Pass()]
    main = _function(tree, kernel.name)
    used = read_names(ast.Module(main.body, []))
    main.args.args = [argument for argument in main.args.args if argument.arg in used]
    needed, pending = {kernel.name}, [kernel.name]
    while pending:
        name = pending.pop()
        for statement in tree.body:
            if name in _bound(statement):
                new = read_names(statement) - needed
                needed |= new
                pending += new
    tree.body = [statement for statement in tree.body if _bound(statement) & needed]
    parameters = tuple(p for p in kernel.parameters if p.name in used)
    return replace(kernel, definitions=_text(tree), parameters=parameters)


def _function(tree: ast.Module, name: str) -> ast.FunctionDef:
    return next(function for function in _functions(tree) if function.name == name)


def _text(tree: ast.Module) -> str:
    """Return the text of a module, with empty lines around functions."""
    parts: list[str] = []
    for statement in tree.body:
        is_definition = isinstance(statement, (ast.FunctionDef, ast.ClassDef))
        text = ast.unparse(ast.fix_missing_locations(statement))
        parts.append(f"\n\n{text}\n" if is_definition else text)
    return "\n".join(parts) + "\n"


# ---- edits


def _edited(kernel: StandaloneKernel, edits: _Edits) -> Iterator[StandaloneKernel]:
    tree = ast.parse(kernel.definitions)
    for _ in edits(tree):
        yield replace(kernel, definitions=_text(tree))


def _blocks_of(node: ast.AST) -> list[list[ast.stmt]]:
    """Return a statement's non-empty blocks as lists that can be changed in place."""
    names = ("body", "orelse", "finalbody")
    blocks = [getattr(node, name, None) for name in names]
    return [b for b in blocks if isinstance(b, list) and b and isinstance(b[0], ast.stmt)]


def _all_blocks(tree: ast.Module) -> Iterator[list[ast.stmt]]:
    """Yield the blocks of all functions, starting with the kernel's; outer blocks come first."""
    for function in reversed(_functions(tree)):
        for node in ast.walk(function):
            yield from _blocks_of(node)


def _with(items: list[ast.stmt], start: int, end: int, new: list[ast.stmt]) -> Iterator[None]:
    """Yield once while a part of a block is replaced."""
    before = items[:]
    items[start:end] = new
    if not items:
        items.append(ast.Pass())
    yield
    items[:] = before


def _without_statements(tree: ast.Module) -> Iterator[None]:
    blocks = list(_all_blocks(tree))
    for divisor in (1, 2, 4, 8):
        for block in blocks:
            count = len(block) // divisor
            if count > 1 or divisor == 1:
                for start in range(len(block) - count, -1, -count):
                    yield from _with(block, start, start + count, [])
    for block in blocks:
        if len(block) > 1:
            for start in range(len(block) - 1, -1, -1):
                yield from _with(block, start, start + 1, [])


def _flattened(tree: ast.Module) -> Iterator[None]:
    """Replace loops and branches by their bodies, and assignments by their values."""
    for block in list(_all_blocks(tree)):
        for index, statement in enumerate(block[:]):
            for body in _bodies(statement):
                yield from _with(block, index, index + 1, body)


def _bodies(statement: ast.stmt) -> Iterator[list[ast.stmt]]:
    if isinstance(statement, ast.For):
        yield [_first_iteration(statement), *statement.body]
    elif isinstance(statement, (ast.If, ast.While, ast.With)):
        yield statement.body
    if isinstance(statement, ast.If) and statement.orelse:
        yield statement.orelse
    if isinstance(statement, (ast.Assign, ast.AugAssign, ast.AnnAssign)) and statement.value:
        yield [ast.Expr(statement.value)]


def _first_iteration(loop: ast.For) -> ast.stmt:
    """Return a statement that assigns the first value of the loop to the loop variable."""
    arguments = loop.iter.args if isinstance(loop.iter, ast.Call) else []
    start = arguments[0] if len(arguments) > 1 else ast.Constant(0)
    return ast.Assign([copy.deepcopy(loop.target)], copy.deepcopy(start), lineno=0)


def _expression_slots(tree: ast.Module) -> Iterator[tuple[ast.AST, str, int | None]]:
    """Yield node, field and index of each expression in the functions, outer ones first.

    Names that are called and targets of assignments are omitted.
    """
    for function in reversed(_functions(tree)):
        for statement in function.body:
            for node in ast.walk(statement):
                for field, value in ast.iter_fields(node):
                    if isinstance(node, ast.Call) and field == "func":
                        continue
                    if isinstance(value, ast.expr) and _is_read(value):
                        yield node, field, None
                    elif isinstance(value, list):
                        for index, item in enumerate(value):
                            if isinstance(item, ast.expr) and _is_read(item):
                                yield node, field, index


def _is_read(node: ast.expr) -> bool:
    return isinstance(getattr(node, "ctx", ast.Load()), ast.Load)


def _slot(node: ast.AST, field: str, index: int | None) -> ast.expr:
    value = getattr(node, field)
    expression: ast.expr = value if index is None else value[index]
    return expression


def _put(node: ast.AST, field: str, index: int | None, new: ast.expr) -> None:
    if index is None:
        setattr(node, field, new)
    else:
        getattr(node, field)[index] = new


def _simpler_expressions(tree: ast.Module) -> Iterator[None]:
    for node, field, index in list(_expression_slots(tree)):
        before = _slot(node, field, index)
        for new in _replacements(before):
            _put(node, field, index, new)
            yield
        _put(node, field, index, before)


def _replacements(expression: ast.expr) -> Iterator[ast.expr]:
    """Yield candidates to replace an expression: its parts, and constants."""
    if isinstance(expression, (ast.Constant, ast.Slice, ast.JoinedStr, ast.Starred)):
        return
    for child in ast.iter_child_nodes(expression):
        if isinstance(child, ast.keyword):
            child = child.value
        if isinstance(child, ast.Attribute) and isinstance(expression, ast.Call):
            child = child.value  # `a.to(x)` becomes `a`
        if isinstance(child, ast.expr) and _is_read(child) and not isinstance(child, ast.Slice):
            yield child
    if not isinstance(expression, ast.Attribute):
        yield from map(ast.Constant, _VALUES)


def _fewer_arguments(tree: ast.Module) -> Iterator[None]:
    """Remove arguments of calls, and elements of tuples and lists."""
    for function in reversed(_functions(tree)):
        for node in ast.walk(ast.Module(function.body, [])):
            for field in ("keywords", "args", "elts"):
                items = getattr(node, field, None)
                if not isinstance(items, list) or not _is_read_or_call(node):
                    continue
                for index in range(len(items) - 1, -1, -1):
                    removed = items.pop(index)
                    yield
                    items.insert(index, removed)


def _is_read_or_call(node: ast.AST) -> bool:
    return isinstance(node, ast.expr) and _is_read(node)


def _smaller_constants(tree: ast.Module) -> Iterator[None]:
    for function in reversed(_functions(tree)):
        for node in ast.walk(ast.Module(function.body, [])):
            if isinstance(node, ast.Constant):
                before = node.value
                for value in _smaller(before):
                    node.value = value
                    yield
                node.value = before


def _smaller(value: object) -> Iterator[int]:
    if type(value) is int and value > 0:
        yield from (n for n in dict.fromkeys((*_SMALL_INTEGERS, value // 2)) if n < value)


def _inlined_variables(tree: ast.Module) -> Iterator[None]:
    """Replace a variable that is assigned once with its value, if it is read once or is short."""
    for block in list(_all_blocks(tree)):
        for index, statement in enumerate(block[:]):
            if not isinstance(statement, ast.Assign) or len(statement.targets) != 1:
                continue
            target, value = statement.targets[0], statement.value
            if not isinstance(target, ast.Name):
                continue
            function = next(f for f in _functions(tree) if _contains(f, statement))
            nodes = [n for n in ast.walk(function) if isinstance(n, ast.Name) and n.id == target.id]
            reads = [n for n in nodes if isinstance(n.ctx, ast.Load)]
            is_short = isinstance(value, (ast.Name, ast.Constant))
            if len(nodes) - len(reads) > 1 or not reads or not (len(reads) == 1 or is_short):
                continue
            slots = [s for s in _expression_slots(tree) if any(_slot(*s) is n for n in reads)]
            if len(slots) < len(reads):
                continue
            before = [_slot(*slot) for slot in slots]
            for slot in slots:
                _put(*slot, copy.deepcopy(value))
            yield from _with(block, index, index + 1, [])
            for slot, name in zip(slots, before, strict=True):
                _put(*slot, name)


def _contains(function: ast.FunctionDef, node: ast.AST) -> bool:
    return any(inner is node for inner in ast.walk(function))


class _Substitution(ast.NodeTransformer):
    """Replaces names in `values` with expressions, and names in `renamed` with other names."""

    def __init__(self, values: Mapping[str, ast.expr], renamed: Mapping[str, str]) -> None:
        self._values, self._renamed = values, renamed

    def visit_Name(self, node: ast.Name) -> ast.AST:
        if isinstance(node.ctx, ast.Load) and node.id in self._values:
            return copy.deepcopy(self._values[node.id])
        node.id = self._renamed.get(node.id, node.id)
        return node


def _inlined_functions(tree: ast.Module) -> Iterator[None]:
    """Replace calls of functions without branches by the bodies of the functions."""
    functions = {function.name: function for function in _functions(tree)}
    for node, field, index in list(_expression_slots(tree)):
        call = _slot(node, field, index)
        function = _called(call, functions)
        if function is None or len(function.body) != 1:
            continue
        body = copy.deepcopy(function.body[0])
        values = _argument_values(call, function)
        if values is not None and isinstance(body, ast.Return) and body.value is not None:
            _put(node, field, index, _Substitution(values, {}).visit(body.value))
            yield
            _put(node, field, index, call)
    for block in list(_all_blocks(tree)):
        for index, statement in enumerate(block[:]):
            if not isinstance(statement, (ast.Assign, ast.Expr)):
                continue
            new = _inlined_call(statement, functions)
            if new is not None:
                yield from _with(block, index, index + 1, new)


def _called(node: ast.AST, functions: Mapping[str, ast.FunctionDef]) -> ast.FunctionDef | None:
    """Return the function that an expression calls; None if it is none of the given functions."""
    is_named = isinstance(node, ast.Call) and isinstance(node.func, ast.Name)
    return functions.get(node.func.id) if is_named else None  # type: ignore[attr-defined]


def _argument_values(call: ast.expr, function: ast.FunctionDef) -> dict[str, ast.expr] | None:
    """Return the value of each parameter; None if the call cannot be resolved."""
    assert isinstance(call, ast.Call)
    parameters = [argument.arg for argument in (*function.args.posonlyargs, *function.args.args)]
    defaults = function.args.defaults
    values = dict(zip(parameters[len(parameters) - len(defaults) :], defaults, strict=True))
    values |= dict(zip(parameters, call.args, strict=False))
    values |= {keyword.arg: keyword.value for keyword in call.keywords if keyword.arg}
    names = [argument.arg for argument in _arguments_of(function)]
    starred = any(isinstance(argument, ast.Starred) for argument in call.args)
    return None if starred or set(values) != set(names) else values


def _inlined_call(
    statement: ast.Assign | ast.Expr, functions: Mapping[str, ast.FunctionDef]
) -> list[ast.stmt] | None:
    """Return the statements of a function, adapted to replace a call of it; None if that fails."""
    function = _called(statement.value, functions)
    if function is None:
        return None
    values = _argument_values(statement.value, function)
    body = copy.deepcopy(function.body)
    last = body[-1]
    returns = [n for s in body for n in ast.walk(s) if isinstance(n, ast.Return)]
    if values is None or any(node is not last for node in returns):
        return None
    assigned = assigned_names(ast.Module(body, []))
    substitution = _Substitution(
        {name: value for name, value in values.items() if name not in assigned},
        {name: f"{function.name}_{name}" for name in assigned},
    )
    starts: list[ast.stmt] = [
        ast.Assign([ast.Name(f"{function.name}_{name}", ast.Store())], value, lineno=0)
        for name, value in values.items()
        if name in assigned
    ]
    new = [*starts, *(substitution.visit(inner) for inner in body)]
    if isinstance(last, ast.Return):
        new.pop()
        if last.value is not None and isinstance(statement, ast.Assign):
            new.append(ast.Assign(copy.deepcopy(statement.targets), last.value, lineno=0))
        elif last.value is not None:
            new.append(ast.Expr(last.value))
    return new


def _fewer_helper_parameters(tree: ast.Module) -> Iterator[None]:
    """Remove parameters of functions that the kernel calls, and the corresponding arguments."""
    for function in _functions(tree)[:-1]:
        signature = function.args
        for index in reversed(range(len(signature.args))):
            functions = {function.name: function}
            nodes = (node for node in ast.walk(tree) if _called(node, functions) is function)
            calls = [node for node in nodes if isinstance(node, ast.Call)]
            before = [(call, call.args[:], call.keywords[:]) for call in calls]
            arguments, defaults = signature.args[:], signature.defaults[:]
            first = len(arguments) - len(defaults)
            removed = signature.args.pop(index)
            if index >= first:
                del signature.defaults[index - first]
            for call in calls:
                del call.args[index : index + 1]
                call.keywords = [k for k in call.keywords if k.arg != removed.arg]
            yield
            signature.args, signature.defaults = arguments, defaults
            for call, positional, keywords in before:
                call.args, call.keywords = positional, keywords


# ---- specialisation


def _fewer_options(kernel: StandaloneKernel) -> Iterator[StandaloneKernel]:
    """Remove launch options and attributes of parameters, all at once and one by one."""
    if kernel.options:
        yield replace(kernel, options=())
    if any(parameter.hints for parameter in kernel.parameters):
        bare = tuple(replace(parameter, hints=()) for parameter in kernel.parameters)
        yield replace(kernel, parameters=bare)
    for index in reversed(range(len(kernel.options))):
        before, after = kernel.options[:index], kernel.options[index + 1 :]
        yield replace(kernel, options=(*before, *after))
        name, text = kernel.options[index]
        for value in filter(None, _smaller(_integer(text))):
            yield replace(kernel, options=(*before, (name, str(value)), *after))
    for index, parameter in enumerate(kernel.parameters):
        if parameter.hints:
            yield _with_parameter(kernel, index, replace(parameter, hints=()))


def _with_parameter(kernel: StandaloneKernel, index: int, parameter: Parameter) -> StandaloneKernel:
    parameters = kernel.parameters
    return replace(kernel, parameters=(*parameters[:index], parameter, *parameters[index + 1 :]))


def _inlined_constants(kernel: StandaloneKernel) -> Iterator[StandaloneKernel]:
    """Write the values of constant parameters into the kernel."""
    for parameter in kernel.parameters:
        if len(parameter.constants) != 1 or parameter.constants[0][0] != ():
            continue
        text = parameter.constants[0][1]
        tree = ast.parse(kernel.definitions)
        main = _function(tree, kernel.name)
        value = ast.parse(text, mode="eval").body
        if parameter.name not in assigned_names(ast.Module(main.body, [])):
            substitution = _Substitution({parameter.name: value}, {})
            main.body = [substitution.visit(statement) for statement in main.body]
            yield replace(kernel, definitions=_text(tree))


def _smaller_parameters(kernel: StandaloneKernel) -> Iterator[StandaloneKernel]:
    for index, parameter in enumerate(kernel.parameters):
        for path, text in parameter.constants:
            for value in _smaller(_integer(text)):
                others = (entry for entry in parameter.constants if entry[0] != path)
                changed = replace(parameter, constants=(*others, (path, str(value))))
                yield _with_parameter(kernel, index, changed)


def _unchanged(kernel: StandaloneKernel) -> Iterator[StandaloneKernel]:
    """Yield the kernel itself, to remove its unused parts like those of each candidate."""
    yield kernel


def _editing(edits: _Edits) -> Step:
    return lambda kernel: _edited(kernel, edits)


#: Reductions by kind; the more effective ones come first.
STEPS: tuple[Step, ...] = (
    _unchanged,
    _fewer_options,
    _editing(_without_statements),
    _editing(_flattened),
    _editing(_inlined_functions),
    _inlined_constants,
    _editing(_simpler_expressions),
    _editing(_fewer_arguments),
    _editing(_inlined_variables),
    _editing(_fewer_helper_parameters),
)
#: Reduction steps for numbers, which turn an endless compilation into a finite one.
NUMBER_STEPS: tuple[Step, ...] = (_smaller_parameters, _editing(_smaller_constants))
