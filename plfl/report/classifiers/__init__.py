"""The page and the figures of a study of classifiers."""

CAPTIONS = {
    "accuracy": "Test accuracy of the global models against rounds: mean over seeds, ± standard"
    " deviation. The first row of the grid is in every panel.",
    "labels": "Who has which labels: training images of each client, first seed.",
}
"""The figures by the stem of their files. The workflow lists them without drawing them."""
