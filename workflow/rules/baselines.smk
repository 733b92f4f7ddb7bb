rule baselines:
    input:
        dataset=f"{RESULTS}/data/{{state}}.npz",
    output:
        scores=f"{RESULTS}/baselines/{{state}}.parquet",
        forecasts=f"{RESULTS}/baselines/{{state}}.forecasts.parquet",
    log:
        f"{RESULTS}/logs/baselines/{{state}}.log",
    benchmark:
        f"{RESULTS}/benchmarks/baselines/{{state}}.tsv"
    conda:
        "../../environment.yml"
    resources:
        mem_mb=lambda wildcards, attempt: attempt * (2000 + 60 * study.data.clients),
        runtime=baseline_minutes,
    params:
        baselines=study.baselines.model_dump(),
        images=(
            [study.data.clients, study.data.skew.model_dump(), study.grid.seeds]
            if study.data.is_images
            else []
        ),
        code=code_digest(
            "plfl.experiments.image_baselines"
            if study.data.is_images
            else "plfl.experiments.baselines"
        ),
    message:
        "{wildcards.state}: train and score the baselines"
    script:
        "../scripts/baselines.py"
