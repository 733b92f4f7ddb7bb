"""Where the files of a study are, relative to the working directory."""

from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class StudyPaths:
    """The folders of a study, or of a variant."""

    name: str
    """The name of the study; of a variant, `STUDY/LABEL`."""

    @property
    def results(self) -> Path:
        """The folder of the study's tables, cells and MLflow database."""
        return Path("results") / self.name

    @property
    def root(self) -> Path:
        """The results folder of the study; for a variant, the folder of the whole study."""
        return Path("results") / self.name.split("/")[0]

    @property
    def public(self) -> Path:
        """The folder of the public models that the study makes."""
        return self.root / "public"

    @property
    def figures(self) -> Path:
        """The folder of the study's figures."""
        return Path("figures") / self.name
