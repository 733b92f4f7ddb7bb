rule download:
    output:
        receipt=local(f"{INPUTS}/data/{{state}}.files.json"),
    log:
        f"{INPUTS}/logs/download/{{state}}.log",
    benchmark:
        f"{INPUTS}/benchmarks/download/{{state}}.tsv"
    localrule: True
    params:
        data=jobs.data_settings,
        files=jobs.own_files,
        code=code_digest(jobs.source_module),
    message:
        f"{{wildcards.state}}: fetch the clients' files ({study.data.source})"
    script:
        "../scripts/download.py"


rule windows:
    input:
        receipt=local(rules.download.output.receipt),
    output:
        dataset=f"{INPUTS}/data/{{state}}.npz",
    log:
        f"{INPUTS}/logs/windows/{{state}}.log",
    benchmark:
        f"{INPUTS}/benchmarks/windows/{{state}}.tsv"
    localrule: True
    params:
        data=jobs.data_settings,
        windows=jobs.windows,
        code=code_digest("plfl.data.sources", jobs.source_module),
    message:
        "{wildcards.state}: make windows"
    script:
        "../scripts/windows.py"
