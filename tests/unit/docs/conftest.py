from __future__ import annotations

import sys
from pathlib import Path

ROOT = Path(__file__).parents[3]

# The generator is no part of the package: it is imported from where it lies.
sys.path.insert(0, str(ROOT / "docs"))
