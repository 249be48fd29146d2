"""The native rewrite: compaction by icepack's columnar kernel in Spark tasks, committed through Iceberg's Java API."""
