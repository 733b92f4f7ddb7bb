"""The algorithms that a configuration can name, with their hyperparameters."""

from pydantic import Field, create_model

from plfl.config.method_rules import MethodRules
from plfl.optimizers.client import ClientOpt
from plfl.optimizers.server import ServerOpt
from plfl.registry import Algorithm, Section, algorithms

PACKAGES = {
    "client_opt": "plfl.optimizers.client",
    "server_opt": "plfl.optimizers.server",
    "method": "plfl.methods",
}
"""The package that holds the algorithms of each kind."""


def available(kind: str) -> dict[str, type[Algorithm]]:
    """The algorithms of a kind (`client_opt`, `server_opt` or `method`), by name."""
    return algorithms(PACKAGES[kind])


def _section(name: str, doc: str, kind: str) -> type[Section]:
    fields = {
        key: (cls, Field(default_factory=cls, description=cls.__doc__))
        for key, cls in available(kind).items()
    }
    return create_model(name, __base__=Section, __doc__=doc, **fields)  # type: ignore[call-overload, no-any-return]


Methods = _section("Methods", "Hyperparameters of the methods.", "method")
ClientOpts = _section("ClientOpts", "Hyperparameters of the local optimisers.", "client_opt")
ServerOpts = _section("ServerOpts", "Hyperparameters of the server optimisers.", "server_opt")


class Hyperparameters(Section):
    """Hyperparameters of the algorithms. `tuning` can try other values."""

    method: Methods = Methods()  # type: ignore[valid-type]
    client_opt: ClientOpts = ClientOpts()  # type: ignore[valid-type]
    server_opt: ServerOpts = ServerOpts()  # type: ignore[valid-type]

    def of_method(self, name: str) -> MethodRules:
        """The method with this name."""
        method: MethodRules = getattr(self.method, name)
        return method

    def of_client_opt(self, name: str) -> ClientOpt:
        """The local optimiser with this name."""
        optimiser: ClientOpt = getattr(self.client_opt, name)
        return optimiser

    def of_server_opt(self, name: str) -> ServerOpt:
        """The server optimiser with this name."""
        optimiser: ServerOpt = getattr(self.server_opt, name)
        return optimiser
