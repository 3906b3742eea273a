"""The source of Triton functions with everything that it refers to, as the text of one file.

Functions, classes and constants of the user and of installed packages are copied. Modules,
functions and classes of Triton, torch, NumPy and the standard library are imported. If a name
denotes different objects in different modules, the objects get different names. `helpers.scale`
becomes `scale`. Otherwise, the source is unchanged, including its comments.
"""

from __future__ import annotations
import __future__ as future

import ast
import builtins
import enum
import inspect
import keyword
import math
import re
import sys
import textwrap
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from types import BuiltinFunctionType, FunctionType, ModuleType
from typing import Any

from ttools.core.errors import UnsupportedError
from ttools.core.ownership import Owner, owner_of_class, owner_of_function, owner_of_module
from ttools.core.syntax_trees import assigned_names
from ttools.core.triton_versions import constexpr_function_class, jit_function_class

#: Owners of code that a script imports; code of other owners is copied.
_IMPORTED: frozenset[Owner] = frozenset({"triton", "torch", "numpy", "python"})
_RESERVED = {"triton": "triton", "tl": "triton.language", "torch": "torch"}
#: Characters that enclose the number of a definition in text whose names are still to be chosen.
#: These characters are private in Unicode, so source text does not contain them.
_OPEN, _CLOSE = "\ue000", "\ue001"
_PLACEHOLDER = re.compile(f"{_OPEN}(\\d+){_CLOSE}")
_AS_ITSELF = re.compile(r"import (\w+) as \1$")
_SPECIALISATION = ("do_not_specialize", "do_not_specialize_on_alignment")


@dataclass
class _Definition:
    """A name that the generated file binds.

    Attributes:
        wanted: The name by which the source refers to the object, if no other definition has that
            name.
        is_fixed: True if the source cannot be changed to use another name.
        plain: The names by which source refers to the object, without the module in front.
        is_qualified: True if source refers to the object as an attribute of a module.
        text: The statement that binds the name, with placeholders for names.
        is_import: True if the statement is an import.
        is_block: True if the statement is a function or a class.
        keeps: The object itself, so that its `id` stays unique.
    """

    wanted: str
    is_fixed: bool = False
    plain: set[str] = field(default_factory=set)
    is_qualified: bool = False
    text: str = ""
    is_import: bool = False
    is_block: bool = False
    keeps: Any = None

    @property
    def is_exact(self) -> bool:
        """Return whether all source refers to the object by the wanted name, without a module."""
        return self.plain == {self.wanted} and not self.is_qualified


class SourceClosure:
    """Collects functions and values, with everything that they refer to.

    Args:
        reserved: Names that the file binds itself.
        keep_globals: True if constants to which kernels refer stay unchanged. By default, constants
            that are not declared as `tl.constexpr` get this declaration, because Triton rejects
            them otherwise, unless an environment variable allows them.
    """

    def __init__(self, reserved: Sequence[str] = (), *, keep_globals: bool = False) -> None:
        self._reserved = frozenset(reserved)
        self._keep_globals = keep_globals
        self._definitions: list[_Definition] = []
        self._numbers: dict[object, int] = {}
        #: Numbers of complete definitions; a definition comes after those that it refers to.
        self._order: list[int] = []
        self._locals: set[str] = set()
        for name, module in _RESERVED.items():
            if module in sys.modules:  # source that refers to a module has imported it
                definition = self._definitions[self._import(sys.modules[module], name)]
                definition.is_fixed = True

    def copy(self) -> SourceClosure:
        """Return a copy, which is used for an addition that may fail half-way."""
        other = SourceClosure(tuple(self._reserved), keep_globals=self._keep_globals)
        other._definitions = [replace(item, plain=set(item.plain)) for item in self._definitions]
        other._numbers, other._order = dict(self._numbers), list(self._order)
        other._locals = set(self._locals)
        return other

    def expression(self, value: Any, what: str) -> str:
        """Return an expression for a value, with placeholders, and collect what it refers to.

        Args:
            what: Description of the value for messages, such as "argument `mode`".

        Raises:
            UnsupportedError: No expression for the value is known.
        """
        return _Expressions(self, what).of(value)

    def reference(self, function: Any) -> str:
        """Return a placeholder for the name of a function or class, and collect its source.

        Raises:
            UnsupportedError: The source is not known, or refers to something that cannot be written
                as source.
        """
        name = str(function.__name__)
        number = self._object(function, name, f"`{name}`")
        self._definitions[number].plain.add(name)
        return _placeholder(number)

    def kernel(self, function: Any) -> str:
        """Return a placeholder for the name of a jit function, whose source is always copied.

        Kernels that TorchInductor writes belong to torch, but cannot be imported.

        Raises:
            UnsupportedError: The source refers to something that cannot be written as source.
        """
        if id(function) not in self._numbers:
            self._copy(function, f"`{function.__name__}`")
        return self.reference(function)

    def module(self, name: str) -> str:
        """Return a placeholder for the name of `torch`, `triton` or `triton.language`."""
        short = next(short for short, module in _RESERVED.items() if module == name)
        return _placeholder(self._numbers[name, short])

    def texts(self, *texts: str) -> tuple[str, str, list[str]]:
        """Choose names, and return the parts of a file.

        Args:
            texts: Source texts that contain placeholders.

        Returns:
            The imports, the definitions in an order in which they can be executed, and `texts`
            with names in place of placeholders.

        Raises:
            UnsupportedError: Two objects need the same name.
        """
        names = self.names()

        def named(text: str) -> str:
            return _PLACEHOLDER.sub(lambda found: names[int(found[1])], text)

        ordered = [self._definitions[number] for number in self._order]
        imports = sorted(
            _AS_ITSELF.sub(r"import \1", named(item.text)) for item in ordered if item.is_import
        )
        lines: list[str] = []
        for item in ordered:
            if not item.is_import:
                gap = ["", ""] if lines and (item.is_block or lines[-1] == _BLOCK_END) else []
                lines = [line for line in lines if line != _BLOCK_END]
                lines += [*gap, named(item.text), *([_BLOCK_END] if item.is_block else [])]
        body = "\n".join(line for line in lines if line != _BLOCK_END)
        return "\n".join(imports), body, [named(text) for text in texts]

    # ---- names

    def names(self) -> dict[int, str]:
        """Return the names of the definitions by their numbers.

        Raises:
            UnsupportedError: Two objects need the same name.
        """
        names: dict[int, str] = {}
        taken: set[str] = set(self._reserved)
        fixed = [n for n in self._order if self._definitions[n].is_fixed]
        for number in fixed:
            wanted = self._definitions[number].wanted
            if wanted in taken:
                raise UnsupportedError(
                    f"two objects are called `{wanted}`, and an f-string refers to one of them; "
                    "rename one"
                )
            taken.add(wanted)
            names[number] = wanted
        rest = [number for number in self._order if number not in names]
        for number in sorted(rest, key=lambda number: not self._definitions[number].is_exact):
            name = next(n for n in self._candidates(number) if n not in taken)
            taken.add(name)
            names[number] = name
        return names

    def _candidates(self, number: int) -> Iterator[str]:
        definition = self._definitions[number]
        wanted = definition.wanted
        # In a function with a local variable of this name, the name would not refer to the
        # definition.
        is_free = not keyword.iskeyword(wanted) and not hasattr(builtins, wanted)
        if is_free and (definition.is_exact or wanted not in self._locals):
            yield wanted
        for count in range(2, sys.maxsize):
            if (name := f"{wanted}_{count}") not in self._locals:
                yield name

    # ---- definitions

    def resolve(
        self, value: Any, names: Sequence[str], what: str, *, in_kernel: bool, is_fixed: bool
    ) -> tuple[str, int]:
        """Return a placeholder for the object that a dotted name denotes.

        Args:
            value: The value of the first part of the name.
            names: The parts of the dotted name.
            what: Description of the object for messages.
            in_kernel: True if the name occurs in compiled source, where constants need
                `tl.constexpr`.
            is_fixed: True if the source cannot be changed to use another name.

        Returns:
            The placeholder, and the number of parts that it replaces.
        """
        first, count = 0, 1
        while count < len(names) and (
            _is_copied_module(value) or (in_kernel and _is_enumeration(value))
        ):
            if isinstance(value, ModuleType):
                first = count
            try:
                value = getattr(value, names[count])
            except AttributeError as error:
                raise UnsupportedError(f"{what} refers to {'.'.join(names)}: {error}") from None
            count += 1
        name = "_".join(names[first:count])
        what = f"{what} refers to `{'.'.join(names[:count])}`, which"
        number = self._object(value, name, what, in_kernel=in_kernel)
        definition = self._definitions[number]
        if count > 1:
            definition.is_qualified = True
        else:
            definition.plain.add(name)
        if is_fixed:
            if count > 1 or (definition.is_fixed and definition.wanted != name):
                raise UnsupportedError(f"{what} is read in an f-string; assign it to a variable")
            definition.is_fixed, definition.wanted = True, name
        return _placeholder(number), count

    def _object(self, value: Any, name: str, what: str, *, in_kernel: bool = False) -> int:
        if isinstance(value, ModuleType):
            if _is_copied_module(value):
                raise UnsupportedError(
                    f"{what} is a module, which cannot be copied to the script; import its "
                    "functions by name"
                )
            return self._import(value, name)
        if _is_definable(value):
            if (number := self._numbers.get(id(value))) is not None:
                return number
            owner = owner_of_class(value) if isinstance(value, type) else owner_of_function(value)
            if owner in _IMPORTED:
                return self._import_member(value, name, what)
            return self._copy(value, what)
        text = self.expression(value, what)
        if in_kernel and not self._keep_globals and _needs_constexpr(value):
            text = f"{self.module('triton.language')}.constexpr({text})"
        return self._define(("value", name, text), name, f"{{}} = {text}")

    def _define(self, key: object, name: str, template: str, *, is_import: bool = False) -> int:
        if key in self._numbers:
            return self._numbers[key]
        number = self._new(key, name)
        definition = self._definitions[number]
        definition.text = template.replace("{}", _placeholder(number), 1)
        definition.is_import = is_import
        self._order.append(number)
        return number

    def _new(self, key: object, name: str, keeps: Any = None) -> int:
        self._definitions.append(_Definition(wanted=name, keeps=keeps))
        self._numbers[key] = len(self._definitions) - 1
        return len(self._definitions) - 1

    def _import(self, module: ModuleType, name: str) -> int:
        whole = module.__name__
        return self._define((whole, name), name, f"import {whole} as {{}}", is_import=True)

    def _import_member(self, value: Any, name: str, what: str) -> int:
        module, member = str(value.__module__), str(value.__name__)
        if getattr(sys.modules.get(module), member, None) is not value:
            raise UnsupportedError(f"{what} is not the function `{member}` of module {module}")
        text = f"from {module} import {member} as {{}}"
        return self._define(("member", module, member, name), name, text, is_import=True)

    def _copy(self, value: Any, what: str) -> int:
        number = self._new(id(value), str(value.__name__), value)
        source = _Source.of(value, what)
        definition = self._definitions[number]
        definition.text = self._rewritten(source, number, f"`{value.__name__}`")
        definition.is_block = True
        self._order.append(number)
        return number

    def _rewritten(self, source: _Source, number: int, what: str) -> str:
        visitor = _References(self, source, what)
        (statement,) = visitor.tree.body
        visitor.visit(statement)
        self._locals |= visitor.every_local
        text = _replaced(source.text, [*visitor.changes, (*visitor.name_span(), number)])
        return source.decorator + text.rstrip("\n")


#: In a list of lines, marks the end of a function or class, which two blank lines follow.
_BLOCK_END = "\ue002"


def _placeholder(number: int) -> str:
    return f"{_OPEN}{number}{_CLOSE}"


def _is_copied_module(value: Any) -> bool:
    return isinstance(value, ModuleType) and owner_of_module(value) not in _IMPORTED


def _triton_functions() -> tuple[type, ...]:
    return jit_function_class(), constexpr_function_class()


def _is_definable(value: Any) -> bool:
    """Return whether a value is a function or class, which is defined by its source."""
    return isinstance(value, (FunctionType, BuiltinFunctionType, type, *_triton_functions()))


def _needs_constexpr(value: Any) -> bool:
    is_plain = value is None or type(value) in (bool, int, float, str, tuple)
    return is_plain or isinstance(value, enum.Enum)


def _is_enumeration(value: Any) -> bool:
    """Return whether a value is an enumeration or a member of one.

    Compiled source may read an enumeration's attributes through a module, but not from a global
    class.
    """
    return isinstance(value, (enum.Enum, enum.EnumMeta))


@dataclass(frozen=True, kw_only=True)
class _Source:
    """The source of a function or a class.

    Attributes:
        text: Source without indentation, and without the decorators that `decorator` replaces.
        decorator: Line in front of `text`; empty if `text` contains the decorators.
        scope: Values of the global and nonlocal names.
        is_kernel: True if Triton compiles the source.
        postponed: True if annotations are strings (`from __future__ import annotations`).
    """

    text: str
    decorator: str
    scope: Mapping[str, Any]
    is_kernel: bool
    postponed: bool

    @staticmethod
    def of(value: Any, what: str) -> _Source:
        """Return the source of a function or class.

        Raises:
            UnsupportedError: The source is not known.
        """
        if isinstance(value, _triton_functions()):
            function: Any = value
            return _Source(
                text=function.src,
                decorator=_decorator(function),
                scope=_scope(function.fn),
                is_kernel=isinstance(function, jit_function_class()),
                postponed=_postpones(function.fn.__code__.co_flags),
            )
        try:
            text = textwrap.dedent(inspect.getsource(value))
        except (OSError, TypeError):
            raise UnsupportedError(f"{what} has no source in a file") from None
        if isinstance(value, type):
            scope = vars(sys.modules[value.__module__])
            postponed = scope.get("annotations") is future.annotations
        else:
            scope, postponed = _scope(value), _postpones(value.__code__.co_flags)
        return _Source(text=text, decorator="", scope=scope, is_kernel=False, postponed=postponed)


def _postpones(flags: int) -> bool:
    return bool(flags & future.annotations.compiler_flag)


def _scope(function: FunctionType) -> dict[str, Any]:
    cells = function.__closure__ or ()
    nonlocals = {}
    for name, cell in zip(function.__code__.co_freevars, cells, strict=True):
        try:
            nonlocals[name] = cell.cell_contents
        except ValueError:  # the variable was never assigned
            continue
    return {**function.__globals__, **nonlocals}


def _decorator(function: Any) -> str:
    if not isinstance(function, jit_function_class()):
        return "@triton.constexpr_function\n"
    options = {name: getattr(function, name, None) for name in (*_SPECIALISATION, "noinline")}
    if getattr(function, "debug", None):
        options["debug"] = True
    words = ", ".join(f"{name}={_plain(v)}" for name, v in options.items() if v)
    return f"@triton.jit({words})\n" if words else "@triton.jit\n"


def _plain(value: Any) -> str:
    return repr(list(value) if isinstance(value, (tuple, set, frozenset)) else value)


class _References(ast.NodeVisitor):
    """Finds the names in a function or class that refer to objects outside it.

    Attributes:
        changes: Parts of the text to replace, each with the definition whose name replaces it.
        every_local: Names of all local variables.
    """

    def __init__(self, closure: SourceClosure, source: _Source, what: str) -> None:
        self._closure, self._source, self._what = closure, source, what
        self.tree = ast.parse(source.text)
        self.changes: list[tuple[int, int, int | str]] = []
        self._starts = _line_starts(source.text)
        self._in_f_string = False
        self._is_compiled = source.is_kernel
        self.every_local = _locals(self.tree)
        self._hidden: set[str] = self.every_local
        self._first_assignments = _first_assignments(self.tree)

    def name_span(self) -> tuple[int, int]:
        """Return the position of the name that follows `def` or `class`."""
        (statement,) = self.tree.body
        encoded = self._source.text.encode()
        pattern = re.compile(rb"(?:def|class)\s+(\w+)")
        match = pattern.search(encoded, self._offset(statement.lineno, statement.col_offset))
        assert match is not None
        return match.span(1)

    def visit_FunctionDef(self, node: ast.FunctionDef) -> None:
        """Visit defaults and annotations outside the scope of the function, then its body."""
        outer = self._hidden, self._is_compiled
        if node is self.tree.body[0]:
            self._hidden = set()
        self._is_compiled = False
        arguments = node.args
        every = [*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs]
        every += [a for a in (arguments.vararg, arguments.kwarg) if a is not None]
        annotations = [argument.annotation for argument in every] + [node.returns]
        for part in [*node.decorator_list, *arguments.defaults, *arguments.kw_defaults]:
            if part is not None:
                self.visit(part)
        for annotation in annotations:
            if annotation is not None:
                self._annotation(annotation)
        self._hidden, self._is_compiled = outer
        for statement in node.body:
            self.visit(statement)

    def visit_AnnAssign(self, node: ast.AnnAssign) -> None:
        """Visit an annotated assignment, whose annotation may be postponed."""
        self._annotation(node.annotation)
        self.visit(node.target)
        if node.value is not None:
            self.visit(node.value)

    def _annotation(self, node: ast.expr) -> None:
        if not self._source.postponed:
            self.visit(node)
        elif not isinstance(node, ast.Constant):
            self.changes.append((*self._span(node), repr(ast.unparse(node))))

    def visit_JoinedStr(self, node: ast.JoinedStr) -> None:
        """Visit an f-string; before 3.12, Python reports wrong positions for names in f-strings."""
        outer, self._in_f_string = self._in_f_string, True
        self.generic_visit(node)
        self._in_f_string = outer

    def visit_Attribute(self, node: ast.Attribute) -> None:
        """Visit a dotted name, or an attribute of another expression."""
        chain: list[ast.expr] = [node]
        while isinstance(chain[-1], ast.Attribute):
            chain.append(chain[-1].value)
        root = chain[-1]
        if isinstance(root, ast.Name):
            names = [root.id, *(n.attr for n in chain[-2::-1] if isinstance(n, ast.Attribute))]
            self._refer(names, chain[::-1])
        else:
            self.visit(root)

    def visit_Name(self, node: ast.Name) -> None:
        """Visit a name."""
        if isinstance(node.ctx, ast.Load):
            self._refer([node.id], [node])

    def _refer(self, names: list[str], nodes: Sequence[ast.expr]) -> None:
        if names[0] not in self._source.scope:
            return
        if names[0] in self._hidden and not self._is_read_early(nodes[0]):
            return
        value = self._source.scope[names[0]]
        if getattr(builtins, names[0], self) is value:
            return
        placeholder, count = self._closure.resolve(
            value, names, self._what, in_kernel=self._is_compiled, is_fixed=self._in_f_string
        )
        if not self._in_f_string:
            self.changes.append((*self._span(nodes[count - 1]), placeholder))

    def _is_read_early(self, node: ast.expr) -> bool:
        """Return whether a name is read before the kernel assigns a variable of this name.

        In this case, Triton reads the global, unlike Python: `n = n * 2` is valid if `n` is a
        global.
        """
        end = self._first_assignments.get(getattr(node, "id", ""))
        return self._is_compiled and end is not None and (node.lineno, node.col_offset) < end

    def _span(self, node: ast.expr) -> tuple[int, int]:
        start = self._offset(node.lineno, node.col_offset)
        end_line, end_column = node.end_lineno or node.lineno, node.end_col_offset or 0
        return start, self._offset(end_line, end_column)

    def _offset(self, line: int, column: int) -> int:
        return self._starts[line - 1] + column


def _locals(tree: ast.AST) -> set[str]:
    """Return all names that are bound inside a function or class."""
    names = assigned_names(tree)
    for node in ast.walk(tree):
        if isinstance(node, ast.arg):
            names.add(node.arg)
        elif isinstance(node, ast.ExceptHandler) and node.name:
            names.add(node.name)
        elif isinstance(node, (ast.Import, ast.ImportFrom)):
            names |= {(alias.asname or alias.name).partition(".")[0] for alias in node.names}
    return names


def _first_assignments(tree: ast.AST) -> dict[str, tuple[int, int]]:
    """For each name that only assignments bind, return the end of the first assignment.

    Loop variables and parameters are left out: they hide a global from the start.
    """
    others = {node.arg for node in ast.walk(tree) if isinstance(node, ast.arg)}
    ends: dict[str, tuple[int, int]] = {}
    for node in ast.walk(tree):
        if isinstance(node, (ast.For, ast.comprehension, ast.NamedExpr)):
            others |= assigned_names(node.target)
        elif isinstance(node, (ast.Assign, ast.AnnAssign)):
            end = (node.end_lineno or node.lineno, node.end_col_offset or 0)
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            for name in assigned_names(*targets):
                ends[name] = min(end, ends.get(name, end))
    return {name: end for name, end in ends.items() if name not in others}


def _line_starts(text: str) -> list[int]:
    """Return the offset of each line in UTF-8 bytes, in which syntax trees count columns."""
    starts = [0]
    for line in text.encode().splitlines(keepends=True):
        starts.append(starts[-1] + len(line))
    return starts


def _replaced(text: str, changes: Sequence[tuple[int, int, int | str]]) -> str:
    encoded = text.encode()
    for start, end, new in sorted(changes, key=lambda change: change[:2], reverse=True):
        word = _placeholder(new) if isinstance(new, int) else new
        encoded = encoded[:start] + word.encode() + encoded[end:]
    return encoded.decode()


class _Expressions:
    """Writes values as Python expressions.

    Args:
        closure: Collects the functions and classes to which the expressions refer.
        what: Description of the whole value for messages.
    """

    def __init__(self, closure: SourceClosure, what: str) -> None:
        self._closure, self._what = closure, what

    def of(self, value: Any) -> str:
        """Return the expression of a value.

        Raises:
            UnsupportedError: No expression for the value is known.
        """
        if value is None or isinstance(value, enum.Enum) or _is_definable(value):
            return "None" if value is None else self._named(value)
        if type(value) in (bool, int, str, bytes):
            return repr(value)
        if isinstance(value, float) and type(value) is float:
            return repr(value) if math.isfinite(value) else f"float({str(value)!r})"
        if isinstance(value, (tuple, list, set, dict)):
            return self._collection(value)
        return self._of_library(value)

    def _named(self, value: Any) -> str:
        if isinstance(value, enum.Enum):
            return f"{self._closure.reference(type(value))}.{value.name}"
        return self._closure.reference(value)

    def _collection(self, value: Any) -> str:
        if isinstance(value, dict) and type(value) is dict:
            return "{" + ", ".join(f"{self.of(k)}: {self.of(v)}" for k, v in value.items()) + "}"
        inner = ", ".join(map(self.of, value))
        if isinstance(value, tuple) and hasattr(value, "_fields"):
            return f"{self._closure.reference(type(value))}({inner})"
        if type(value) is tuple:
            return f"({inner},)" if len(value) == 1 else f"({inner})"
        if type(value) is list:
            return f"[{inner}]"
        if type(value) is set and value:
            return f"{{{inner}}}"
        return self._unknown(value)

    def _of_library(self, value: Any) -> str:
        import triton.language as tl

        torch = sys.modules.get("torch")
        if isinstance(value, tl.constexpr):
            return f"{self._closure.module('triton.language')}.constexpr({self.of(value.value)})"
        if torch is not None and isinstance(value, torch.dtype):
            name = str(value).removeprefix("torch.")
            return f"{self._closure.module('torch')}.{name}"
        if isinstance(value, tl.dtype):
            for name in dir(tl):
                if isinstance(other := getattr(tl, name), tl.dtype) and other is value:
                    return f"{self._closure.module('triton.language')}.{name}"
        return self._unknown(value)

    def _unknown(self, value: Any) -> str:
        kind = type(value)
        described = (
            kind.__name__
            if kind.__module__ == "builtins"
            else (f"{kind.__module__}.{kind.__name__}")
        )
        raise UnsupportedError(
            f"{self._what} is or contains an object of type {described}, which cannot be written "
            "in a script"
        )
