"""What Snakemake does before the jobs of a study: reads it, and makes its folders ready."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from plfl.base.errors import PlflError, Problem
from plfl.config.error_messages import read
from plfl.pipeline import screen
from plfl.pipeline.jobs import prepare_results, replacement_warning, results_message
from plfl.study import Study
from plfl.study.checks.claims import left_out_claims


def read_study(config: dict[str, Any], files: Sequence[Path | str]) -> Study:
    """The study in a configuration that Snakemake has read from `files`; WorkflowError if it has
    errors, or if there are several files: Snakemake would merge them, but a study is one file. The
    paths of plug-ins in the configuration become relative to the working directory, which jobs
    know."""
    names = ", ".join(map(str, files))
    try:
        if len(files) > 1:
            raise PlflError(
                Problem(
                    "",
                    f"a study is one file, but --configfile lists {len(files)}: {names}",
                    "list one",
                )
            )
        read(files[0])  # refuses duplicate keys, which Snakemake accepts
        study = Study.parse(config, names, Path(files[0]).parent)
    except PlflError as error:
        raise screen.refusal_of(error) from None
    if study.plugins:
        config["plugins"] = list(map(str, study.plugins))
    screen.complete(lambda: results_message(study))
    return study


def read_module(config: dict[str, Any], folder: str) -> Study:
    """The study in the configuration of a module of another workflow, where the folder `results`
    is `folder`; WorkflowError if it has errors, or if the module moves the folders. Paths of
    plug-ins are relative to the working directory."""
    source = "the configuration of the module"
    try:
        if not config:
            raise PlflError(
                Problem(
                    "", f"{source} is empty", "give the module the keys of a study as `config:`"
                )
            )
        if folder != "results":
            raise PlflError(
                Problem(
                    "",
                    "the module has a `prefix:` or `replace_prefix:`, but the files of a study "
                    "are in results/NAME and figures/NAME",
                    "leave it out",
                )
            )
        return Study.parse(config, source, Path())
    except PlflError as error:
        raise screen.refusal_of(error) from None


def begin_jobs(study: Study) -> None:
    """Claim the folders of a study and show its progress from now on; WorkflowError if that
    fails."""
    try:
        prepare_results(study)
    except PlflError as error:
        raise screen.refusal_of(error) from None
    screen.say(replacement_warning(study))
    screen.say("\n".join(left_out_claims(study.claims, study.data.states)))
    screen.begin(study.name, study.paths.results / "logs" / "snakemake.log")


def report_failure(study: Study) -> None:
    """Say that a study is not finished, and what to do."""
    screen.say(
        f"\nThe study {study.name!r} is not finished. Correct the error above, if there is one, and"
        " run the same command again: it continues where it stopped.\n"
    )
