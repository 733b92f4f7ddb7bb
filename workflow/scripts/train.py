from pathlib import Path

from plfl.checkpoint import Checkpoint
from plfl.data.windows import Dataset
from plfl.experiment import train
from plfl.files import sha256
from plfl.locks import hold
from plfl.results.trained import Trained
from plfl.study import digest
from plfl.training import choose
from plfl.workflow import Progress, job, training_code

with job(snakemake) as study:
    names = {str(cell): cell for cell in study.cells}
    outputs = zip(snakemake.output.records, snakemake.output.forecasts, strict=True)
    wanted = {names[Path(r).stem]: (Path(r), Path(f)) for r, f in outputs}

    dataset = Path(snakemake.input.dataset)
    shared = [sha256(dataset), *choose(study.compute)]
    digests = {
        cell: digest(str(cell), study.settings(cell), training_code([cell]), *shared)
        for cell in wanted
    }
    folder = study.results / "trained"
    trained = Trained(folder)
    # A training that outlived its Snakemake may still be at it: what it finishes is taken over.
    name = digest(list(digests.values()))
    with hold(folder / f".{name}.lock"):
        new = [cell for cell in wanted if not trained.recall(digests[cell], *wanted[cell])]
        key = digest([digests[cell] for cell in new])
        every = study.compute.checkpoint_seconds
        checkpoint = Checkpoint(folder / f"{name}.checkpoint", key, every)
        if new:
            progress = Progress("-".join(snakemake.wildcards), study.rungs)
            results = train(study, new, Dataset.load_file(dataset), progress, checkpoint)
            for cell, result in results.items():
                trained.keep(digests[cell], result, *wanted[cell])
        checkpoint.remove()
