"""The whole study: buildings → windows → federations → tables → figures, page and MLflow."""

from snakemake.exceptions import WorkflowError
from snakemake.utils import min_version

from plfl.errors import PlflError
from plfl.study import Study, read
from plfl.workflow import announce, claim

min_version("9.8")

# Snakemake merges configuration files, but a study is one file: what it leaves out has a default.
if not workflow.configfiles:

    configfile: "config.yaml"


if len(workflow.configfiles) > 1:
    raise WorkflowError(
        f"a study is one file, but --configfile names {len(workflow.configfiles)}: "
        f"{', '.join(map(str, workflow.configfiles))}; name one"
    )

try:
    for file in workflow.configfiles:
        read(file)  # Snakemake itself forgets a key that is there twice
    study = Study.parse(config, ", ".join(map(str, workflow.configfiles)))
except PlflError as error:
    raise WorkflowError(str(error)) from None

RESULTS = str(study.results)
FIGURES = str(study.figures)


wildcard_constraints:
    state="[A-Za-z0-9_]+",
    personalization="[A-Za-z0-9_]+",
    method="[a-z0-9_]+",
    client_opt="[a-z0-9_]+",
    server_opt="[a-z0-9_]+",
    seed="[0-9]+",


include: "workflow/rules/common.smk"
include: "workflow/rules/data.smk"
include: "workflow/rules/train.smk"
include: "workflow/rules/figures.smk"
include: "workflow/rules/track.smk"


report: "workflow/report/workflow.rst"


rule all:
    default_target: True
    input:
        TABLES.values(),
        PICTURES,
        local(f"{RESULTS}/index.html"),
        local(f"{RESULTS}/tracked.json") if study.tracking.enabled else [],
    message:
        f"The study {study.name!r} is complete"


onstart:
    if workflow.is_main_process:
        try:
            claim(study)
        except PlflError as error:
            raise WorkflowError(str(error)) from None


onsuccess:
    print(announce(study))
