# Models of the study's own meters for others, which its baselines may name (docs/public.md).
if study.public_files:

    rule public:
        output:
            model=local(f"{study.paths.public}/{{public}}.xz"),
        log:
            f"{study.paths.results}/logs/public/{{public}}.log",
        benchmark:
            f"{study.paths.results}/benchmarks/public/{{public}}.tsv"
        localrule: True
        params:
            states=jobs.public_states,
            code=code_digest("plfl.pipeline.public_models", jobs.source_module),
        message:
            "Train the public model {wildcards.public}"
        script:
            "../scripts/public.py"
