"""Records the demo's output as docs/pictures/demo.svg: `.venv/bin/python docs/record_demo.py`."""

from __future__ import annotations

import os
import re
import sys
import tempfile
from pathlib import Path

from rich.console import Console

from icepack.cli import console
from icepack.cli.main import cli, run_command

PICTURE = Path(__file__).parent / "pictures" / "demo.svg"


def main() -> int:
    recording = Console(record=True, width=140, force_terminal=False, color_system="truecolor", highlight=False)
    console.console.cache_clear()
    for module in ("console", "output.health", "output.progress", "output.runs"):
        __import__(f"icepack.cli.{module}")
        sys.modules[f"icepack.cli.{module}"].console = lambda: recording
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        recording.print("$ make demo", style="bold")
        code = run_command(cli, ["demo", "--dir", "demo-lake"], "icepack")
        text = recording.export_svg(title="make demo", clear=False, font_aspect_ratio=0.61)
    # The picture must not load fonts, or anything else, from other hosts.
    text = re.sub(r"@font-face \{.*?\}", "", text, flags=re.DOTALL).replace("Fira Code", "monospace")
    PICTURE.parent.mkdir(exist_ok=True)
    PICTURE.write_text(text)
    return code


if __name__ == "__main__":
    sys.exit(main())
