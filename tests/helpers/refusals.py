"""Errors are asserted by the facts in their messages, not by the sentences around them."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TypeVar

import pytest

E = TypeVar("E", bound=BaseException)


@contextmanager
def naming(error: type[E], *facts: object) -> Iterator[pytest.ExceptionInfo[E]]:
    """Expect an error whose message names all these `facts`: files, keys, values, remedies."""
    with pytest.raises(error) as caught:
        yield caught
    for fact in facts:
        assert str(fact) in str(caught.value), f"{fact!r} is not named"
