# A state of many clients: a job for each group of them, and one for what needs all together.
rule common_baselines:
    input:
        dataset=rules.windows.output.dataset,
        public=local(patterns.public_files),
    output:
        forecasts=temp(f"{INPUTS}/baselines/{{state}}.common.npz"),
        fitted=temp(f"{INPUTS}/baselines/{{state}}.common.safetensors"),
    log:
        f"{INPUTS}/logs/baselines/{{state}}.common.log",
    benchmark:
        f"{INPUTS}/benchmarks/baselines/{{state}}.common.tsv"
    resources:
        mem_mb=jobs.common_baselines_megabytes,
        runtime=jobs.baselines_minutes,
    params:
        jobs.baselines_settings,
    message:
        "{wildcards.state}: train the baselines that need all clients together"
    script:
        "../scripts/common_baselines.py"


rule baseline_group:
    input:
        dataset=rules.windows.output.dataset,
        common=rules.common_baselines.output.forecasts,
        public=local(patterns.public_files),
    output:
        scores=temp(f"{INPUTS}/baselines/{{state}}-{{group}}.parquet"),
        forecasts=temp(f"{INPUTS}/baselines/{{state}}-{{group}}.forecasts.parquet"),
        errors=temp(f"{INPUTS}/baselines/{{state}}-{{group}}.errors.parquet"),
        fitted=temp(f"{INPUTS}/baselines/{{state}}-{{group}}.safetensors"),
    log:
        f"{INPUTS}/logs/baselines/{{state}}-{{group}}.log",
    benchmark:
        f"{INPUTS}/benchmarks/baselines/{{state}}-{{group}}.tsv"
    resources:
        mem_mb=jobs.baseline_group_megabytes,
        runtime=jobs.baseline_group_minutes,
    params:
        jobs.baselines_settings,
    message:
        "{wildcards.state}: train and score the baselines, group {wildcards.group}"
    script:
        "../scripts/baseline_group.py"


rule baselines:
    input:
        dataset=rules.windows.output.dataset,
        public=local(patterns.public_files),
        common=jobs.group_files(rules.common_baselines.output.fitted),
        scores=jobs.group_files(rules.baseline_group.output.scores),
        forecasts=jobs.group_files(rules.baseline_group.output.forecasts),
        errors=jobs.group_files(rules.baseline_group.output.errors),
        fitted=jobs.group_files(rules.baseline_group.output.fitted),
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
        jobs.baselines_settings,
    message:
        "{wildcards.state}: train and score the baselines"
    script:
        "../scripts/baselines.py"
