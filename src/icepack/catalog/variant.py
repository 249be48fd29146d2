"""Registers the `variant` type with PyIceberg 0.12, which does not support it.

PyIceberg rejects the metadata of a table that has a variant column. icepack reads only metadata, so it is enough that
the type's name is known. A table that cannot be loaded would block orphan file removal for all other tables, because
its location would be unknown.
"""

from __future__ import annotations

from functools import cache
from typing import Any

from pyiceberg.types import IcebergType, ListType, MapType, PrimitiveType

_NAME = "variant"


class VariantType(PrimitiveType):
    """Semi-structured data, supported since format version 3."""

    root: str = _NAME

    def minimum_format_version(self) -> Any:
        return 3


@cache
def register_variant_type() -> None:
    """Patches PyIceberg once per process, unless it already supports the type."""
    validator: Any = IcebergType.handle_primitive_type
    if _supports_variant(validator):
        return
    types: Any = IcebergType
    types.handle_primitive_type = classmethod(_accept_variant(validator.__func__))
    for container, fields in ((ListType, ("element",)), (MapType, ("key", "value"))):
        _accept_variant_in(container, fields)


def _supports_variant(validator: Any) -> bool:
    try:
        validator(_NAME, None)
    except ValueError:
        return False
    return True


def _accept_variant(validate: Any) -> Any:
    def handle_primitive_type(cls: Any, value: Any, handler: Any) -> Any:
        return VariantType() if value == _NAME else validate(cls, value, handler)

    return handle_primitive_type


def _accept_variant_in(container: Any, fields: tuple[str, ...]) -> None:
    """Converts the name before validation, because Pydantic compiles the validators of these fields into the class."""
    original_init = container.__init__

    def init_with_variant(self: Any, *args: Any, **data: Any) -> None:
        variants = {name: VariantType() for name in fields if data.get(name) == _NAME}
        original_init(self, *args, **data | variants)

    container.__init__ = init_with_variant
