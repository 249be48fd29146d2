"""Previews one action without running it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from typing import Any

from icepack.cli.console import print_json, print_text
from icepack.cli.exit_codes import FAILED, SUCCEEDED
from icepack.cli.output.plans import plan_json, show_compaction, show_expiry
from icepack.cli.output.runs import print_assumptions, show_record
from icepack.domain.actions import Action, Compact, ExpireSnapshots, RemoveOrphanFiles, action_to_json
from icepack.domain.run import RunState
from icepack.domain.serialization import to_json
from icepack.domain.table import TableId
from icepack.service.service import CompactionService


def show_dry_run(service: CompactionService, table: TableId, action: Action, output: str) -> int:
    """Shows what the action would do; only the search for orphan files needs Spark for that."""
    match action:
        case Compact():
            plan = service.plan_compaction(table, action)
            preview, show = plan_json(plan, with_files=False), partial(show_compaction, plan)
        case ExpireSnapshots():
            expiry = service.preview_expiry(table, action)
            preview, show = to_json(expiry), partial(show_expiry, expiry)
        case RemoveOrphanFiles():
            record = service.run(table, replace(action, dry_run=True))
            if record.state is not RunState.SUCCEEDED:
                show_record(record)
                return FAILED
            preview = record.details or {}
            show = partial(_show_orphan_files, preview)
        case _:
            preview, show = {}, partial(print_text, f"{action.kind} has no preview.")
    if output == "json":
        print_json({"table": str(table), "action": action_to_json(action), "preview": preview})
    else:
        show()
    return SUCCEEDED


def _show_orphan_files(preview: Mapping[str, Any]) -> None:
    print_assumptions(preview)
    for path in preview.get("would_delete", ()):
        print_text(path)
    print_text(f"{preview.get('would_delete_count', 0):,} orphan files would be deleted.")
