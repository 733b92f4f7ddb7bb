"""The public bucket of NREL's ComStock."""

from __future__ import annotations

from pathlib import Path
from typing import ClassVar

from plfl.base.errors import DataError, Problem
from plfl.base.extras import require
from plfl.base.files import remove_temporary_files
from plfl.base.keys import Key
from plfl.config.data import Data
from plfl.data.comstock import releases
from plfl.data.examples import LazySeries
from plfl.data.sources import LoadSource
from plfl.interfaces.source import CC_BY, Provenance, Receipt


class ComstockSource(LoadSource):
    """The public bucket of NREL's ComStock."""

    name = "comstock"
    provenance = Provenance(
        "NREL ComStock, simulated (EnergyPlus)",
        "simulated with EnergyPlus, not measured: NREL's End-Use Load Profiles for the U.S. "
        "Building Stock (ComStock)",
        licence=CC_BY,
    )
    blocks_read: ClassVar[tuple[str, ...]] = ("comstock",)

    def root(self, data: Data) -> Path:
        """The folder of the files."""
        return data.folder / "comstock"

    def listed_buildings(self, data: Data, state: str) -> list[int]:
        """The list of buildings of a state that is used if the study does not list any."""
        return releases.paper_buildings(state)

    def buildings(self, data: Data, state: str) -> list[int]:
        """The first `data.clients` of a list of ids; empty if they are to be drawn. DataError if
        there is no list for the state, or it is too short."""
        if data.comstock.draw is not None:
            return []
        ids = (
            data.buildings[state] if state in data.buildings else self.listed_buildings(data, state)
        )
        clients = data.clients_of(state)
        if len(ids) < clients:
            raise DataError(
                Problem(
                    Key("data.clients"),
                    f"{clients} clients, but {state} has {len(ids)} buildings",
                    f"lower it, or list more ids in data.buildings.{state}",
                )
            )
        return ids[:clients]

    def clients(self, data: Data, state: str) -> list[str]:
        """The ids as names; drawn ones are known once the metadata have been fetched."""
        return [str(building) for building in self._ids(data, state)]

    def _ids(self, data: Data, state: str) -> list[int]:
        from plfl.data.comstock import series

        return self.buildings(data, state) or series.draw(self.root(data), data, state)

    def bring(self, data: Data, state: str, ids: list[int]) -> dict[str, str]:
        """Download the files of some buildings. Returns the SHA-256 of each, by its path."""
        require("comstock", "data.source: comstock")
        from plfl.data.comstock.download import download

        files = download(data, state, ids).items()
        return {str(self.root(data) / key): digest for key, digest in files}

    def fetch(self, data: Data, state: str) -> Receipt:
        remove_temporary_files(self.root(data))
        files = self.bring(data, state, self.buildings(data, state))
        return {"source": data.source, "files": files}

    def series(self, data: Data, state: str) -> LazySeries:
        from plfl.data.comstock import series

        return series.read(self.root(data), data, state, self._ids(data, state))
