"""The federation: who takes part, how clients are weighted and simulated, where they start."""

from collections.abc import Iterable, Iterator, Sequence

from plfl.base.errors import Problem
from plfl.base.keys import Key
from plfl.config.data import Data
from plfl.config.federation import SPREADS, FederationSettings, Simulation
from plfl.interfaces.task import Task
from plfl.optimizers.server import ServerOpt
from plfl.plugins.registry import Algorithm


def check_selection(task: Task, data: Data, federation: FederationSettings) -> Iterator[Problem]:
    """Report a selection of clients by labels that they do not have."""
    if federation.selection == "data_aware" and not task.has_labels:
        yield Problem(
            Key("federation.selection"),
            f"'data_aware' is about labels, which data.source {data.source} does not have",
            "set it to uniform",
        )


def check_weighting(
    federation: FederationSettings, algorithms: Iterable[tuple[str, Algorithm]]
) -> Iterator[Problem]:
    """Report weights of clients that a ServerOpt ignores."""
    for kind, algorithm in algorithms:
        is_ignored = isinstance(algorithm, ServerOpt) and algorithm.ignores_weights
        if is_ignored and federation.weighting != "uniform":
            yield Problem(
                Key("federation.weighting"),
                f"'{federation.weighting}' has no effect on {algorithm.name}, in whose mean all "
                "clients count equally",
                f"set it to uniform, or remove {algorithm.name} from grid.{kind}",
            )


def check_simulation(
    simulation: Simulation, data: Data, joining: Sequence[str]
) -> Iterator[Problem]:
    """Report lists of speeds that do not fit the clients of a federation. `joining`: the sharing
    schemes in which clients join after the rounds."""
    for key in (key for keys in SPREADS.values() for key in keys):
        if not isinstance(speeds := getattr(simulation, key), list):
            continue
        path = f"federation.simulation.{key}"
        if data.federations or joining:
            divides = "data.federations" if data.federations else f"sharing.{joining[0]}"
            yield Problem(
                Key(path),
                f"a list is in the order of the clients of a state, but {divides} divides them",
                "give the speeds by name, or as a column of a file",
            )
        for state in data.states:
            if len(speeds) != (clients := data.clients_of(state)):
                yield Problem(
                    Key(path),
                    f"lists {len(speeds)} speeds for {clients} clients of {state}",
                    "give one for each, or the speeds by name",
                )


def check_start(federation: FederationSettings) -> Iterator[Problem]:
    """Report draws of parameters that start from those of a file."""
    if federation.start is not None and federation.initial != "common":
        yield Problem(
            Key("federation.initial"),
            f"{federation.initial!r} has no effect, since all start from federation.start",
            "remove one of them",
        )


def check_calibration(federation: FederationSettings, task: Task) -> Iterator[Problem]:
    """Report a calibration that contradicts other keys of the rounds."""
    calibration, path = federation.calibration, "federation.calibration"
    if not federation.calibrates:
        return
    if federation.ema is not None:
        yield Problem(
            Key(path),
            "starts from the server's models, of which federation.ema is no average",
            "remove one of them",
        )
    if calibration.variant == "kd" and (
        reason := next(task.reasons_against_teacher(federation.loss), None)
    ):
        yield Problem(
            Key(f"{path}.variant"),
            f"'kd' mixes forecasts of a teacher into the targets, which {reason}",
        )


def pools_targets(federation: FederationSettings, task: Task) -> bool:
    """Whether clients calibrate with the quantiles of all clients' loads. Labels have none."""
    is_distilled = federation.calibrates and federation.calibration.variant == "kd"
    return is_distilled and task.examples == Task.examples
