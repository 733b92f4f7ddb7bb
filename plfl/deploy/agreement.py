"""What server and clients have to agree on before they may work together."""

from plfl.data.source import buildings
from plfl.errors import ConfigError
from plfl.study import LONGEST_NAME, Candidate, Cell, Grid, Simulation, Study, digest

VERSION = 1
"""Version of the messages; both sides must have the same."""
MARK = "-flower"
"""How the names of deployed studies end."""


def of(study: Study, cell: Cell) -> str:
    """Fingerprint of everything that fixes the numbers of a cell, but for the clients' data."""
    data = study.data.model_dump(mode="json", include={"features"})
    windows = study.windows.model_dump(mode="json")
    return digest(VERSION, study.settings(cell), data, study.data.interval, windows)


def reason_against(study: Study, cell: Cell) -> str | None:
    """Why a cell cannot run among real machines; None where it can."""
    if reason := study.chosen_method(cell).simulation_only:
        return f"{cell.method} runs in the simulator alone: {reason}"
    if study.federation.simulation != Simulation():
        return "federation.simulation: a deployment measures; take it out, or use `plfl run`"
    if (count := len(study.candidates(cell))) > 1:
        return f"tuning: {count} choices of rates; tune with `plfl run`, then give the best alone"
    if (excess := len(narrowed(study, cell).name) - LONGEST_NAME) > 0:
        return (
            f"name: {study.name!r} with the cell's name and {MARK!r}, as its results are called, "
            f"has more than {LONGEST_NAME} characters; shorten it by {excess}"
        )
    return None


def deployable(study: Study, name: str | None, source: str) -> Cell:
    """The cell of this name, or else the first that can run among real machines.

    Raises:
        ConfigError: there is no such cell, or it cannot; with the reason.
    """
    cells = {str(cell): cell for cell in study.cells}
    if name is not None and name not in cells:
        from plfl.data.releases import nearest

        problem = f"it has no cell {name!r}{nearest(name, cells)}; see `plfl cells --list`"
        raise ConfigError(source, [problem])
    reasons = {}
    for cell in [cells[name]] if name else study.cells:
        reason = reason_against(study, cell)
        if reason is None:
            return cell
        reasons[reason] = f"{cell}: {reason}"
    raise ConfigError(source, list(reasons.values()))


def narrowed(study: Study, cell: Cell) -> Study:
    """The study of this one cell, with a name of its own; narrowed again it stays what it is."""
    grid = Grid(
        method=[cell.method],
        client_opt=[cell.client_opt],
        server_opt=[cell.server_opt],
        personalization=[cell.personalization],
        seeds=[cell.seed],
    )
    listed = study.data.buildings
    only = {cell.state: listed[cell.state]} if cell.state in listed else {}
    data = study.data.model_copy(update={"states": [cell.state], "buildings": only})
    mark = f"-{cell}{MARK}"
    name = study.name.removesuffix(mark) + mark
    return study.model_copy(update={"name": name, "grid": grid, "data": data})


def candidate(study: Study, cell: Cell) -> Candidate:
    """The rates of a deployable cell."""
    (only,) = study.candidates(cell)
    return only


def rates(study: Study, cell: Cell) -> dict[str, float]:
    """Those rates as the records have them."""
    found = candidate(study, cell).rates | {"tried": 1}
    return found | {"server_lr": float("nan")} if study.is_alone(cell) else found


def roster(study: Study, cell: Cell) -> list[str]:
    """Names of the clients of a cell, in the order in which all is done.

    Raises:
        ConfigError: the study does not name its clients.
    """
    if study.data.source == "meters":
        from plfl.data.meters import client_name, files

        return [client_name(path) for path in files(study.data, cell.state)]
    return [str(number) for number in buildings(study.data, cell.state)]
