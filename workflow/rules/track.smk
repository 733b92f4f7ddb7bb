rule track:
    message:
        "Log the study into its MLflow database"
    input:
        PICTURES,
        **TABLES,
    output:
        # The database is no output: Snakemake would delete it, with all that others logged there.
        done=f"{RESULTS}/tracked.json",
    log:
        f"{RESULTS}/logs/track.log",
    benchmark:
        f"{RESULTS}/benchmarks/track.tsv"
    params:
        code=code_digest("plfl.tracking.store"),
    conda:
        "../../environment.yml"
    localrule: True
    script:
        "../scripts/track.py"
