"""The wiring: the only package that builds adapters, and the last one that sees the configuration."""

from icepack.wiring.adapters import build_redactor
from icepack.wiring.app import App, build_app

__all__ = ["App", "build_app", "build_redactor"]
