# Hyperparameters are selected once for all seeds, so all seeds train in one job.
SPANNED = [axis for axis in AXES if axis not in COMMON_AXES[stack_of(study)]]
# Which methods a ServerOpt can be combined with may depend on the ClientOpt.
SPANNED_LOCAL = SPANNED + [
    axis
    for axis in (
        "method",
        "server_opt",
        *(["client_opt"] if ANY.plan.combinations.refusals else []),
    )
    if axis not in SPANNED
]


# With nothing shared, method and ServerOpt have no effect: trained once, reported under each.
for rule_name, schemes, spanned, suffix, who in training_rules(SPANNED, SPANNED_LOCAL):

    rule:
        name:
            rule_name
        input:
            datasets=inputs_of("data/{state}.npz"),
        output:
            records=stacked(f"{RESULTS}/cells/{CELL}.parquet", spanned, schemes),
            forecasts=stacked(
                f"{RESULTS}/cells/{CELL}.forecasts.parquet", spanned, schemes
            ),
            errors=stacked(f"{RESULTS}/cells/{CELL}.errors.parquet", spanned, schemes),
        log:
            f"{RESULTS}/logs/train/{name_of_stack(spanned)}{suffix}.log",
        benchmark:
            f"{RESULTS}/benchmarks/train/{name_of_stack(spanned)}{suffix}.tsv"
        wildcard_constraints:
            sharing=one_of(schemes),
        threads: study.compute.threads
        resources:
            mem_mb=training_memory,
            runtime=training_minutes,
        params:
            settings=training_settings,
            engine=[study.compute.engine, study.compute.device],
            code=training_digest,
        message:
            f"{named(spanned)}: train {who}"
        script:
            "../scripts/train.py"


CELLS = {
    "records": [f"{RESULTS}/cells/{cell}.parquet" for cell in ANY.cells],
    "forecasts": [f"{RESULTS}/cells/{cell}.forecasts.parquet" for cell in ANY.cells],
    "errors": [f"{RESULTS}/cells/{cell}.errors.parquet" for cell in ANY.cells],
}


rule collect:
    input:
        **CELLS,
        baselines=inputs_of("baselines/{state}.parquet"),
        baseline_forecasts=inputs_of("baselines/{state}.forecasts.parquet"),
        baseline_errors=inputs_of("baselines/{state}.errors.parquet"),
        datasets=inputs_of("data/{state}.npz"),
        receipts=local(inputs_of("data/{state}.files.json")),
    output:
        **TABLES,
    log:
        f"{RESULTS}/logs/collect.log",
    benchmark:
        f"{RESULTS}/benchmarks/collect.tsv"
    localrule: True
    params:
        study=lambda wildcards: of(wildcards).description(),
        code=code_digest("plfl.results.collect", *REPORTING.modules["collect"]),
    message:
        "Gather the cells into the study's tables"
    script:
        "../scripts/collect.py"


rule models:
    input:
        **TABLES,
        datasets=inputs_of("data/{state}.npz"),
        fitted=inputs_of("baselines/{state}.safetensors"),
    output:
        # The models themselves lie beside it: which cells they are of is known only now.
        index=local(f"{RESULTS}/models/index.csv"),
    log:
        f"{RESULTS}/logs/models.log",
    benchmark:
        f"{RESULTS}/benchmarks/models.tsv"
    localrule: True
    params:
        settings=training_settings,
        code=code_digest("plfl.pipeline.models"),
    message:
        "Keep the models of the best cells"
    script:
        "../scripts/models.py"
