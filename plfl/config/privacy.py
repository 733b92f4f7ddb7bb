"""Checks whether ε of `federation.privacy` is right with the other keys of a study."""

from collections.abc import Container, Iterable, Iterator, Mapping

from plfl.config.algorithms import available
from plfl.config.method_rules import MethodRules
from plfl.config.sections import Data, Federation, Grid, Privacy
from plfl.optimizers.server import ServerOpt
from plfl.plugins.registry import Algorithm

WHERE = "federation.privacy"


def problems(
    federation: Federation, data: Data, algorithms: Iterable[tuple[str, Algorithm]]
) -> Iterator[str]:
    """Report keys that would make ε wrong."""
    block = federation.privacy
    if block.clip is None:
        given = [key for key in ("noise", "noise_as_of", "quantile") if getattr(block, key)]
        if given and block != Privacy(delta=block.delta):
            yield f"{WHERE}.{given[0]}: has no effect without a bound; set {WHERE}.clip, such as 1"
        return
    clients = data.federations or data.most_clients
    if len({data.clients_of(state) for state in data.states}) > 1:
        yield f"data.clients: {WHERE} needs equally many clients in every state; give one number"
    if federation.weighting != "uniform":
        yield (
            f"federation.weighting: '{federation.weighting}' lets the data of a client decide how "
            f"much it moves the mean, which {WHERE} bounds; set it to uniform"
        )
    if federation.selection == "data_aware":
        yield (
            f"federation.selection: 'data_aware' tells the server the clients' labels, outside of "
            f"{WHERE}; set it to uniform, poisson or allocation"
        )
    if block.delta * clients >= 1:
        yield (
            f"{WHERE}.delta: {block.delta:g} is not below 1/{clients}: publishing the data of a "
            f"client drawn at random would count as private; set it to {0.01 / clients:.0e} or so"
        )
    if block.noise_as_of is not None and block.noise_as_of < clients:
        yield f"{WHERE}.noise_as_of: {block.noise_as_of} is less than {clients} clients; raise it"
    most = 2 * federation.count_noise(data.fewest_in_federation)
    if block.quantile is not None and block.noise >= most:
        yield (
            f"{WHERE}.noise: {block.noise:g} is not below {most:g}, a tenth of the participants: "
            "the number of norms within the bound, which the server learns, would tell more; "
            f"lower it, or remove {WHERE}.quantile"
        )
    for kind, algorithm in algorithms:
        if isinstance(algorithm, MethodRules) and not sends_only_updates(algorithm):
            yield (
                f"grid.{kind}: {algorithm.name!r} learns more from the clients than their mean "
                f"update, which {WHERE} does not cover; remove one of them"
            )
        if isinstance(algorithm, ServerOpt) and type(algorithm).receive is not ServerOpt.receive:
            yield (
                f"grid.{kind}: {algorithm.name!r} uses the updates of single clients, but with "
                f"{WHERE} there is only a noisy mean; remove one of them"
            )


def sends_only_updates(method: MethodRules) -> bool:
    """Whether a method declares `updates_only` and does not change the server's side of a round."""
    own, plain = type(method), available("method")["fedopt"]
    parts = ("aggregate", "groups", "select", "strata")
    kept = all(getattr(own, name) is getattr(plain, name) for name in parts)
    return kept and bool(vars(own).get("updates_only"))


def of_schemes(
    grid: Grid, shared: Mapping[str, list[str]], joining: Container[str]
) -> Iterator[str]:
    """Report sharing schemes of the grid for which ε is unknown. `shared`: the patterns of each
    scheme; `joining`: those in which clients join after the rounds."""
    known = [name for name in grid.sharing if name in shared]
    for name in known:
        if name in joining:
            yield (
                f"sharing.{name}: with `join`, clients send raw data or train in several "
                f"federations, which {WHERE} does not count; remove one of them"
            )
    if known and not any(shared[name] for name in known):
        yield (
            f"{WHERE}.clip: has no effect, as {', '.join(known)} share nothing: no update leaves a "
            "client; remove the block, or add a sharing scheme that shares parameters"
        )
