STEMS = REPORTING.stems(study)
PICTURES = [local(f"{FIGURES}/{stem}.png") for stem in STEMS]
DRAWINGS = [local(f"{FIGURES}/{stem}.svg") for stem in STEMS]
PRINTS = [local(f"{FIGURES}/{stem}.pdf") for stem in STEMS]


# One job for all: starting Python and importing the libraries takes longer than drawing a figure.
rule figures:
    input:
        **TABLES,
    output:
        PICTURES,
        DRAWINGS,
        PRINTS,
    log:
        f"{RESULTS}/logs/figures.log",
    benchmark:
        f"{RESULTS}/benchmarks/figures.tsv"
    localrule: True
    params:
        plugins={plugin.origin: plugin.digest for plugin in active(study.plugins)},
        code=code_digest(*REPORTING.modules["figures"]),
    message:
        "Draw the figures"
    script:
        "../scripts/figures.py"


rule page:
    input:
        DRAWINGS,
        # Beside it are the errors by lead time, and those of the sum.
        [local(f"{RESULTS}/models/index.csv")] if study.task.forecasts else [],
        **TABLES,
    output:
        page=local(f"{RESULTS}/index.html"),
    log:
        f"{RESULTS}/logs/page.log",
    benchmark:
        f"{RESULTS}/benchmarks/page.tsv"
    localrule: True
    params:
        code=code_digest(*REPORTING.modules["page"]),
    message:
        "Write the report of the study"
    script:
        "../scripts/page.py"
