rule download:
    message:
        f"{{wildcards.state}}: fetch the clients' files ({study.data.source})"
    input:
        own_files,
    output:
        receipt=f"{RESULTS}/data/{{state}}.files.json",
    log:
        f"{RESULTS}/logs/download/{{state}}.log",
    benchmark:
        f"{RESULTS}/benchmarks/download/{{state}}.tsv"
    params:
        data=study.data.model_dump(mode="json", exclude={"states"}),
        code=code_digest(source.MODULES[study.data.source]),
    conda:
        "../../environment.yml"
    localrule: True
    script:
        "../scripts/download.py"


rule windows:
    message:
        "{wildcards.state}: make windows"
    input:
        receipt=f"{RESULTS}/data/{{state}}.files.json",
    output:
        dataset=f"{RESULTS}/data/{{state}}.npz",
    log:
        f"{RESULTS}/logs/windows/{{state}}.log",
    benchmark:
        f"{RESULTS}/benchmarks/windows/{{state}}.tsv"
    params:
        data=study.data.model_dump(mode="json", exclude={"states"}),
        windows=study.windows.model_dump(mode="json"),
        code=code_digest("plfl.data.source", "plfl.data.windows"),
    conda:
        "../../environment.yml"
    script:
        "../scripts/windows.py"
