# The files of a cell.
RECORDS, FORECASTS, ERRORS = (
    f"{RESULTS}/cells/{CELL_NAME}{ending}.parquet"
    for ending in ("", ".forecasts", ".errors")
)


for training_rule in training.rules:

    rule:
        name:
            training_rule.name
        input:
            datasets=patterns.state_files(rules.windows.output.dataset),
        output:
            records=training_rule.files(RECORDS),
            forecasts=training_rule.files(FORECASTS),
            errors=training_rule.files(ERRORS),
        log:
            f"{RESULTS}/logs/train/{training_rule.log}.log",
        benchmark:
            f"{RESULTS}/benchmarks/train/{training_rule.log}.tsv"
        wildcard_constraints:
            sharing=training_rule.schemes_expression,
        threads: study.compute.threads
        resources:
            mem_mb=training.megabytes,
            runtime=training.minutes,
        params:
            settings=training.settings,
            engine=[study.compute.engine, study.compute.device],
            code=training.code,
        message:
            training_rule.message(bool(study.plan.axes))
        script:
            "../scripts/train.py"


rule collect:
    input:
        records=patterns.cell_files(RECORDS),
        forecasts=patterns.cell_files(FORECASTS),
        errors=patterns.cell_files(ERRORS),
        baselines=patterns.state_files(rules.baselines.output.scores),
        baseline_forecasts=patterns.state_files(rules.baselines.output.forecasts),
        baseline_errors=patterns.state_files(rules.baselines.output.errors),
        datasets=patterns.state_files(rules.windows.output.dataset),
        receipts=local(patterns.state_files(rules.download.output.receipt)),
    output:
        records=local(f"{RESULTS}/records.parquet"),
        forecasts=local(f"{RESULTS}/forecasts.parquet"),
        errors=local(f"{RESULTS}/errors.parquet"),
        baselines=local(f"{RESULTS}/baselines.parquet"),
        baseline_forecasts=local(f"{RESULTS}/baseline_forecasts.parquet"),
        clients=local(f"{RESULTS}/clients.parquet"),
        summary=local(f"{RESULTS}/summary.csv"),
        about=local(f"{RESULTS}/study.json"),
    log:
        f"{RESULTS}/logs/collect.log",
    benchmark:
        f"{RESULTS}/benchmarks/collect.tsv"
    localrule: True
    params:
        study=jobs.description,
        code=method_digest(jobs.scoring.collect, "plfl.results.collect"),
    message:
        "Gather the cells into the study's tables"
    script:
        "../scripts/collect.py"


rule comparisons:
    input:
        tables=local(rules.collect.output),
    output:
        comparisons=local(f"{RESULTS}/comparisons.csv"),
        sums=local(f"{RESULTS}/SHA256SUMS"),
    log:
        f"{RESULTS}/logs/comparisons.log",
    benchmark:
        f"{RESULTS}/benchmarks/comparisons.tsv"
    localrule: True
    params:
        code=method_digest(jobs.scoring.compare_variants, "plfl.results.comparisons"),
    message:
        "Compare the forecasters"
    script:
        "../scripts/comparisons.py"


rule models:
    input:
        tables=local(rules.collect.output),
        datasets=patterns.state_files(rules.windows.output.dataset),
        fitted=patterns.state_files(rules.baselines.output.fitted),
    output:
        # The models themselves lie beside it: which cells they are of is known only now.
        index=local(f"{RESULTS}/models/index.csv"),
    log:
        f"{RESULTS}/logs/models.log",
    benchmark:
        f"{RESULTS}/benchmarks/models.tsv"
    localrule: True
    params:
        settings=training.settings,
        code=code_digest("plfl.pipeline.models"),
    message:
        "Keep the models of the best cells"
    script:
        "../scripts/models.py"
