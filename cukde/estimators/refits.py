"""Fits that raise, which leave an estimator as it was."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, TypeVar

T = TypeVar("T", bound=Callable[..., Any])


def whole(*kept: str) -> Callable[[T], T]:
    """Let a method that raises, by Ctrl-C too, leave the attributes of its object as they were.

    Attributes that the method assigns are put back, and none is copied: it must not change one in place. What calls
    have ``kept`` of the last fit is dropped first, so that its memory is free for the next.
    """

    def decorated(method: T) -> T:
        @functools.wraps(method)
        def call(self: Any, *args: Any, **kwargs: Any) -> Any:
            for name in kept:
                self.__dict__.pop(name, None)
            before = dict(self.__dict__)
            try:
                return method(self, *args, **kwargs)
            except BaseException:
                self.__dict__ = before
                raise

        return call  # type: ignore[return-value]

    return decorated
