rule track:
    input:
        of_all_variants(TABLES.values()),
        f"{study.results}/study.json" if study.axes else PICTURES,
    output:
        # The database is not an output: Snakemake would delete it, including runs that others logged.
        done=local(f"{study.results}/tracked.json"),
    log:
        f"{study.results}/logs/track.log",
    benchmark:
        f"{study.results}/benchmarks/track.tsv"
    localrule: True
    params:
        code=code_digest("plfl.publish.tracking"),
    message:
        "Log the study into MLflow"
    script:
        "../scripts/track.py"
