"""Results for other tools: RO-Crates, and the MLflow database."""
