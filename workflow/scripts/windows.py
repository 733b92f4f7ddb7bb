"""Make the examples of a state's clients: cut their series into windows, or read images."""

from pathlib import Path

from plfl.base.interrupts import exit_on_ctrl_c

exit_on_ctrl_c()

from plfl.base.lazy import pause_garbage_collection

with pause_garbage_collection():
    from plfl.data import sources
    from plfl.data.sources import read_receipt, verify
    from plfl.pipeline.jobs import job
    from plfl.study import Study


def make_windows(study: Study, state: str, receipt: Path, dataset: Path) -> None:
    """Check that the files in `receipt` are unchanged, then write `dataset` from them."""
    verify(read_receipt(receipt))
    sources.source_of(study.data).save(study, state, dataset)


if __name__ == "__main__":
    with job(snakemake) as study:
        make_windows(
            study,
            snakemake.wildcards.state,
            Path(snakemake.input.receipt),
            Path(snakemake.output.dataset),
        )
