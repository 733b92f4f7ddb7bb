# One job for all: starting Python and importing the libraries takes longer than drawing a figure.
rule figures:
    input:
        tables=local(rules.collect.output),
    output:
        pictures=local(patterns.figure_files("png")),
        drawings=local(patterns.figure_files("svg")),
        prints=local(patterns.figure_files("pdf")),
    log:
        f"{RESULTS}/logs/figures.log",
    benchmark:
        f"{RESULTS}/benchmarks/figures.tsv"
    localrule: True
    params:
        code=jobs.figures_code,
    message:
        "Draw the figures"
    script:
        "../scripts/figures.py"


rule page:
    input:
        drawings=local(rules.figures.output.drawings),
        # Beside it are the errors by lead time, and those of the sum.
        models=local(rules.models.output if study.task.forecasts else []),
        tables=local(rules.collect.output),
        comparisons=local(rules.comparisons.output),
    output:
        page=local(f"{RESULTS}/index.html"),
    log:
        f"{RESULTS}/logs/page.log",
    benchmark:
        f"{RESULTS}/benchmarks/page.tsv"
    localrule: True
    params:
        code=method_digest(jobs.reporting.write),
    message:
        "Write the report of the study"
    script:
        "../scripts/page.py"
