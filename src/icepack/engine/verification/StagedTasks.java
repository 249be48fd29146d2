// Registers scan tasks under a name, with which Spark reads exactly these files, as Iceberg's own rewrite does.
// Compiled on first use by Janino, the compiler that is part of Spark, which supports neither lambdas nor generics.
// It is in Java because the Python gateway does not find classes in jars that only Spark's class loader knows.
package icepack;

import java.util.List;
import org.apache.iceberg.Table;
import org.apache.iceberg.spark.ScanTaskSetManager;
import org.apache.iceberg.spark.SparkTableCache;

public class StagedTasks {
  private final Table table;
  private final String name;

  public StagedTasks(Table table, String name, List tasks) {
    this.table = table;
    this.name = name;
    SparkTableCache.get().add(name, table);
    ScanTaskSetManager.get().stageTasks(table, name, tasks);
  }

  public void remove() {
    ScanTaskSetManager.get().removeTasks(table, name);
    SparkTableCache.get().remove(name);
  }
}
