"""A study: buildings → windows → federations → tables → figures, page and MLflow."""

from plfl.base.interrupts import raise_on_ctrl_c, exit_on_ctrl_c

exit_on_ctrl_c()  # until the jobs begin

from importlib.util import find_spec

from snakemake.utils import min_version

from plfl.pipeline import screen, startup
from plfl.pipeline.damage import remove_damaged
from plfl.pipeline.file_patterns import CELL, FilePatterns
from plfl.pipeline.fingerprint import code_digest
from plfl.pipeline.job_parameters import JobParameters
from plfl.pipeline.jobs import announce
from plfl.pipeline.training_jobs import TrainingJobs

min_version("9.8")

# Keys that the file does not have are defaults.
if not workflow.configfiles:

    configfile: "config.yaml"


study = startup.read_study(config, workflow.configfiles)
if workflow.is_main_process and not workflow.output_settings.dryrun:
    screen.say(remove_damaged(study))

# Files marked `local` stay on this machine even if jobs exchange files through a bucket.
patterns = FilePatterns(study)
RESULTS, FIGURES, INPUTS = patterns.results, patterns.figures, patterns.inputs
jobs = JobParameters(study)
training = TrainingJobs(study)


wildcard_constraints:
    **patterns.constraints,


include: "workflow/rules/data.smk"
include: "workflow/rules/baselines.smk"
include: "workflow/rules/train.smk"
include: "workflow/rules/figures.smk"
include: "workflow/rules/track.smk"
include: "workflow/rules/overview.smk"


# What a study without further axes, or each variant, consists of.
OWN_FILES = [
    *rules.collect.output,
    *rules.figures.output,
    *rules.page.output,
    # Models that forecast.
    *(rules.models.output if study.task.forecasts else []),
]


rule all:
    default_target: True
    input:
        local(rules.overview.output if study.plan.axes else OWN_FILES),
        # Their tables have what they hold, but a file that was deleted is missing all the same.
        patterns.of_variants(CELLS),
        # MLflow compares forecasters.
        (
            local(rules.track.output)
            if study.tracking.enabled and study.task.forecasts and find_spec("mlflow")
            else []
        ),
    message:
        f"The study {study.name!r} is complete"


# The page, figures and models of every variant.
rule variants:
    input:
        rules.all.input,
        local(patterns.of_variants(OWN_FILES)),
    message:
        f"All variants of the study {study.name!r} have a page"


onstart:
    raise_on_ctrl_c()
    if workflow.is_main_process:
        startup.begin_jobs(study)


onsuccess:
    screen.say(announce(study))


onerror:
    startup.report_failure(study)
