"""The results of a study: records, scores, summaries, statistics and claims."""
