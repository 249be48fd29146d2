"""Parameters that several routes have."""

from __future__ import annotations

from typing import Annotated
from uuid import UUID

from fastapi import Header, Path, Query

from icepack.api.schemas.examples import JOB_ID, TABLE

TableName = Annotated[
    str,
    Path(
        max_length=2000,
        description="`catalog.namespace.table`; what is clear without may be left out.",
        openapi_examples={"table": {"value": str(TABLE)}},
    ),
]
JobId = Annotated[UUID, Path(description="The job's id.", openapi_examples={"job": {"value": str(JOB_ID)}})]
Limit = Annotated[int, Query(ge=1, le=500, description="At most so many.")]
IdempotencyKey = Annotated[
    str | None,
    Header(
        alias="Idempotency-Key",
        min_length=1,
        max_length=200,
        pattern=r"^[\x21-\x7e]+$",
        description="The same request with the same key is done once, however often it is sent.",
    ),
]
