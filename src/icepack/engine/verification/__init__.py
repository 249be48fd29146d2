"""Compares rows by value: reads both sides with Iceberg's own reader, and compares their digests."""
