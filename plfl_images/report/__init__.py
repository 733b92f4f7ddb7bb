"""The page and the figures of a study of classifiers."""
