"""The configuration of a study: typed keys, what they can name, reading, error messages.

A section, such as `federation`, stands in the file of its name (`hyperparameters` in `algorithms`).
The docstring of a key is its documentation: `plfl schema` generates the JSON schema and the
reference from it. A section does not depend on any other; `plfl.study.checks` checks what must fit
together.
"""
