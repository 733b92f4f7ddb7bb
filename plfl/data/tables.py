"""The tables of clients, read one at a time."""

from collections.abc import Callable, Iterable, Iterator, Mapping

import pandas as pd


class Tables(Mapping[str, pd.DataFrame]):
    """The tables of clients by name, in order. Each is read whenever it is accessed; none stays in
    memory."""

    def __init__(self, names: Iterable[str], read: Callable[[str], pd.DataFrame]):
        """`read` reads the table of a client; accessing a table raises its errors."""
        self._names, self._read = dict.fromkeys(names), read

    def __getitem__(self, name: str) -> pd.DataFrame:
        if name not in self._names:
            raise KeyError(name)
        return self._read(name)

    def __contains__(self, name: object) -> bool:
        return name in self._names

    def __iter__(self) -> Iterator[str]:
        return iter(self._names)

    def __len__(self) -> int:
        return len(self._names)
