"""NREL's ComStock: releases, download, and the series of buildings."""
