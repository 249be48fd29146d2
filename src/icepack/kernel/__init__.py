"""The columnar rewrite kernel. Shipped to Spark executors as a zip, so it imports only PyArrow, NumPy and itself."""
