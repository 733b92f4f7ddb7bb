SOURCE = type(sources.source_of(study.data)).__module__


rule download:
    output:
        receipt=local(f"{INPUTS}/data/{{state}}.files.json"),
    log:
        f"{INPUTS}/logs/download/{{state}}.log",
    benchmark:
        f"{INPUTS}/benchmarks/download/{{state}}.tsv"
    localrule: True
    params:
        data=data_settings,
        files=own_files,
        code=code_digest(SOURCE),
    message:
        f"{{wildcards.state}}: fetch the clients' files ({study.data.source})"
    script:
        "../scripts/download.py"


rule windows:
    input:
        receipt=local(f"{INPUTS}/data/{{state}}.files.json"),
    output:
        dataset=f"{INPUTS}/data/{{state}}.npz",
    log:
        f"{INPUTS}/logs/windows/{{state}}.log",
    benchmark:
        f"{INPUTS}/benchmarks/windows/{{state}}.tsv"
    localrule: True
    params:
        data=data_settings,
        windows=lambda wildcards: of(wildcards).windows.model_dump(mode="json"),
        code=code_digest("plfl.data.sources", SOURCE),
    message:
        "{wildcards.state}: make windows"
    script:
        "../scripts/windows.py"
