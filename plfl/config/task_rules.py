"""The facts about a task that a configuration needs, and how it names one."""

from collections.abc import Iterator
from functools import partial
from typing import Annotated, Any, ClassVar, Literal

from pydantic import BeforeValidator, SerializeAsAny

from plfl.config.named_block import Named, chosen
from plfl.config.sections import Data, Federation, Tuning, Windows
from plfl.layout import WindowShape
from plfl.plugins import registry

PACKAGE = "plfl.tasks"
"""The package of the tasks, one file each. Only the file of the named task is imported."""
DEFAULT = "forecast"
Margins = Literal["none", "personal", "adaptive", "shared"]
"""How the intervals of forecasts are widened: not at all (`none`), by a margin of each client
(`personal`), by such a margin that follows the client's loads (`adaptive`), or by one margin for
all clients (`shared`)."""


class TaskRules(Named):
    """The rules of a task. `plfl.tasks.Task` adds its computations."""

    examples: ClassVar[str] = "loads"
    """The kind of examples that the source must provide, in one word (`SourceRules.examples`). It
    also selects how results are reported (`plfl.report.reporting`)."""
    own_loss: ClassVar[str | None] = None
    """The task's own loss in words, which replaces `federation.loss`. None if the task trains with
    `federation.loss`."""
    forecasts: ClassVar[bool] = True
    """Whether its models forecast loads. If so, the best ones are kept for `plfl forecast`, and
    MLflow compares them."""
    common_windows: ClassVar[bool] = False
    """Whether all clients' models are scored on the same windows. This takes long, so local models
    are then scored only in the last round."""
    has_labels: ClassVar[bool] = False
    """Whether its targets are class labels, which `federation.selection: data_aware` needs."""

    def outputs(self, horizons: int) -> int:
        """O, the number of numbers that a model returns for a window with `horizons` targets."""
        raise NotImplementedError

    def window_shape(self, data: Data, windows: Windows) -> WindowShape:
        """The shape of what a model reads of a window and returns, given a source with the task's
        examples."""
        sizes = len(data.inputs), windows.look_back, windows.context_width
        return WindowShape(*sizes, self.outputs(windows.horizons))

    def problems(
        self, data: Data, windows: Windows, federation: Federation, tuning: Tuning
    ) -> Iterator[str]:
        """Why it cannot be trained with these settings, one line for each problem."""
        return iter(())

    def dealt(self, data: Data) -> dict[str, Any]:
        """The settings that decide how examples are divided among clients after they are read."""
        return {}

    def refuses_teacher(self, loss: str) -> str | None:
        """Why a teacher's outputs cannot be mixed into the targets with `federation.loss`; None if
        they can."""
        raise NotImplementedError

    @property
    def margins(self) -> Margins:
        """The kind of margins of the intervals of a trained model, see `Margins`."""
        return "none"


available = partial(registry.available, PACKAGE, TaskRules)
"""All tasks by name. This imports torch."""
find = partial(registry.find, PACKAGE, TaskRules)
"""The task with a name; a KeyError if there is none."""
_chosen = partial(chosen, what="task", default=DEFAULT, find=find, names=available)
ChosenTask = Annotated[SerializeAsAny[TaskRules], BeforeValidator(_chosen)]
"""A key that names a task: a block with its `name`."""
