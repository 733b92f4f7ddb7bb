PICTURES, DRAWINGS = [], []

for figure, stems in figures.available().items():
    pictures = [local(f"{FIGURES}/{stem}.png") for stem in stems]
    drawings = [local(f"{FIGURES}/{stem}.svg") for stem in stems]
    PICTURES += pictures
    DRAWINGS += drawings

    rule:
        name:
            figure
        input:
            **TABLES,
        output:
            report(
                pictures,
                caption=f"../report/{figure}.rst",
                category="Figures",
            ),
            drawings,
            [local(f"{FIGURES}/{stem}.pdf") for stem in stems],
        log:
            f"{RESULTS}/logs/figures/{figure}.log",
        benchmark:
            f"{RESULTS}/benchmarks/figures/{figure}.tsv"
        localrule: True
        conda:
            "../../environment.yml"
        params:
            figure=figure,
            code=code_digest(f"plfl.figures.{figure}"),
        message:
            f"Draw {figure}"
        script:
            "../scripts/figure.py"


rule page:
    input:
        DRAWINGS,
        # An audit that was made since the page was written makes it be written anew.
        [local(str(file)) for file in page.extras(study.results)],
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
        code=code_digest("plfl.page"),
    message:
        "Write the page that shows the study"
    script:
        "../scripts/page.py"
