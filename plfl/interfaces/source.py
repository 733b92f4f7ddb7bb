"""A source of data: where the clients' examples come from, as one class in one file.

Its author reads this file and `plfl.data.examples.Examples`. An example is the input of one
prediction: a window of a series of loads or, from the source of a plug-in, something else such as
an image. A source of series derives from `plfl.data.sources.LoadSource`, which needs `fetch` and
`series` alone. The hooks stand in the order in which plfl calls them: facts when a study is read,
`fetch`, `save` and `read` in the jobs of its workflow. Only `fetch` uses the network.
"""

from abc import abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, NamedTuple

from plfl.base import DataFrame
from plfl.interfaces.annotations import Data, Examples, Study, Windows
from plfl.plugins.registry import Algorithm, Section

Receipt = dict[str, Any]
"""`source`; `files`: the SHA-256 of each file, by its path from the working directory. It says
which files the data of a state come from, so that a change of one is noticed."""
CC_BY = "https://spdx.org/licenses/CC-BY-4.0"


@dataclass(frozen=True)
class Provenance:
    """The origin of data: what they are, where they come from, and under which licence."""

    label: str
    """A few words, as shown on the page and in MLflow."""
    text: str
    """A phrase that says whether they were measured, simulated or generated."""
    licence: str | None = None
    """The address of their licence; None if only their owner knows it."""


class Counts(NamedTuple):
    """Numbers of windows of a client."""

    train: int
    held_out: int
    """The windows that its models are scored on."""


class Source(Algorithm):
    """A source of data. The workflow asks for its facts each time it starts; therefore functions
    import what reads and writes data only when they need it."""

    examples: ClassVar[str] = "loads"
    """The kind of its examples, in one word. A task names the kind that it needs alike."""
    provenance: ClassVar[Provenance]
    """The origin of the data."""
    blocks: ClassVar[Mapping[str, type[Section]]] = {}
    """Blocks of keys that a source of a plug-in adds to `data`, by name. Sources that share a block
    name the same class."""
    simulation_only: ClassVar[str | None] = None
    """Why deployed clients cannot have such data (`plfl.deploy`); None if they can."""
    assumption: ClassVar[str] = ""
    """What estimates of work assume about the amount of data; empty if it is known."""

    @abstractmethod
    def settings(self, data: Data, state: str) -> dict[str, Any]:
        """The part of `data` that determines what `fetch` brings and the examples in it. What
        clients know of them does not count: `windows`, `data.origins`, `data.federations`."""

    def buildings(self, data: Data, state: str) -> list[int]:
        """Building ids of a state's clients, known before anything is fetched; empty without ids.

        Raises:
            DataError: they are not known, or too few.
        """
        return []

    def clients(self, data: Data, state: str) -> list[str]:
        """The names of a state's clients, in the order of all tables."""
        return [str(number) for number in self.buildings(data, state)]

    def own_files(self, data: Data, state: str) -> list[Path]:
        """The user's own files about a state's clients."""
        return []

    @abstractmethod
    def counts(self, data: Data, windows: Windows) -> Counts:
        """Numbers of windows of a client, as far as they are known before anything is read."""

    @abstractmethod
    def noise(self, study: Study, client_count: int = 1) -> Examples:
        """Made-up examples of clients, to measure how long a study takes or how much it sends."""

    @abstractmethod
    def fetch(self, data: Data, state: str) -> Receipt:
        """Bring the files of a state's clients to this machine: download, generate or find them.

        Raises:
            DataError: a file is missing, unreachable or damaged.
            PlflError: the disk is full or the folder cannot be written.
        """

    def load(self, data: Data, state: str) -> Mapping[str, DataFrame]:
        """The tables of a state's clients by name, in order, with the available `data.features`,
        for those who look at series or deploy them; only sources of loads have them.

        Raises:
            DataError: a file is missing or unreadable, or contains invalid values. It may be raised
                only when a table is accessed.
        """
        raise NotImplementedError

    @abstractmethod
    def save(self, study: Study, state: str, path: Path) -> None:
        """Write the examples of a state, from files that `fetch` has brought, for `read`; DataError
        if a file is missing or damaged, or its content cannot be used."""

    @abstractmethod
    def read(self, study: Study, path: Path) -> Examples:
        """The examples of a state as its clients hold them, from the file that `save` wrote."""

    @abstractmethod
    def examples_of(self, study: Study, state: str) -> Examples:
        """The examples of a state, fetched and read at once, without an intermediate file."""
