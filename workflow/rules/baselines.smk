BASELINES_OF_STUDY = [*map(study.baselines.find, study.baselines.names)]


rule baselines:
    input:
        dataset=f"{INPUTS}/data/{{state}}.npz",
    output:
        scores=f"{INPUTS}/baselines/{{state}}.parquet",
        forecasts=f"{INPUTS}/baselines/{{state}}.forecasts.parquet",
        errors=f"{INPUTS}/baselines/{{state}}.errors.parquet",
        fitted=f"{INPUTS}/baselines/{{state}}.safetensors",
    log:
        f"{INPUTS}/logs/baselines/{{state}}.log",
    benchmark:
        f"{INPUTS}/benchmarks/baselines/{{state}}.tsv"
    resources:
        mem_mb=lambda wildcards, attempt: attempt
        * (2000 + 60 * of(wildcards).data.clients_of(wildcards.state)),
        runtime=baseline_minutes,
    params:
        baselines=study.baselines.model_dump(),
        plugins=signature(*map(type, BASELINES_OF_STUDY)),
        task=lambda wildcards: of(wildcards).task.settings,
        divided=lambda wildcards: REPORTING.divided(of(wildcards)),
        code=code_digest(
            *REPORTING.modules["baselines"],
            *[type(baseline).__module__ for baseline in BASELINES_OF_STUDY],
        ),
    message:
        "{wildcards.state}: train and score the baselines"
    script:
        "../scripts/baselines.py"
