"""Comparison by value: Iceberg's own reader reads both sides, and their digests are compared."""
