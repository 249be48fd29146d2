"""Compaction on columnar kernels: planned by icepack, run as Spark tasks, committed through Iceberg's Java API."""
