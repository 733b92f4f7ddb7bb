"""What the rules of the Snakemake workflow call: jobs, code digests and locks."""
