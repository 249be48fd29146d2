// The scan tasks in which two snapshots of a table differ.
// Compiled when it is first needed, by the compiler that Spark itself carries; that one knows no lambdas and no generics.
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

  /** A file that both snapshots have, under the same deletes, has the same rows in both and is left out. */
  public SnapshotFiles(Table table, Long first, Long second, Boolean allFiles) throws Exception {
    Map one = plan(table, first.longValue());
    Map other = plan(table, second.longValue());
    Iterator each = one.keySet().iterator();
    while (each.hasNext()) {
      Object key = each.next();
      if (other.containsKey(key) && !allFiles.booleanValue()) {
        shared++;
      } else {
        add(before, (FileScanTask) one.get(key));
      }
    }
    each = other.keySet().iterator();
    while (each.hasNext()) {
      Object key = each.next();
      if (!one.containsKey(key) || allFiles.booleanValue()) {
        add(after, (FileScanTask) other.get(key));
      }
    }
  }

  private void add(List side, FileScanTask task) {
    side.add(task);
    hasLineage = hasLineage && task.file().firstRowId() != null;
  }

  private static Map plan(Table table, long snapshotId) throws Exception {
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
    TreeSet parts = new TreeSet();
    Iterator applied = task.deletes().iterator();
    while (applied.hasNext()) {
      DeleteFile delete = (DeleteFile) applied.next();
      parts.add(delete.location() + "\0" + delete.contentOffset());
    }
    return task.file().location() + "\0" + parts;
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
