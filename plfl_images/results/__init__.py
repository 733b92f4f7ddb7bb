"""Tables of studies of classifiers, and the claims that are judged on them."""
