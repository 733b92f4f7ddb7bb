"""The page of all keys of a format file, which `plfl schema` writes."""

import textwrap
from collections.abc import Iterator

from plfl.config.error_messages import sections_in
from plfl.data.meters.formats.schema import Format
from plfl.plugins.registry import Section
from plfl.study.generated import table_of_keys

FORMAT_KEYS_PAGE = "docs/format-keys.md"
"""Its path from the root of the repository."""
_HEAD = """\
# Keys of a format file

All keys of a file such as `mine.toml` ([guide](own-data.md#add-a-format-in-ten-minutes)).
`plfl schema` generates this page. A column is named by its header cell, whatever its case and
blanks. `*` is any text, and a list has alternatives, such as those of several languages.
"""


def reference() -> str:
    """The text of the page."""
    return _HEAD + "".join(_tables())


def _tables() -> Iterator[str]:
    """The tables of the keys of a file and of the blocks in it."""
    blocks: dict[str, type[Section]] = {
        key: found_blocks[0]
        for key, field in Format.model_fields.items()
        if (found_blocks := sections_in(field.annotation))
    }
    sections: dict[str, type[Section]] = {"": Format, **blocks}
    for name, block in sections.items():
        about = " ".join((block.__doc__ or "").split())
        yield (f"\n## `{name}`\n" if name else "") + f"\n{textwrap.fill(about, 120)}\n"
        yield table_of_keys(block, [key for key in block.model_fields if name or key not in blocks])
