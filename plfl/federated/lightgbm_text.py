"""Models in LightGBM's text format that come from elsewhere: from a file, a message or a plug-in.

LightGBM trusts its own format: with impossible sizes or children, such a text ends the process with
a signal, or never returns. Here a text is checked before LightGBM gets it. It must be of the kind
that plfl makes: one output, numeric splits, constant leaves.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import lru_cache
from hashlib import blake2b

from plfl.base.errors import DataError, Problem
from plfl.base.lazy import lightgbm

MOST_LEAVES = 131_072
"""Most leaves of a tree, as LightGBM has it."""
WHOLE_NUMBER_TEXT = r"-?\d{1,9}+"
NUMBER = r"-?\d{1,30}+(?:\.\d{1,30}+)?+(?:e(?:[-+][12]\d\d|\+30[0-7]|-3\d\d|[-+]?\d{1,2}))?+"
"""A number that is finite, as LightGBM writes it. With `+` after it, a part never tries fewer
characters, which saves half of the time; so the longest forms come first."""
GAIN = f"(?:{NUMBER}|inf)"
WHOLES, NUMBERS, GAINS = (
    f"(?:{form}(?: {form})*+)?+" for form in (WHOLE_NUMBER_TEXT, NUMBER, GAIN)
)
HEADER = {
    "version": "v4",
    "num_class": "1",
    "num_tree_per_iteration": "1",
    "label_index": "0",
    "max_feature_idx": r"\d{1,6}",
    # These leave the sum of the trees as it is. Without an objective there is no such line.
    "objective": "regression|regression_l1|quantile|huber|fair|mape",
    "feature_names": "[!-~]+(?: [!-~]+)*",
    "feature_infos": "[!-~]+(?: [!-~]+)*",
    "tree_sizes": r"\d{1,9}(?: \d{1,9})*",
}
"""The lines of a model before its trees: their names and what is accepted."""
TREE = {
    "num_leaves": r"\d{1,6}",
    "num_cat": "0",
    "split_feature": WHOLES,
    "split_gain": GAINS,
    "threshold": NUMBERS,
    "decision_type": "(?:(?:[02468]|10)(?: (?:[02468]|10))*)?",
    "left_child": WHOLES,
    "right_child": WHOLES,
    "leaf_value": NUMBERS,
    "leaf_weight": NUMBERS,
    "leaf_count": WHOLES,
    "internal_value": NUMBERS,
    "internal_weight": NUMBERS,
    "internal_count": WHOLES,
    "is_linear": "0",
    "shrinkage": NUMBER,
}
"""The lines of a tree."""
NOT_OF_NODES = {"num_leaves", "num_cat", "is_linear", "shrinkage"}
"""Lines of a tree that have no number for each node or leaf."""
END = re.compile(
    r"end of trees\n\nfeature_importances:\n(?:[!-<>-~]+=\d+\n)*"
    r"(?:\nparameters:\n(?:\[\w+: [\w.,+-]*\]\n)*\nend of parameters\n)?"
    r"(?:\npandas_categorical:(?:null|\[\])\n)?",
    flags=re.ASCII,
)
"""What follows the trees. LightGBM reads the parameters, without a check, too."""


def _make_lines(title: str, forms: dict[str, str]) -> list[str]:
    """Patterns of a title and of lines `NAME=VALUE`."""
    lines = {name: rf"{name}=(?P<{name}>{form})\n" for name, form in forms.items()}
    if "objective" in lines:
        lines["objective"] = f"(?:{lines['objective']}|(?=feature_names))"
    return [title, *lines.values()]


_HEADER, _TREE = _make_lines("tree\n", HEADER), _make_lines(r"Tree=\d{1,9}\n", TREE)
_HEADER_FORM, _TREE_FORM = (re.compile("".join(parts), re.ASCII) for parts in (_HEADER, _TREE))

_sound_texts: set[bytes] = set()
"""Digests of texts that were found sound: a check takes longer than LightGBM's own reading."""


def load_booster(text: str, name: str) -> lightgbm.Booster:
    """The model of a text from elsewhere; `name`: what messages call the text.

    Raises:
        DataError: it is not the text of a model that plfl could have made.
    """
    check_model(text, name)
    try:
        return _booster_of(text)
    except (lightgbm.basic.LightGBMError, ValueError) as error:  # of its parameters
        raise _make_refusal(name, f"cannot be read ({error})") from None


@lru_cache(maxsize=8)
def _booster_of(text: str) -> lightgbm.Booster:
    """The model of a text: many clients have the same one of a federation."""
    return lightgbm.Booster(model_str=text)


def check_model(text: str, name: str) -> None:
    """Check a text before LightGBM, or `plfl.federated.tree_growth.Tree`, reads it; `name`: what
    messages call the text.

    The trees are as long as stated, each node but the first is the child of one earlier node, each
    leaf the child of one node, and all numbers are finite.

    Raises:
        DataError: it is not the text of a model that plfl could have made.
    """
    digest = blake2b(text.encode("utf-8", "surrogatepass"), digest_size=16).digest()
    if digest not in _sound_texts:
        _check_model(text, name)
        _sound_texts.add(digest)


def _check_model(text: str, name: str) -> None:
    begin, header = _match_lines(name, text, 0, _HEADER_FORM, _HEADER, ["its first line", *HEADER])
    inputs = int(header["max_feature_idx"]) + 1
    for field in ("feature_names", "feature_infos"):
        if _count_values(header[field]) != inputs:
            raise _make_refusal(name, f"{field} has not {inputs} entries, one for each input")
    if text[begin : begin + 1] != "\n":
        raise _make_refusal(name, "has no empty line before its trees")
    begin += 1
    for number, size in enumerate(map(int, header["tree_sizes"].split())):
        place = f"{name}, tree {number}"
        end, tree = _match_lines(place, text, begin, _TREE_FORM, _TREE, ["its title", *TREE])
        begin += size
        if text[end:begin] != "\n\n":
            raise _make_refusal(place, f"has not the {size} bytes that tree_sizes states")
        _check_tree(place, tree, inputs)
    if not END.fullmatch(text, begin):
        raise _make_refusal(name, "does not end with importances and parameters")


def _check_tree(place: str, tree: dict[str, str], inputs: int) -> None:
    """Check the lengths of lists, and the structure, of a tree."""
    leaves = int(tree["num_leaves"])
    if not 1 <= leaves <= MOST_LEAVES:
        raise _make_refusal(place, f"num_leaves is {leaves}")
    for name in TREE.keys() - NOT_OF_NODES:
        count = leaves if name.startswith("leaf_") else leaves - 1
        # Of a single leaf, LightGBM may leave out all but its value.
        if _count_values(tree[name]) != count and (leaves > 1 or name == "leaf_value"):
            raise _make_refusal(place, f"{name} has not {count} numbers, as num_leaves demands")
    if leaves == 1:
        return
    feature, left_children, right_children = (
        [*map(int, tree[name].split())] for name in ("split_feature", "left_child", "right_child")
    )
    if min(feature) < 0 or max(feature) >= inputs:
        raise _make_refusal(place, f"split_feature is not from 0 to {inputs - 1}")
    children = sorted(left_children + right_children)
    if children != [*range(-leaves, 0), *range(1, leaves - 1)] or not (
        _are_later(left_children) and _are_later(right_children)
    ):
        raise _make_refusal(
            place,
            "left_child and right_child do not lead from each node to later ones, and to each "
            "node and leaf once",
        )


def _are_later(children: Sequence[int]) -> bool:
    """Whether the children of nodes, one for each in their order, are leaves or later nodes."""
    return all(child < 0 or child > node for node, child in enumerate(children))


def _match_lines(
    place: str, text: str, begin: int, form: re.Pattern[str], lines: list[str], names: list[str]
) -> tuple[int, dict[str, str]]:
    """The end of lines of this form in a text, and their values by name."""
    if match := form.match(text, begin):
        return match.end(), match.groupdict(default="")
    wrong = next(
        name
        for count, name in enumerate(names, 1)
        if not re.compile("".join(lines[:count]), re.ASCII).match(text, begin)
    )
    raise _make_refusal(place, f"has an unexpected value or line where {wrong} should be")


def _count_values(values: str) -> int:
    """How many values there are in a list."""
    return values.count(" ") + 1 if values else 0


def _make_refusal(place: str, problem: str) -> DataError:
    return DataError(
        Problem(
            place,
            f"{problem}, as in no model of LightGBM that plfl has made",
            "train the model again, or restore its file",
        )
    )
