"""Settings that server and clients must have in common before they can work together."""

from plfl.base.errors import ConfigError, suggest_name
from plfl.base.files import digest
from plfl.config.federation import Simulation
from plfl.config.grid import Grid
from plfl.data import sources
from plfl.experiments import train as experiment
from plfl.experiments.recorder import Recorder
from plfl.results.records import MODELS, CellResult
from plfl.study import Cell, Study
from plfl.study.combinations import Candidate
from plfl.study.keys import LONGEST_NAME

VERSION = 8
"""Version of the messages. Both sides must have the same."""
SUFFIX = "-flower"
"""Suffix of the names of deployed studies."""


def fingerprint(study: Study, cell: Cell) -> str:
    """Digest of everything that determines the numbers of a cell, except the clients' data."""
    data = study.data.model_dump(mode="json", include={"features"})
    data |= {"clients": study.data.clients_of(cell.state), "interval": study.data.interval}
    windows, knowledge = study.windows.settings, sources.build_arguments(study)
    return digest(VERSION, study.plan.settings(cell), data, windows, knowledge)


def reason_against(study: Study, cell: Cell) -> str | None:
    """Why a cell cannot be deployed; None if it can."""
    if reason := study.data.source_class.simulation_only:
        return f"data.source: {study.data.source}: {reason}; use `plfl run`"
    method = study.hyperparameters.find_method(cell.method)
    if reason := next(method.reasons_against_deployment(), None):
        return f"{cell.method} runs in the simulator only: {reason}"
    if study.data.federations:
        return "data.federations: a deployment is one federation; remove the key, or use `plfl run`"
    if study.federation.simulation != Simulation():
        return (
            "federation.simulation: a deployment measures these values; remove the block, or use "
            "`plfl run`"
        )
    if study.federation.calibrates and study.federation.calibration.variant == "kd":
        return (
            "federation.calibration.variant: kd works in the simulator only, since all clients "
            "reveal their targets; set it to plain or prox, or use `plfl run`"
        )
    if study.federation.keep == "best":
        return (
            "federation.keep: best works in the simulator only, since a client may miss a round in "
            "which its model is scored; set it to last, or use `plfl run`"
        )
    if (count := study.plan.count_trials(cell)) > 1:
        return (
            f"tuning: {count} candidates; tune with `plfl run`, then write the chosen values to "
            "the configuration"
        )
    if (excess := len(narrow_study(study, cell).name) - LONGEST_NAME) > 0:
        return (
            f"name: {study.name!r} exceeds {LONGEST_NAME} characters when the name of the cell and "
            f"{SUFFIX!r} are appended; shorten it by {excess}"
        )
    return None


def deployable(study: Study, name: str | None, source: str) -> Cell:
    """The cell with this name; without a name, the first cell that can be deployed. `source` says
    where the study comes from, for messages.

    Raises:
        ConfigError: no such cell exists, or it cannot be deployed; with the reason.
    """
    cells = {str(cell): cell for cell in study.cells}
    if name is not None and name not in cells:
        problem = f"no cell {name!r}{suggest_name(name, cells)}; see `plfl cells --list`"
        raise ConfigError(source, [problem])
    reasons = {}
    for cell in [cells[name]] if name else study.cells:
        reason = reason_against(study, cell)
        if reason is None:
            return cell
        reasons[reason] = f"{cell}: {reason}"
    raise ConfigError(source, list(reasons.values()))


def narrow_study(study: Study, cell: Cell) -> Study:
    """The study reduced to one cell, with another name.

    Narrowing a narrowed study again changes nothing.
    """
    grid = Grid(
        method=[cell.method],
        client_opt=[cell.client_opt],
        server_opt=[cell.server_opt],
        sharing=[cell.sharing],
        seeds=[cell.seed],
    )
    buildings = study.data.buildings
    own_buildings = {cell.state: buildings[cell.state]} if cell.state in buildings else {}
    data = study.data.model_copy(update={"states": [cell.state], "buildings": own_buildings})
    suffix = f"-{cell}{SUFFIX}"
    name = study.name.removesuffix(suffix) + suffix
    return study.model_copy(update={"name": name, "grid": grid, "data": data})


def candidate(study: Study, cell: Cell) -> Candidate:
    """The hyperparameters of a deployable cell."""
    (single_candidate,) = study.plan.candidates(cell)
    return single_candidate


def tables(study: Study, cell: Cell, recorder: Recorder) -> CellResult:
    """The result tables of a deployable cell."""
    choice_of_model = dict.fromkeys(MODELS, (candidate(study, cell), recorder))
    return experiment.tables(
        cell, choice_of_model, study.plan.trains_alone(cell), 1, recorder.steps
    )


def roster(study: Study, cell: Cell) -> list[str]:
    """Names of the clients of a cell, in the order of all tables and sums.

    Raises:
        DataError: the configuration and the files do not determine the clients.
    """
    return sources.source_of(study.data).clients(study.data, cell.state)
