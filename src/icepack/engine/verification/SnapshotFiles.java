// Finds the scan tasks in which two snapshots of a table differ.
// Compiled on first use by Janino, the compiler that is part of Spark, which supports neither lambdas nor generics.
package icepack;

import java.util.ArrayList;
import java.util.HashMap;
import java.util.Iterator;
import java.util.List;
import java.util.Map;
import java.util.TreeSet;
import org.apache.iceberg.DeleteFile;
import org.apache.iceberg.FileScanTask;
import org.apache.iceberg.Table;
import org.apache.iceberg.TableScan;
import org.apache.iceberg.io.CloseableIterable;

public class SnapshotFiles {
  private final List before = new ArrayList();
  private final List after = new ArrayList();
  private int shared = 0;
  private boolean hasLineage = true;

  /** Leaves out files that both snapshots contain with the same deletes, unless {@code allFiles} is set. */
  public SnapshotFiles(Table table, Long first, Long second, Boolean allFiles) throws Exception {
    Map firstTasks = planTasks(table, first.longValue());
    Map secondTasks = planTasks(table, second.longValue());
    Iterator each = firstTasks.keySet().iterator();
    while (each.hasNext()) {
      Object key = each.next();
      if (secondTasks.containsKey(key) && !allFiles.booleanValue()) {
        shared++;
      } else {
        add(before, (FileScanTask) firstTasks.get(key));
      }
    }
    each = secondTasks.keySet().iterator();
    while (each.hasNext()) {
      Object key = each.next();
      if (!firstTasks.containsKey(key) || allFiles.booleanValue()) {
        add(after, (FileScanTask) secondTasks.get(key));
      }
    }
  }

  private void add(List side, FileScanTask task) {
    side.add(task);
    hasLineage = hasLineage && task.file().firstRowId() != null;
  }

  private static Map planTasks(Table table, long snapshotId) throws Exception {
    Map found = new HashMap();
    TableScan scan = (TableScan) ((TableScan) table.newScan().useSnapshot(snapshotId)).ignoreResiduals();
    CloseableIterable planned = scan.planFiles();
    try {
      Iterator each = planned.iterator();
      while (each.hasNext()) {
        FileScanTask task = (FileScanTask) each.next();
        found.put(key(task), task);
      }
    } finally {
      planned.close();
    }
    return found;
  }

  private static String key(FileScanTask task) {
    TreeSet deletes = new TreeSet();
    Iterator applied = task.deletes().iterator();
    while (applied.hasNext()) {
      DeleteFile delete = (DeleteFile) applied.next();
      deletes.add(delete.location() + "\0" + delete.contentOffset());
    }
    return task.file().location() + "\0" + deletes;
  }

  public List before() {
    return before;
  }

  public List after() {
    return after;
  }

  public int shared() {
    return shared;
  }

  public boolean hasLineage() {
    return hasLineage;
  }
}
