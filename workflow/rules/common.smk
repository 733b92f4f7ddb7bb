from plfl import figures
from plfl.data import source
from plfl.results.collect import description
from plfl.sources import code_digest
from plfl.workflow import training_code

AXES = ["state", "personalization", "client_opt", "server_opt", "seed"]
CELL = "-".join(f"{{{axis}}}" for axis in AXES)
TABLES = {
    "records": f"{RESULTS}/records.parquet",
    "forecasts": f"{RESULTS}/forecasts.parquet",
    "clients": f"{RESULTS}/clients.parquet",
    "summary": f"{RESULTS}/summary.csv",
    "about": f"{RESULTS}/study.json",
}


def own_files(wildcards):
    """The user's own files that a state's clients are read from."""
    return list(map(str, source.own_files(study.data, wildcards.state)))


def data_settings(wildcards):
    """What of the configuration fixes a state's series."""
    return source.settings(study.data, wildcards.state)


def stacked(pattern, spanned):
    """The files of all cells that one job trains: those that differ in the `spanned` axes alone."""
    values = {axis: getattr(study.grid, axis, study.grid.seeds) for axis in spanned}
    return expand(pattern, **values, allow_missing=True)


def name_of_stack(spanned):
    """The axes, as wildcards, that are the same in all cells of a job."""
    return "-".join(f"{{{axis}}}" for axis in AXES if axis not in spanned)


def cells_of(wildcards):
    """The cells that a training job trains."""
    return [
        cell
        for cell in study.cells
        if all(str(getattr(cell, axis)) == value for axis, value in wildcards.items())
    ]


def training_settings(wildcards):
    """What of the configuration fixes the numbers of a training job."""
    return {str(cell): study.settings(cell) for cell in cells_of(wildcards)}


def training_digest(wildcards):
    """Fingerprint of the code that a training job runs."""
    return training_code(cells_of(wildcards))


def one_of(names):
    """A wildcard constraint: one of `names`, which may be none."""
    return "|".join(names) or "(?!)"
