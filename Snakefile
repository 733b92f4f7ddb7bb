"""A study: buildings → windows → federations → tables → figures, page and MLflow."""

from plfl.base.interrupts import raise_on_ctrl_c, exit_on_ctrl_c

exit_on_ctrl_c()  # until the jobs begin

import itertools
import re
from importlib.util import find_spec
from pathlib import Path

from snakemake.utils import min_version

from plfl.base.errors import PlflError
from plfl.study import Study
from plfl.study.checks import left_out_claims
from plfl.config.messages import read
from plfl.pipeline import screen
from plfl.pipeline.damage import remove_damaged
from plfl.pipeline.jobs import announce, claim, warn_of_replacement

min_version("9.8")

# Snakemake would merge several configuration files, but a study is one file; keys that it does not
# have are defaults.
if not workflow.configfiles:

    configfile: "config.yaml"


if len(workflow.configfiles) > 1:
    listed = ", ".join(map(str, workflow.configfiles))
    raise screen.refusal_of(
        PlflError(
            f"a study is one file, but --configfile lists {len(workflow.configfiles)}: {listed}; "
            "list one"
        )
    )

try:
    for file in workflow.configfiles:
        read(file)  # refuses duplicate keys, which Snakemake accepts
    folder = Path(workflow.configfiles[0]).parent
    study = Study.parse(config, ", ".join(map(str, workflow.configfiles)), folder)
    if study.plugins:  # relative to the working directory, which jobs know
        config["plugins"] = list(map(str, study.plugins))
except PlflError as error:
    raise screen.refusal_of(error) from None
screen.complete(lambda: announce(study))
if workflow.is_main_process and not workflow.output_settings.dryrun:
    screen.say(remove_damaged(study))

# A study with further axes has variants (docs/axes.md). Each is a study in a folder of its own; those
# that differ in no axis of the data share their datasets.
VARIANT = ["{variant}"] if study.plan.axes else []
INPUT = ["{inputs}"] if any(study.plan.inputs.values()) else []
RESULTS = "/".join([str(study.paths.results), *VARIANT])
FIGURES = "/".join([str(study.paths.figures), *VARIANT])
INPUTS = "/".join([str(study.paths.results), *INPUT])


wildcard_constraints:
    state="[A-Za-z0-9_]+",
    sharing="[A-Za-z0-9_]+",
    method="[a-z0-9_]+",
    client_opt="[a-z0-9_]+",
    server_opt="[a-z0-9_]+",
    seed="[0-9]+",
    variant="|".join(map(re.escape, study.variants)),
    inputs="|".join(map(re.escape, set(study.plan.inputs.values()))),


include: "workflow/rules/common.smk"
include: "workflow/rules/data.smk"
include: "workflow/rules/baselines.smk"
include: "workflow/rules/train.smk"
include: "workflow/rules/figures.smk"
include: "workflow/rules/track.smk"
include: "workflow/rules/overview.smk"


# What a study without further axes, or each variant, consists of.
OWN_FILES = [
    *TABLES.values(),
    *PICTURES,
    *DRAWINGS,
    *PRINTS,
    local(f"{RESULTS}/index.html"),
    # Models that forecast.
    *([local(f"{RESULTS}/models/index.csv")] if study.task.forecasts else []),
]


ALL_FILES = [*OVERVIEW.values()] if study.plan.axes else OWN_FILES


rule all:
    default_target: True
    input:
        ALL_FILES,
        # Their tables have what they hold, but a file that was deleted is missing all the same.
        expand(list(itertools.chain(*CELLS.values())), variant=study.variants),
        # MLflow compares forecasters.
        (
            local(f"{study.paths.results}/tracked.json")
            if study.tracking.enabled and study.task.forecasts and find_spec("mlflow")
            else []
        ),
    message:
        f"The study {study.name!r} is complete"


# The page, figures and models of every variant.
rule variants:
    input:
        rules.all.input,
        of_all_variants(OWN_FILES),
    message:
        f"All variants of the study {study.name!r} have a page"


onstart:
    raise_on_ctrl_c()
    if workflow.is_main_process:
        try:
            claim(study)
        except PlflError as error:
            raise screen.refusal_of(error) from None
        screen.say(warn_of_replacement(study))
        screen.say("\n".join(left_out_claims(study.claims, study.data.states)))
        screen.begin(study.name, study.paths.results / "logs" / "snakemake.log")


onsuccess:
    screen.say(announce(study))


onerror:
    screen.say(
        f"\nThe study {study.name!r} is not finished. Correct the error above, if there is one, and"
        " run the same command again: it continues where it stopped.\n"
    )
