# A study with further axes: its variants side by side (docs/axes.md).
if study.plan.axes:

    rule overview:
        input:
            tables=local(patterns.variant_files(rules.collect.output)),
            comparisons=local(patterns.variant_files(rules.comparisons.output)),
            latest=local(patterns.latest_files(rules.page.output)),  # has a link to it
        output:
            records=local(f"{study.paths.results}/records.parquet"),
            summary=local(f"{study.paths.results}/summary.csv"),
            best=local(f"{study.paths.results}/best.csv"),
            comparisons=local(f"{study.paths.results}/comparisons.csv"),
            about=local(f"{study.paths.results}/study.json"),
            sums=local(f"{study.paths.results}/SHA256SUMS"),
            page=local(f"{study.paths.results}/index.html"),
            further=local(patterns.overview),
        log:
            f"{study.paths.results}/logs/overview.log",
        benchmark:
            f"{study.paths.results}/benchmarks/overview.tsv"
        localrule: True
        params:
            study=study.description(),
            code=[
                method_digest(jobs.reporting.write_overview),
                method_digest(jobs.scoring.compare_variants),
            ],
        message:
            "Put the variants side by side"
        script:
            "../scripts/overview.py"
