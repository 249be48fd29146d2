// Scan tasks under a name by which Spark can read exactly these files, as Iceberg's own rewrite reads its groups.
// Compiled when it is first needed, by the compiler that Spark itself carries; that one knows no lambdas and no generics.
// In Java and not through the gateway, which does not see jars that are only on Spark's own class path.
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
