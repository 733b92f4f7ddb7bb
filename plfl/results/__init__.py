"""What a study leaves behind: records, scores and summaries."""
