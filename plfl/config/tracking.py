"""The section `tracking`: a study in MLflow."""

from plfl.plugins.registry import Section


class Tracking(Section):
    """The study in MLflow."""

    enabled: bool = True
    """Log the study into `mlruns.db`, or to `MLFLOW_TRACKING_URI`, if MLflow is installed."""
