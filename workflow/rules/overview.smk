# A study with further axes: its variants side by side (docs/axes.md).
OVERVIEW = {
    "records": local(f"{study.results}/records.parquet"),
    "summary": local(f"{study.results}/summary.csv"),
    "best": local(f"{study.results}/best.csv"),
    "comparisons": local(f"{study.results}/comparisons.csv"),
    "about": local(f"{study.results}/study.json"),
    "sums": local(f"{study.results}/SHA256SUMS"),
    "page": local(f"{study.results}/index.html"),
    **{stem: local(f"{study.figures}/{stem}.png") for stem in REPORTING.drawn_files},
    **{k: local(f"{study.results}/{file}") for k, file in REPORTING.further.items()},
}


if study.axes:

    rule overview:
        input:
            of_all_variants(TABLES.values()),
        output:
            **OVERVIEW,
        log:
            f"{study.results}/logs/overview.log",
        benchmark:
            f"{study.results}/benchmarks/overview.tsv"
        localrule: True
        params:
            study=study.description(),
            code=code_digest(*REPORTING.modules["overview"]),
        message:
            "Put the variants side by side"
        script:
            "../scripts/overview.py"
