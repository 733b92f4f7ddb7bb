"""The algorithms that a configuration can name, with their hyperparameters."""

from collections.abc import Mapping
from typing import Any, ClassVar, cast

from pydantic import (
    SerializeAsAny,
    ValidationInfo,
    ValidatorFunctionWrapHandler,
    create_model,
    field_validator,
)

from plfl.interfaces.method import Method
from plfl.optimizers.client import ClientOpt
from plfl.optimizers.server import ServerOpt
from plfl.plugins import registry
from plfl.plugins.registry import KINDS, Algorithm, Section, extended, plugged


def available(kind: str) -> dict[str, type[Algorithm]]:
    """The algorithms of a kind (`client_opt`, `server_opt` or `method`), by name."""
    return registry.available(KINDS[kind], Algorithm)


class Block(Section):
    """The hyperparameters of the algorithms of a kind, by their names."""

    kind: ClassVar[str]
    """A key of `KINDS`."""

    @classmethod
    def extended(cls) -> type[Section]:
        block: type[Section] = extended(cls, tuple(plugged(KINDS[cls.kind]).items()))
        return block


def _section(name: str, doc: str, kind: str) -> type[Block]:
    empty = create_model(name, __base__=Block, __doc__=doc)
    section = cast(type[Block], extended(empty, tuple(available(kind).items())))
    section.kind = kind
    return section


Methods = _section("Methods", "Hyperparameters of the methods.", "method")
ClientOpts = _section("ClientOpts", "Hyperparameters of the local optimisers.", "client_opt")
ServerOpts = _section("ServerOpts", "Hyperparameters of the server optimisers.", "server_opt")


BLOCKS = {"method": Methods, "client_opt": ClientOpts, "server_opt": ServerOpts}


class Hyperparameters(Section):
    """Hyperparameters of the algorithms. `tuning` can try other values."""

    method: SerializeAsAny[Methods] = Methods()  # type: ignore[valid-type]
    client_opt: SerializeAsAny[ClientOpts] = ClientOpts()  # type: ignore[valid-type]
    server_opt: SerializeAsAny[ServerOpts] = ServerOpts()  # type: ignore[valid-type]

    @field_validator(*KINDS, mode="wrap")
    @classmethod
    def _of_plugins_too(
        cls, raw: Any, built_in: ValidatorFunctionWrapHandler, info: ValidationInfo
    ) -> Any:
        block = BLOCKS[info.field_name or ""]
        if isinstance(raw, Mapping) and block.extended() is not block:
            return block.extended().model_validate(raw)
        return built_in(raw)

    def of(self, kind: str, name: str) -> Any:
        """The algorithm of a kind (`method`, `client_opt` or `server_opt`) with this name."""
        algorithm = getattr(getattr(self, kind), name, None)
        return algorithm or available(kind)[name]()  # a plug-in without keys in the study

    def of_method(self, name: str) -> Method:
        """The method with this name."""
        method: Method = self.of("method", name)
        return method

    def of_client_opt(self, name: str) -> ClientOpt:
        """The local optimiser with this name."""
        optimiser: ClientOpt = self.of("client_opt", name)
        return optimiser

    def of_server_opt(self, name: str) -> ServerOpt:
        """The server optimiser with this name."""
        optimiser: ServerOpt = self.of("server_opt", name)
        return optimiser
