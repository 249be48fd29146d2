from __future__ import annotations

import sys
from pathlib import Path

ROOT = Path(__file__).parents[3]

# The generator is not part of the package, so its folder is added to the import path.
sys.path.insert(0, str(ROOT / "docs"))
