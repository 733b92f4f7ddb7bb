"""Results for other tools: RO-Crates with Croissant metadata, and the MLflow database."""
