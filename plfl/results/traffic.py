"""What crosses between server and clients in a round."""

import pandas as pd

from plfl.results.records import refuse_damage
from plfl.results.selection import scheme_method_pairs
from plfl.results.tables import Tables


def mean_traffic(tables: Tables) -> pd.DataFrame:
    """Mean `bytes_down` and `bytes_up` per participant and round, by sharing scheme and method; 0
    if nobody ever took part.

    Both are in the order of the study. Where clients train alone, all methods are the same
    training and the first one stands for all.
    """
    axes, directions = ["sharing", "method"], ["bytes_down", "bytes_up"]
    byte_counts = tables.records([*axes, *directions], split="train", model="local")
    with refuse_damage(tables.folder / "records.parquet"):
        means = byte_counts.groupby(axes)[directions].mean()
        totals = tables.summary.groupby(axes)[directions].sum().astype(float)
        means = means.combine_first(totals[(totals == 0).all(axis=1)])
        return means.loc[scheme_method_pairs(tables.study)]
