"""What the configs check in the same way; every failure is a ``RequestError`` that names field and value."""

from __future__ import annotations

import difflib
from collections.abc import Callable, Collection, Mapping
from dataclasses import fields
from functools import wraps
from typing import Any, TypeVar

from rtts.errors import RequestError

T = TypeVar("T")


def check_whole(
    config: object, ranges: Mapping[str, tuple[int, int]], *, or_auto: Collection[str] = ()
) -> None:
    """The fields named in ``ranges`` are integers within them; those in ``or_auto`` may be "auto", too."""
    for name, (low, high) in ranges.items():
        value = getattr(config, name)
        if name in or_auto and isinstance(value, str) and value == "auto":
            continue
        if isinstance(value, bool) or not isinstance(value, int) or not low <= value <= high:
            also = ' or "auto"' if name in or_auto else ""
            raise RequestError(f"{name} is {value!r}, expected an integer from {low} to {high}{also}")


def check_numbers(
    config: object, ranges: Mapping[str, tuple[float, float]], *, what: str = "a number"
) -> None:
    """The fields named in ``ranges`` are finite numbers within them."""
    for name, (least, most) in ranges.items():
        value = getattr(config, name)
        if isinstance(value, bool) or not isinstance(value, (int, float)) or not least <= value <= most:
            raise RequestError(f"{name} is {value!r}, expected {what} from {least:g} to {most:g}")


def check_choices(config: object, choices: Mapping[str, Collection[object]]) -> None:
    """The fields named in ``choices`` have one of their values."""
    for name, known in choices.items():
        value = getattr(config, name)
        if not isinstance(value, (str, bool)) or value not in known:
            raise RequestError(f"{name} is {value!r}, expected {' or '.join(map(str, known))}")


def check_flags(config: object, names: Collection[str]) -> None:
    """The fields are True or False."""
    for name in names:
        value = getattr(config, name)
        if not isinstance(value, bool):
            raise RequestError(f"{name} is {value!r}, expected True or False")


def from_mapping(cls: type[T], values: Mapping[str, Any], what: str) -> T:
    """``cls(**values)`` for values from a configuration file or a message; ``what`` names the config in errors."""
    if not isinstance(values, Mapping):
        raise RequestError(f"{what} is {type(values).__name__}, expected names and values")
    _check_names(cls, values, what)
    return cls(**values)


def known_names(what: str) -> Callable[[type[T]], type[T]]:
    """Decorates a dataclass: a keyword that is no field is refused with the nearest that is."""

    def decorate(cls: type[T]) -> type[T]:
        plain: Callable[..., None] = cls.__init__

        @wraps(plain)
        def checked(self: T, *args: Any, **values: Any) -> None:
            _check_names(cls, values, what)
            plain(self, *args, **values)

        cls.__init__ = checked  # type: ignore[assignment]
        return cls

    return decorate


def _check_names(cls: type[Any], values: Mapping[str, Any], what: str) -> None:
    known = [field.name for field in fields(cls)]
    for name in values:
        if name not in known:
            near = difflib.get_close_matches(str(name), known, n=1)
            hint = f"did you mean {near[0]}?" if near else f"known: {', '.join(known)}"
            raise RequestError(f"{what} has no field {name!r}; {hint}")
