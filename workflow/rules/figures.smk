STEMS = REPORTING.stems(study)
PICTURES = [local(f"{FIGURES}/{stem}.png") for stem in STEMS]
DRAWINGS = [local(f"{FIGURES}/{stem}.svg") for stem in STEMS]
PRINTS = [local(f"{FIGURES}/{stem}.pdf") for stem in STEMS]


# One job for all: starting Python and importing the libraries takes longer than drawing a figure.
rule figures:
    input:
        **TABLES,
    output:
        [
            report(
                local(f"{FIGURES}/{stem}.png"),
                caption="../report/figure.rst",
                category="Figures",
                labels={"figure": stem},
            )
            for stem in STEMS
        ],
        DRAWINGS,
        PRINTS,
    log:
        f"{RESULTS}/logs/figures.log",
    benchmark:
        f"{RESULTS}/benchmarks/figures.tsv"
    localrule: True
    conda:
        "../../environment.yml"
    params:
        captions=REPORTING.captions(study),
        plugins={plugin.name: plugin.digest for plugin in active(study.plugins)},
        code=code_digest(*REPORTING.modules["figures"]),
    message:
        "Draw the figures"
    script:
        "../scripts/figures.py"


rule page:
    input:
        DRAWINGS,
        **TABLES,
    output:
        page=report(
            local(f"{RESULTS}/index.html"),
            caption="../report/page.rst",
            category="Start here",
        ),
    log:
        f"{RESULTS}/logs/page.log",
    benchmark:
        f"{RESULTS}/benchmarks/page.tsv"
    localrule: True
    conda:
        "../../environment.yml"
    params:
        code=code_digest(*REPORTING.modules["page"]),
    message:
        "Write the report of the study"
    script:
        "../scripts/page.py"
