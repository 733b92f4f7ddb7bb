"""A class that a block of keys selects by its key `name`."""

from typing import Any

from pydantic import SerializerFunctionWrapHandler, model_serializer

from plfl import plugins
from plfl.plugins.registry import Algorithm


class Selectable(Algorithm):
    """A class that a block of keys selects by its key `name`; its fields are the other keys."""

    @property
    def settings(self) -> dict[str, Any]:
        """Everything that determines what it computes."""
        settings: dict[str, Any] = self.model_dump(mode="json")
        if plugin := plugins.find_plugin(type(self)):
            settings["plugin"] = plugin.digest
        return settings

    @model_serializer(mode="wrap")
    def _with_name(self, dump: SerializerFunctionWrapHandler) -> dict[str, Any]:
        keys: dict[str, Any] = dump(self)
        return {"name": self.name} | keys
