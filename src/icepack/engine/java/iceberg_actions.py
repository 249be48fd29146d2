"""Configures Iceberg's Java actions (`SparkActions`) from Python."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from icepack import __version__
from icepack.domain.ports.engine import RunContext

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def get_actions(spark: SparkSession) -> Any:
    return spark.sparkContext._jvm.org.apache.iceberg.spark.actions.SparkActions.get(spark._jsparkSession)


def add_stamp(java_action: Any, context: RunContext) -> Any:
    """Adds the job's properties to the summary of the snapshots that the action commits."""
    for key, value in context.stamp.properties(__version__).items():
        java_action.snapshotProperty(key, value)
    return java_action


def set_options(java_action: Any, options: Mapping[str, str]) -> Any:
    for key, value in options.items():
        java_action.option(key, value)
    return java_action


def to_string_array(spark: SparkSession, values: tuple[str, ...]) -> Any:
    context = spark.sparkContext
    array = context._gateway.new_array(context._jvm.java.lang.String, len(values))
    for position, value in enumerate(values):
        array[position] = value
    return array
