"""Checks that involve several keys of a study, one file for each subject. Each yields one line per
problem."""
