import math

from plfl.report import reporting
from plfl.data import sources
from plfl.experiments.effort import COMMON_AXES, cost_of_step, local_steps, stack_of
from plfl.pipeline.fingerprint import digests_of
from plfl.pipeline.fingerprint import code_digest
from plfl.pipeline.jobs import of_job, training_code
from plfl.plugins import active, signature

REPORTING = reporting.reporting_of(study)
AXES = ["state", "sharing", "method", "client_opt", "server_opt", "seed"]
# All variants have the same cells.
ANY = next(iter(study.variants.values()))
CELL = "-".join(f"{{{axis}}}" for axis in AXES)
# Files marked `local` stay on this machine even if jobs exchange files through a bucket.
TABLES = {
    "records": local(f"{RESULTS}/records.parquet"),
    "forecasts": local(f"{RESULTS}/forecasts.parquet"),
    "errors": local(f"{RESULTS}/errors.parquet"),
    "baselines": local(f"{RESULTS}/baselines.parquet"),
    "baseline_forecasts": local(f"{RESULTS}/baseline_forecasts.parquet"),
    "clients": local(f"{RESULTS}/clients.parquet"),
    "summary": local(f"{RESULTS}/summary.csv"),
    "about": local(f"{RESULTS}/study.json"),
    "sums": local(f"{RESULTS}/SHA256SUMS"),
}


def of(wildcards):
    """The study of a job: the variant that its wildcards name, or the whole study."""
    return of_job(study, wildcards)


def of_all_variants(files):
    """These files of every variant. They are `local`, a mark that `expand` does not take."""
    every = expand([str(file) for file in files], variant=study.variants)
    return local(every) if study.plan.axes else list(files)


def inputs_of(name):
    """A file of the datasets that a job reads, of its state or else of all."""
    return lambda wildcards: [
        f"{INPUTS}/{name}".format(
            inputs=study.plan.inputs[wildcards.get("variant", "")], state=state
        )
        for state in study.data.states
        if state == wildcards.get("state", state)
    ]


def data_settings(wildcards):
    """The part of the configuration that determines what is read of a state."""
    data = of(wildcards).data
    return sources.source_of(data).settings(data, wildcards.state)


def own_files(wildcards):
    """The content of the user's own files that the clients of a state are read from.

    They are no inputs: of those Snakemake sees only the times, but a file that replaces another may
    be older, and it looks for wildcards in names with braces.
    """
    data = of(wildcards).data
    return digests_of(sources.source_of(data).own_files(data, wildcards.state))


def alike(schemes):
    """These sharing schemes, in lists of those that have the same cells: methods may refuse some."""
    found = {}
    for scheme in schemes:
        own = [cell for cell in ANY.cells if cell.sharing == scheme]
        cells = [
            tuple(getattr(cell, a) for a in AXES if a != "sharing") for cell in own
        ]
        found.setdefault(tuple(cells), []).append(scheme)
    return [same for cells, same in found.items() if cells]


def training_rules(spanned, spanned_alone):
    """The rules that train: name, sharing schemes, axes that a job spans, its log, who trains.

    What a job spans is `spanned` or, if nothing is shared, `spanned_alone`.
    """
    if "sharing" in spanned:
        yield "train", ANY.grid.sharing, spanned, "", "federations and clients alone"
        return
    alone = [
        scheme for scheme in ANY.grid.sharing if ANY.plan.schemes.shares_nothing(scheme)
    ]
    federated = [scheme for scheme in ANY.grid.sharing if scheme not in alone]
    for name, schemes, *of_jobs in (
        ("train", federated, spanned, "", "federations"),
        ("train_local", alone, spanned_alone, ".local", "clients alone"),
    ):
        for number, same in enumerate(alike(schemes), 1):
            yield name if number == 1 else f"{name}_{number}", same, *of_jobs


def stacked(pattern, spanned, schemes):
    """The files of all cells that one job trains: cells of one of these sharing schemes, all of
    which have the same cells, that differ only in the `spanned` axes."""
    if not spanned:
        return [pattern]
    together = dict.fromkeys(
        tuple(getattr(cell, a) for a in spanned)
        for cell in ANY.cells
        if cell.sharing in schemes
    )
    values = dict(zip(spanned, zip(*together)))
    return expand(pattern, zip, **values, allow_missing=True)


def name_of_stack(spanned):
    """The axes, as wildcards, on which all cells of a job have the same value; `study` if none."""
    return "-".join(f"{{{axis}}}" for axis in AXES if axis not in spanned) or "study"


def named(spanned):
    """What the message of a training job begins with."""
    return "{wildcards}" if VARIANT or set(AXES) - set(spanned) else study.name


def cells_of(wildcards):
    """The cells that a training job trains."""
    return [
        cell
        for cell in of(wildcards).cells
        if all(
            str(getattr(cell, axis)) == value
            for axis, value in wildcards.items()
            if axis in AXES
        )
    ]


def training_settings(wildcards):
    """The part of the configuration that determines the results of a training job."""
    return {
        str(cell): of(wildcards).plan.settings(cell) for cell in cells_of(wildcards)
    }


def models_of(wildcards):
    """How many models a training job trains side by side at most, all trials included."""
    job = of(wildcards)
    return sum(
        job.plan.trials(cell) * job.data.clients_of(cell.state)
        for cell in cells_of(wildcards)
    )


def training_memory(wildcards, attempt):
    """Memory of a training job in megabytes.

    Measured with the paper's model: 0.4 GB for 12 models and 0.3 to 1.1 MB for each model, less per
    model the more there are. The data of the clients stay in their file, but some are kept for each.
    On a cluster, two Snakemake processes of 0.5 GB each run on the node (docs/clusters.md). A retry
    requests more.
    """
    states = {cell.state for cell in cells_of(wildcards)}
    clients = sum(map(of(wildcards).data.clients_of, states))
    return attempt * (2000 + clients + 3 * models_of(wildcards) // 4)


def training_minutes(wildcards, attempt):
    """Time limit of a training job in minutes, by the cost of a local step of its model on a CPU."""
    job = of(wildcards)
    cost = cost_of_step(job)
    # The cheaper a step, the more of the time goes into scoring the models of all clients.
    share = job.federation.participation if cost > 1 else 1
    steps = (
        math.ceil(share * models_of(wildcards))
        * job.federation.rounds
        * local_steps(job)
    )
    return attempt * (10 + int(steps * cost) // 60_000)


def training_digest(wildcards):
    """Fingerprint of the code that a training job runs."""
    return training_code(of(wildcards), cells_of(wildcards))


def one_of(names):
    """A wildcard constraint: one of `names`; matches nothing if there are none."""
    return "|".join(names) or "(?!)"


def baseline_minutes(wildcards, attempt):
    """Time limit of the baselines of a state in minutes.

    A client with a year of quarter hours takes a few seconds.
    """
    return attempt * (10 + of(wildcards).data.clients_of(wildcards.state) // 6)
