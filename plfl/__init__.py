"""plfl: benchmark harness for personalised federated load forecasting (arXiv 2404.01517)."""

__version__ = "0.1.0"
