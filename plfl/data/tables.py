"""Tables that are read one at a time."""

from collections.abc import Callable, Iterable, Iterator, Mapping

import pandas as pd


class Tables(Mapping[str, pd.DataFrame]):
    """The tables of clients by name, in order. Each is read whenever it is asked for; none stays in
    memory."""

    def __init__(self, names: Iterable[str], read: Callable[[str], pd.DataFrame]):
        """Prepare; `read` reads the table of a client, with the errors that it raises."""
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
