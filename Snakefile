"""The workflow, for Snakemake in a clone."""


include: "workflow/Snakefile"


workflow.default_target = "all"  # rules that are included are none
