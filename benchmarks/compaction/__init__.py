"""Compaction benchmark: Spark's procedure, icepack's native rewrite and its bare kernel on the same files."""
