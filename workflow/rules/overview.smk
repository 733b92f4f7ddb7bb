# A study with further axes: its variants side by side (docs/axes.md).
OVERVIEW = {
    "records": local(f"{study.paths.results}/records.parquet"),
    "summary": local(f"{study.paths.results}/summary.csv"),
    "best": local(f"{study.paths.results}/best.csv"),
    "comparisons": local(f"{study.paths.results}/comparisons.csv"),
    "about": local(f"{study.paths.results}/study.json"),
    "sums": local(f"{study.paths.results}/SHA256SUMS"),
    "page": local(f"{study.paths.results}/index.html"),
    **{
        stem: local(f"{study.paths.figures}/{stem}.png")
        for stem in REPORTING.drawn_files
    },
    **{
        k: local(f"{study.paths.results}/{file}")
        for k, file in REPORTING.further.items()
    },
}


if study.plan.axes:

    rule overview:
        input:
            of_all_variants(TABLES.values()),
        output:
            **OVERVIEW,
        log:
            f"{study.paths.results}/logs/overview.log",
        benchmark:
            f"{study.paths.results}/benchmarks/overview.tsv"
        localrule: True
        params:
            study=study.description(),
            code=code_digest(*REPORTING.modules["overview"]),
        message:
            "Put the variants side by side"
        script:
            "../scripts/overview.py"
