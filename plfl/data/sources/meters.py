"""Files of your own meters."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from plfl.base import DataFrame
from plfl.config.data import Data
from plfl.data import meters
from plfl.data.sources import LoadSource, digests
from plfl.interfaces.source import Provenance, Receipt


class MetersSource(LoadSource):
    """Files of your own meters."""

    name = "meters"
    provenance = Provenance("own meters", "readings of the owner's meters")
    blocks_read = ("meters",)

    def clients(self, data: Data, state: str) -> list[str]:
        return list(meters.clients(data, state))

    def settings(self, data: Data, state: str) -> dict[str, Any]:
        # What no key says is what the files say: a default would overrule them.
        written_keys = data.meters.model_dump(mode="json", exclude_unset=True)
        written_keys |= {key: written_keys[key][state] for key in data.meters.by_state}
        return super().settings(data, state) | {"meters": written_keys}

    def own_files(self, data: Data, state: str) -> list[Path]:
        name, weather = data.meters.format or "", data.meters.weather
        own_format = [Path(name)] if name.endswith(".toml") else []
        return [*meters.files(data, state), *own_format, *([weather] if weather else [])]

    def fetch(self, data: Data, state: str) -> Receipt:
        return {"source": data.source, "files": digests(self.own_files(data, state))}

    def series(self, data: Data, state: str) -> dict[str, DataFrame]:
        return meters.read(data, state)
