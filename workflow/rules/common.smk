from plfl import figures, page
from plfl.data import source
from plfl.results.collect import description
from plfl.sources import code_digest
from plfl.workflow import training_code

AXES = ["state", "personalization", "method", "client_opt", "server_opt", "seed"]
CELL = "-".join(f"{{{axis}}}" for axis in AXES)
# What is `local` stays on this machine even where jobs exchange their files through a bucket.
TABLES = {
    "records": local(f"{RESULTS}/records.parquet"),
    "forecasts": local(f"{RESULTS}/forecasts.parquet"),
    "clients": local(f"{RESULTS}/clients.parquet"),
    "summary": local(f"{RESULTS}/summary.csv"),
    "about": local(f"{RESULTS}/study.json"),
}


def own_files(wildcards):
    """The user's own files that a state's clients are read from."""
    return [local(str(file)) for file in source.own_files(study.data, wildcards.state)]


def data_settings(wildcards):
    """What of the configuration fixes a state's series."""
    return source.settings(study.data, wildcards.state)


def stacked(pattern, spanned):
    """The files of all cells that one job trains: those that differ in the `spanned` axes alone."""
    if not spanned:
        return [pattern]
    together = dict.fromkeys(
        tuple(getattr(cell, a) for a in spanned) for cell in study.cells
    )
    values = dict(zip(spanned, zip(*together)))
    return expand(pattern, zip, **values, allow_missing=True)


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


def models_of(wildcards):
    """How many models a training job may train side by side, with all that tuning tries."""
    tried = sum(len(study.candidates(cell)) for cell in cells_of(wildcards))
    return tried * study.data.clients


def training_memory(wildcards, attempt):
    """Megabytes that a training job may take.

    Measured with the paper's model and a year of quarter hours: 0.4 GB for 12 models, 3.1 MB for each
    client's data, 0.3 to 1.1 MB for each model, less the more there are; and 0.5 GB for each of the
    two Snakemakes that lead a job on a node of a cluster (docs/clusters.md). A retry asks for more.
    """
    models = models_of(wildcards)
    return attempt * (2000 + 4 * study.data.clients + 3 * models // 4)


def training_minutes(wildcards, attempt):
    """Minutes that a training job may take."""
    steps = (
        models_of(wildcards) * study.federation.rounds * study.federation.local_steps
    )
    return attempt * (10 + steps // 60_000)


def training_digest(wildcards):
    """Fingerprint of the code that a training job runs."""
    return training_code(cells_of(wildcards))


def one_of(names):
    """A wildcard constraint: one of `names`, which may be none."""
    return "|".join(names) or "(?!)"
