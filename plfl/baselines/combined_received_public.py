"""A convex combination of own forecasts, of those by models that are received, and of those by a
model of public meters."""

from typing import ClassVar

from plfl.baselines.combined_received import CombinedReceived


class CombinedReceivedPublic(CombinedReceived):
    """`combined_received` with the forecasts of `public` among them, beside one without."""

    name: ClassVar[str] = "combined_received_public"
    label: ClassVar[str] = "Combination with received models and the public one"
    about: ClassVar[str] = (
        "The weighted mean of own forecasters, of models that other clients have trained and of a "
        "model of public meters. Each client chooses the weights on the last weeks of its history."
    )
