"""The members that the results of all packages have in common.

Each result has `passed`, `failures`, `raise_for_failures()` and `to(form)`, and notebooks display
it.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from typing import TYPE_CHECKING, Any, ClassVar, TypeVar

from ttools.core.errors import FailuresError, UsageError
from ttools.core.reports.notebook import (
    ShowsItself,
    framed,
    parts_as_html,
    parts_as_markdown,
    parts_as_text,
)

if TYPE_CHECKING:
    from collections.abc import Sequence


Formats = Mapping[str, Callable[[], str]]
_makers: dict[type, Callable[[Any], Formats]] = {}
_Maker = TypeVar("_Maker", bound=Callable[[Any], Formats])


def formats_of(kind: type[Result]) -> Callable[[_Maker], _Maker]:
    """Register a function that makes the report formats of results of the given type.

    A module that formats results imports their type, so the type cannot import that module.
    """

    def register(maker: _Maker) -> _Maker:
        _makers[kind] = maker
        return maker

    return register


class Result(ShowsItself):
    """A result with a verdict and with reports in several formats.

    Subclasses define the attribute or property `failures`. It is declared here for type checkers
    only, because a dataclass would use an inherited property as the default value of its field.
    """

    #: Title of the frame in which notebooks show the HTML page; empty if they show `_shown`.
    _frame_title: ClassVar[str] = ""

    if TYPE_CHECKING:

        @property
        def failures(self) -> Sequence[Any]:
            """The reasons why the result did not pass."""

    @property
    def passed(self) -> bool:
        """True if there are no failures, and everything that was requested has been decided."""
        return not self.failures

    def raise_for_failures(self) -> None:
        """Raise an error unless the result passed.

        Raises:
            FailuresError: The result did not pass; the message is the report as text.
        """
        if not self.passed:
            raise FailuresError(self.to("text").rstrip(), self.failures)

    def to(self, form: str) -> str:
        """Return the report in a format; `text`, `markdown` and `json` exist for every result.

        Raises:
            UsageError: There is no such format; the message lists the formats.
        """
        formats = self._formats()
        if form not in formats:
            raise UsageError(f"there is no format `{form}`; choose from {', '.join(formats)}")
        return formats[form]()

    def _formats(self) -> Formats:
        """Return the available formats: for each one, a function that makes the report."""
        parts: dict[str, Callable[[], str]] = {
            "text": lambda: f"{parts_as_text(self._shown())}\n",
            "markdown": lambda: parts_as_markdown(self._shown()),
        }
        maker = _makers.get(type(self))
        return parts if maker is None else {**parts, **maker(self)}

    def _repr_html_(self) -> str:
        if self._frame_title:
            return framed(self.to("html"), self._frame_title)
        return parts_as_html(self._shown())

    def _repr_mimebundle_(
        self, include: Collection[str] | None = None, exclude: Collection[str] | None = None
    ) -> dict[str, str]:
        return {"text/plain": self.to("text").rstrip(), "text/html": self._repr_html_()}
