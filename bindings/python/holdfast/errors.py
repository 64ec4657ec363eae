# SPDX-License-Identifier: Apache-2.0
"""What can go wrong: one exception for each result code of the library."""

from __future__ import annotations

from typing import Dict, Optional, Tuple, Type

from . import _holdfast


class Error(Exception):
    """The base of all of them. Its text says what is wrong, where, and what to do about it."""

    def __init__(self, code: int, text: str = "", native: int = 0) -> None:
        super().__init__(text or _holdfast.code_name(code))
        self.code = code
        self.native = native
        """The number that the store or the system uses, or 0."""

    @property
    def code_name(self) -> str:
        """The code's name in C, such as "HF_BUSY"."""
        return _holdfast.code_name(self.code)

    def __reduce__(self) -> Tuple[Type[Error], Tuple[int, str, int], Dict[str, object]]:
        return type(self), (self.code, str(self.args[0]), self.native), self.__dict__


class Busy(Error, TimeoutError):
    """Another owner holds it, and the wait has passed."""

    retry: Optional[float] = None
    """Of a rate limiter: after how many seconds the permits could have been had."""


class Lost(Error):
    """It was held and is lost: another owner may have held it since."""


class Canceled(Error):
    """The request was canceled."""


class Unreachable(Error, ConnectionError):
    """The store has not replied in time."""


class Denied(Error, PermissionError):
    """The store refuses this user."""


class Invalid(Error, ValueError):
    """An argument is wrong; the text says which."""


class Deadlock(Error, RuntimeError):
    """The caller would wait for itself, perhaps by way of other threads; the text says how."""


class WrongKind(Error):
    """The name is in use as another kind of object."""


class NotSupported(Error, NotImplementedError):
    """This store does not have the operation."""


class Forked(Error):
    """The lock was acquired in the parent of this process."""


class Closed(Error):
    """The client is closed."""


class OutOfMemory(Error, MemoryError):
    """Out of memory; nothing has changed."""


class Limit(Error):
    """A limit of the store or of this process is reached."""


class Corrupt(Error):
    """The store's state is damaged, foreign, or of another version."""


class Internal(Error):
    """A bug of the library; please report it."""


LOST = 2
_CLASSES: Dict[int, Type[Error]] = dict(enumerate((
    Busy, Lost, Canceled, Unreachable, Denied, Invalid, Deadlock, WrongKind, NotSupported, Forked,
    Closed, OutOfMemory, Limit, Corrupt, Internal), 1))


def make(code: int, text: str, native: int = 0) -> Error:
    """The exception for a result code."""
    return _CLASSES.get(code, Error)(code, text, native)


_holdfast.set_exception_maker(make)
