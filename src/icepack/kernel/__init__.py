"""The columnar rewrite: shipped to Spark executors as it is, so it uses PyArrow, NumPy and nothing of icepack."""
