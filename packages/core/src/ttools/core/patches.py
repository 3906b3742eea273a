"""Temporary replacements of attributes of third-party classes and modules.

All replacements of attributes of Triton, torch and Python go through `Patches`. Replacements of one
attribute form a stack, in which each replacement is made from the value beneath it. They may be
undone in any order. When one is undone, those above it are made again from the value beneath it, so
that an undone replacement is never called and adds no cost to later calls.

Third-party code may replace the same attributes. A third-party replacement on top of one of ours is
never removed: if ours is undone, the attribute keeps its value, and new replacements go on top of
it. The third-party replacement then still calls our undone function. If third-party code later
restores this function as the value of the attribute, the function is removed at the next change of
the attribute.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from contextlib import AbstractContextManager, ExitStack
from dataclasses import dataclass
from typing import Any

#: A function that makes the replacement from the current value of the attribute.
Make = Callable[[Any], Any]

_ABSENT = object()


class Patches:
    """A context manager for a set of replacements that are undone together.

    It may be entered several times, even by several threads; the last exit undoes everything. If
    `install` raises an exception, the replacements that it has made so far are undone.

    Args:
        install: Called with this object on first entry, to add the replacements.

    Examples:
        >>> with Patches() as patches:
        ...     patches.wrap(JITFunction, "run", lambda run: logged(run))
    """

    def __init__(self, install: Callable[[Patches], object] | None = None) -> None:
        self._install = install
        self._lock = threading.RLock()
        self._entered = 0
        self._installed = ExitStack()

    def __enter__(self) -> Patches:
        with self._lock:
            if self._entered == 0 and self._install is not None:
                try:
                    self._install(self)
                except BaseException:
                    self.undo()
                    raise
            self._entered += 1
        return self

    def __exit__(self, *_: object) -> None:
        with self._lock:
            self._entered -= 1
            if self._entered == 0:
                self.undo()

    def wrap(self, owner: Any, name: str, make: Make) -> None:
        """Replace an attribute by `make(current value)`.

        Args:
            owner: A class, module or other object.
            name: Name of the attribute, which may be inherited.
            make: Function to call with the value that `getattr(owner, name)` has without this
                replacement. It is called again whenever a replacement beneath this one is undone.

        Raises:
            AttributeError: The object has no such attribute.
        """
        getattr(owner, name)
        self._add(owner, name, make)

    def replace(self, owner: Any, name: str, value: Any) -> None:
        """Set an attribute to a value, whether or not it exists."""
        self._add(owner, name, lambda _: value)

    def callback(self, undo: Callable[[], object]) -> None:
        """Register a function to call when the replacements are undone, in reverse order."""
        self._installed.callback(undo)

    def enter(self, context: AbstractContextManager[object]) -> None:
        """Enter a context, and leave it when the replacements are undone.

        Contexts are left and replacements are undone in the reverse order of their addition.
        """
        self._installed.enter_context(context)

    def undo(self) -> None:
        """Undo everything, latest first, regardless of how often the object was entered."""
        self._installed.pop_all().close()

    def _add(self, owner: Any, name: str, make: Make) -> None:
        layer = _Layer(make)
        with _lock:
            key = id(owner), name
            attribute = _attributes.get(key)
            if attribute is None:
                attribute = _attributes[key] = _Attribute(owner, name)
            try:
                attribute.add(layer)
            finally:
                _forget_unused(attribute)
        self._installed.callback(_remove, attribute, layer)


def _remove(attribute: _Attribute, layer: _Layer) -> None:
    with _lock:
        attribute.remove(layer)
        _forget_unused(attribute)


def _forget_unused(attribute: _Attribute) -> None:
    if attribute.is_unused:
        del _attributes[id(attribute.owner), attribute.name]


@dataclass(eq=False)
class _Layer:
    """One replacement of an attribute.

    Attributes:
        make: Function that makes the replacement from the value beneath it.
        value: The replacement as stored in the owner's dictionary.
        is_ours: False if third-party code installed the replacement.
        covers: For a third-party replacement, our value beneath it, which the third-party code may
            restore later.
    """

    make: Make
    value: Any = None
    is_ours: bool = True
    covers: Any = _ABSENT


class _Attribute:
    """An attribute with its stack of replacements, both ours and those of third-party code."""

    def __init__(self, owner: Any, name: str) -> None:
        self.owner, self.name = owner, name  # the reference keeps the owner's `id` unique
        self._inherited = getattr(owner, name, None)
        self._base = self._current = self._present()
        self._layers: list[_Layer] = []

    @property
    def is_unused(self) -> bool:
        """Return whether the attribute needs no further tracking."""
        return not any(layer.is_ours or layer.covers is not _ABSENT for layer in self._layers)

    def add(self, layer: _Layer) -> None:
        self._notice_foreign_changes()
        self._layers.append(layer)
        try:
            self._make_from(len(self._layers) - 1)
        except BaseException:
            self._layers.pop()
            raise

    def remove(self, layer: _Layer) -> None:
        self._notice_foreign_changes()
        index = self._layers.index(layer)
        del self._layers[index]
        self._make_from(index)

    def _notice_foreign_changes(self) -> None:
        present = self._present()
        if present is self._current:
            return
        for index, layer in enumerate(self._layers):
            if layer.covers is present is not _ABSENT:
                # Third-party code has restored the value beneath its replacement, and thereby
                # removed all replacements above that value.
                self._layers[index:] = [upper for upper in self._layers[index:] if upper.is_ours]
                self._make_from(index)
                return
        covers = self._current if self._layers and self._layers[-1].is_ours else _ABSENT
        self._layers.append(_Layer(lambda _: present, present, is_ours=False, covers=covers))
        self._current = present

    def _make_from(self, index: int) -> None:
        """Recreate the layers from `index` upwards, and install the topmost one."""
        value = self._layers[index - 1].value if index else self._base
        for layer in self._layers[index:]:
            value = layer.value = layer.make(self._as_read(value))
        if value is not self._present():
            if value is _ABSENT:
                delattr(self.owner, self.name)
            else:
                setattr(self.owner, self.name, value)
        self._current = value

    def _present(self) -> Any:
        try:
            return vars(self.owner).get(self.name, _ABSENT)
        except TypeError:  # an object without a dictionary
            return getattr(self.owner, self.name, _ABSENT)

    def _as_read(self, value: Any) -> Any:
        """Return what `getattr` would return if the owner's `__dict__` held `value`."""
        if value is _ABSENT:
            return self._inherited
        if isinstance(self.owner, type) and hasattr(type(value), "__get__"):
            return type(value).__get__(value, None, self.owner)
        return value


_lock = threading.RLock()
#: Attributes that are currently replaced, by `id` of the owner and name.
_attributes: dict[tuple[int, str], _Attribute] = {}
