"""Models, one file per model. `plfl.interfaces.model` has their class."""

from plfl.interfaces.model import Model as Model
