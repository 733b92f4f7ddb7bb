"""Models, one file per model. `plfl.interfaces.model` has their class."""

from plfl.interfaces.annotations import Study
from plfl.interfaces.model import Model as Model


def model_of(study: Study) -> Model:
    """The model of a study."""
    return study.model
