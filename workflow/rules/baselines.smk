rule baselines:
    input:
        dataset=f"{INPUTS}/data/{{state}}.npz",
    output:
        scores=f"{INPUTS}/baselines/{{state}}.parquet",
        forecasts=f"{INPUTS}/baselines/{{state}}.forecasts.parquet",
        errors=f"{INPUTS}/baselines/{{state}}.errors.parquet",
    log:
        f"{INPUTS}/logs/baselines/{{state}}.log",
    benchmark:
        f"{INPUTS}/benchmarks/baselines/{{state}}.tsv"
    conda:
        "../../environment.yml"
    resources:
        mem_mb=lambda wildcards, attempt: attempt
        * (2000 + 60 * of(wildcards).data.clients_of(wildcards.state)),
        runtime=baseline_minutes,
    params:
        baselines=study.baselines.model_dump(),
        plugins=signature(*map(type, study.baselines.further)),
        task=lambda wildcards: of(wildcards).task.settings,
        divided=lambda wildcards: REPORTING.divided(of(wildcards)),
        code=code_digest(
            *REPORTING.modules["baselines"],
            *[type(one).__module__ for one in study.baselines.further],
        ),
    message:
        "{wildcards.state}: train and score the baselines"
    script:
        "../scripts/baselines.py"
