rule track:
    input:
        tables=local(patterns.variant_files(rules.collect.output)),
        about=(
            local(rules.overview.output.about)
            if study.plan.axes
            else local(rules.figures.output.pictures)
        ),
    output:
        # The database is not an output: Snakemake would delete it, including runs that others logged.
        done=local(f"{study.paths.results}/tracked.json"),
    log:
        f"{study.paths.results}/logs/track.log",
    benchmark:
        f"{study.paths.results}/benchmarks/track.tsv"
    localrule: True
    params:
        code=code_digest("plfl.publish.tracking"),
    message:
        "Log the study into MLflow"
    script:
        "../scripts/track.py"
