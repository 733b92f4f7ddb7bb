"""The algorithms that a configuration can name, with their hyperparameters."""

from collections.abc import Iterable, Mapping
from typing import Any, ClassVar

from pydantic import (
    SerializeAsAny,
    ValidationInfo,
    ValidatorFunctionWrapHandler,
    field_validator,
)

from plfl.interfaces.method import Method
from plfl.optimizers.client import ClientOpt
from plfl.optimizers.server import ServerOpt
from plfl.plugins import registry
from plfl.plugins.registry import ALGORITHM_PACKAGES, Algorithm, Section, extend_section


def available(kind: str) -> dict[str, type[Algorithm]]:
    """The algorithms of a kind (`client_opt`, `server_opt` or `method`), by name; imports all."""
    return registry.available(ALGORITHM_PACKAGES[kind], Algorithm)


def find(kind: str, name: str) -> type[Algorithm]:
    """The algorithm of a kind with this name; imports its file only. KeyError: there is none."""
    return registry.find(ALGORITHM_PACKAGES[kind], Algorithm, name)


class AlgorithmBlock(Section):
    """The hyperparameters of the algorithms of a kind, by their names. Only the algorithms that a
    study names are fields; all others have their defaults."""

    kind: ClassVar[str]
    """A key of `ALGORITHM_PACKAGES`."""

    @classmethod
    def extend(cls) -> type[Section]:
        """The block with the keys of all algorithms of the kind, which imports them."""
        return cls._with(available(cls.kind))

    @classmethod
    def with_fields_of(cls, names: Iterable[Any]) -> type[Section]:
        """The block with the keys of those algorithms among `names` that exist."""
        classes = {
            name: registry.algorithm(ALGORITHM_PACKAGES[cls.kind], str(name)) for name in names
        }
        return cls._with({name: found for name, found in classes.items() if found})

    @classmethod
    def _with(cls, classes: Mapping[str, type[Algorithm]]) -> type[Section]:
        block: type[Section] = extend_section(cls, tuple(classes.items()))
        return block

    def __getattr__(self, name: str) -> Any:
        """An algorithm with its defaults."""
        found = (
            None
            if name.startswith("_")
            else registry.algorithm(ALGORITHM_PACKAGES[self.kind], name)
        )
        if found is None:
            raise AttributeError(f"{type(self).__name__} has no {name}")
        return found()


class Methods(AlgorithmBlock):
    """Hyperparameters of the methods."""

    kind = "method"


class ClientOpts(AlgorithmBlock):
    """Hyperparameters of the local optimisers."""

    kind = "client_opt"


class ServerOpts(AlgorithmBlock):
    """Hyperparameters of the server optimisers."""

    kind = "server_opt"


BLOCKS: dict[str, type[AlgorithmBlock]] = {
    block.kind: block for block in (Methods, ClientOpts, ServerOpts)
}


class Hyperparameters(Section):
    """Hyperparameters of the algorithms. `tuning` can try other values."""

    method: SerializeAsAny[Methods] = Methods()
    client_opt: SerializeAsAny[ClientOpts] = ClientOpts()
    server_opt: SerializeAsAny[ServerOpts] = ServerOpts()

    @field_validator(*ALGORITHM_PACKAGES, mode="wrap")
    @classmethod
    def _validate_named_algorithms(
        cls, raw: Any, empty_block: ValidatorFunctionWrapHandler, info: ValidationInfo
    ) -> Any:
        if isinstance(raw, Mapping):
            return BLOCKS[info.field_name or ""].with_fields_of(raw).model_validate(raw)
        return empty_block(raw)

    def find(self, kind: str, name: str) -> Any:
        """The algorithm of a kind (`method`, `client_opt` or `server_opt`) with this name."""
        return getattr(getattr(self, kind), name)

    def find_method(self, name: str) -> Method:
        """The method with this name."""
        method: Method = self.find("method", name)
        return method

    def find_client_opt(self, name: str) -> ClientOpt:
        """The local optimiser with this name."""
        optimiser: ClientOpt = self.find("client_opt", name)
        return optimiser

    def find_server_opt(self, name: str) -> ServerOpt:
        """The server optimiser with this name."""
        optimiser: ServerOpt = self.find("server_opt", name)
        return optimiser
