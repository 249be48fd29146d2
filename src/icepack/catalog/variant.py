"""Teaches PyIceberg 0.12 the name of the variant type.

It refuses the whole metadata of a table that has such a column. icepack reads metadata only, so a name is all it needs;
and one table that cannot be loaded would keep orphan removal from every other, because its location is unknown.
"""

from __future__ import annotations

from functools import cache
from typing import Any

from pyiceberg.types import IcebergType, ListType, MapType, PrimitiveType

_NAME = "variant"


class VariantType(PrimitiveType):
    """A value of any shape, from format version 3 on."""

    root: str = _NAME

    def minimum_format_version(self) -> Any:
        return 3


@cache
def teach_variant() -> None:
    """Once per process; a PyIceberg that knows the type by itself is left alone."""
    validator: Any = IcebergType.handle_primitive_type
    if _is_known(validator):
        return
    types: Any = IcebergType
    types.handle_primitive_type = classmethod(_also_variant(validator.__func__))
    for container, parts in ((ListType, ("element",)), (MapType, ("key", "value"))):
        _accept_in(container, parts)


def _is_known(validator: Any) -> bool:
    try:
        validator(_NAME, None)
    except ValueError:
        return False
    return True


def _also_variant(validate: Any) -> Any:
    def handle_primitive_type(cls: Any, value: Any, handler: Any) -> Any:
        return VariantType() if value == _NAME else validate(cls, value, handler)

    return handle_primitive_type


def _accept_in(container: Any, parts: tuple[str, ...]) -> None:
    """The validators of a list's and a map's parts are compiled in, so that they are told before."""
    build = container.__init__

    def build_leniently(self: Any, *args: Any, **data: Any) -> None:
        build(self, *args, **data | {part: VariantType() for part in parts if data.get(part) == _NAME})

    container.__init__ = build_leniently
