rule baselines:
    input:
        dataset=rules.windows.output.dataset,
    output:
        scores=f"{INPUTS}/baselines/{{state}}.parquet",
        forecasts=f"{INPUTS}/baselines/{{state}}.forecasts.parquet",
        errors=f"{INPUTS}/baselines/{{state}}.errors.parquet",
        fitted=f"{INPUTS}/baselines/{{state}}.safetensors",
    log:
        f"{INPUTS}/logs/baselines/{{state}}.log",
    benchmark:
        f"{INPUTS}/benchmarks/baselines/{{state}}.tsv"
    threads: study.compute.threads
    resources:
        mem_mb=jobs.baselines_megabytes,
        runtime=jobs.baselines_minutes,
    params:
        baselines=study.baselines.model_dump(),
        task=jobs.task,
        divided=jobs.divided,
        code=jobs.baselines_code,
    message:
        "{wildcards.state}: train and score the baselines"
    script:
        "../scripts/baselines.py"
