from pathlib import Path

from plfl.data.windows import Dataset
from plfl.experiment import train
from plfl.files import sha256
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
    trained = Trained(study.results / "trained")
    new = [cell for cell in wanted if not trained.recall(digests[cell], *wanted[cell])]
    if new:
        progress = Progress("-".join(snakemake.wildcards), study.federation.rounds)
        for cell, result in train(study, new, Dataset.load_file(dataset), progress).items():
            trained.keep(digests[cell], result, *wanted[cell])
