"""Differential privacy: what it bounds, and what it does not count."""

from collections.abc import Iterable, Iterator

from plfl.base.errors import Problem
from plfl.base.keys import Key
from plfl.config.algorithms import find
from plfl.config.data import Data
from plfl.config.federation import FederationSettings, PrivacySettings
from plfl.interfaces.method import Method
from plfl.optimizers.server import ServerOpt
from plfl.plugins.registry import Algorithm

PRIVACY = "federation.privacy"


def check_privacy(
    federation: FederationSettings, data: Data, algorithms: Iterable[tuple[str, Algorithm]]
) -> Iterator[Problem]:
    """Report keys that would make ε wrong."""
    block = federation.privacy
    if block.clip is None:
        noise_keys = [key for key in ("noise", "noise_as_of", "quantile") if getattr(block, key)]
        if noise_keys and block != PrivacySettings(delta=block.delta):
            yield Problem(
                Key(f"{PRIVACY}.{noise_keys[0]}"),
                "has no effect without a bound",
                "set clip, such as 1",
            )
        return
    clients = data.federations or data.most_clients
    if len({data.clients_of(state) for state in data.states}) > 1:
        yield Problem(
            Key("data.clients"),
            f"{PRIVACY} needs equally many clients in every state",
            "give one number",
        )
    if federation.weighting != "uniform":
        yield Problem(
            Key("federation.weighting"),
            f"'{federation.weighting}' lets the data of a client decide how much it moves the "
            f"mean, which {PRIVACY} bounds",
            "set it to uniform",
        )
    if federation.selection == "data_aware":
        yield Problem(
            Key("federation.selection"),
            f"'data_aware' tells the server the clients' labels, outside of {PRIVACY}",
            "set it to uniform, poisson or allocation",
        )
    if block.delta * clients >= 1:
        yield Problem(
            Key(f"{PRIVACY}.delta"),
            f"{block.delta:g} is not below 1/{clients}: publishing the data of a client drawn "
            "at random would count as private",
            f"set it to {0.01 / clients:.0e} or so",
        )
    if block.noise_as_of is not None and block.noise_as_of < clients:
        yield Problem(
            Key(f"{PRIVACY}.noise_as_of"),
            f"{block.noise_as_of} is less than {clients} clients",
            "raise it",
        )
    most_noise = 2 * federation.noise_of_count(data.federation_sizes[0])
    if block.quantile is not None and block.noise >= most_noise:
        yield Problem(
            Key(f"{PRIVACY}.noise"),
            f"{block.noise:g} is not below {most_noise:g}, a tenth of the participants: the "
            "number of norms within the bound, which the server learns, would tell more",
            f"lower it, or remove {PRIVACY}.quantile",
        )
    for kind, algorithm in algorithms:
        if isinstance(algorithm, Method) and not sends_only_updates(algorithm):
            yield Problem(
                Key(f"grid.{kind}"),
                f"{algorithm.name!r} learns more from the clients than their mean update, which "
                f"{PRIVACY} does not cover",
                "remove one of them",
            )
        yield from check_single_updates(
            kind, algorithm, f"with {PRIVACY} there is only a noisy mean"
        )


def check_single_updates(kind: str, algorithm: Algorithm, obstacle: str) -> Iterator[Problem]:
    """Report a server optimiser that uses the updates of single clients."""
    if isinstance(algorithm, ServerOpt) and type(algorithm).receive is not ServerOpt.receive:
        yield Problem(
            Key(f"grid.{kind}"),
            f"{algorithm.name!r} uses the updates of single clients, but {obstacle}",
            "remove one of them",
        )


def sends_only_updates(method: Method) -> bool:
    """Whether a method declares `uses_updates_only` and keeps the server's side of a round."""
    cls, plain = type(method), find("method", "fedopt")
    parts = ("aggregate", "groups", "select", "strata")
    has_plain_hooks = all(getattr(cls, name) is getattr(plain, name) for name in parts)
    return has_plain_hooks and bool(vars(cls).get("uses_updates_only"))
