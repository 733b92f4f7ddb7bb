rule track:
    input:
        PICTURES,
        **TABLES,
    output:
        # The database is not an output: Snakemake would delete it, including runs that others logged.
        done=local(f"{RESULTS}/tracked.json"),
    log:
        f"{RESULTS}/logs/track.log",
    benchmark:
        f"{RESULTS}/benchmarks/track.tsv"
    localrule: True
    conda:
        "../../environment.yml"
    params:
        code=code_digest("plfl.tracking.store"),
    message:
        "Log the study into its MLflow database"
    script:
        "../scripts/track.py"
