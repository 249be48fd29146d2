"""icepack keeps Apache Iceberg tables healthy."""

__version__ = "0.1.0"
