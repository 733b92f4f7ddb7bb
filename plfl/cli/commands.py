"""The commands of `plfl` with what they are about, in the order of its help.

Each has a module of its name in `plfl.cli`, whose `add` adds its options and its function `run`.
The module is imported when its command is chosen, with the packages that it needs.
"""

COMMANDS = {
    "init": "write a study into this folder: a ready-made one, or one of your own meters",
    "study": "run a study in this folder, from data to report",
    "run": "train one cell and print its scores",
    "cells": "list the trainings of a study and estimate their time",
    "privacy": "state ε of each cell of a study, and what is outside of it",
    "methods": "list the algorithms: sources, hyperparameters, message sizes",
    "schema": "write the JSON schema and the generated pages",
    "data": "check series before training, and download those of frozen tasks",
    "forecast": "forecast the next hours of meters, with the models of a study or of public meters",
    "export": "write the forecaster of a meter as a program for ONNX runtimes; or, with the word "
    "`clients`, the clients of a study as arrays",
    "backtest": "score the forecasts for readings after the training, meter by meter",
    "claims": "print the verdicts on the claims that a study names",
    "compare": "list a study's comparisons, or compare two studies, cells or baselines",
    "report": "make figures and report of a study from its tables",
    "score": "score predictions made elsewhere on the test set of a study or of a frozen task",
    "leaderboard": "add rows to the leaderboards of frozen tasks, check and compare them",
    "publish": "write a finished study as an RO-Crate, to publish it",
    "track": "log a results folder into MLflow",
    "ui": "open MLflow's pages of the logged studies, for this machine only",
    "deploy": "run a cell on separate processes or hosts, with Flower",
}
"""The commands, and what each is about: the first words of its help."""
