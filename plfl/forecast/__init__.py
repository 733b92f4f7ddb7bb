"""Trained models in use: files with all that a forecast needs, and their forecasts."""
