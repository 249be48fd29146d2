// The part of the native rewrite that runs in the driver's JVM: everything that is done for each file, so that files do
// not cause a gateway call each. It is compiled on first use by Janino, the compiler that is part of Spark, which
// supports neither lambdas nor generics.
package icepack;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.lang.reflect.Method;
import java.nio.ByteBuffer;
import java.util.ArrayList;
import java.util.Base64;
import java.util.HashMap;
import java.util.HashSet;
import java.util.Iterator;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;
import org.apache.iceberg.BaseFileScanTask;
import org.apache.iceberg.DataFile;
import org.apache.iceberg.DataFiles;
import org.apache.iceberg.DeleteFile;
import org.apache.iceberg.FileContent;
import org.apache.iceberg.FileFormat;
import org.apache.iceberg.FileScanTask;
import org.apache.iceberg.HasTableOperations;
import org.apache.iceberg.ManifestFile;
import org.apache.iceberg.ManifestFiles;
import org.apache.iceberg.ManifestReader;
import org.apache.iceberg.Metrics;
import org.apache.iceberg.MetricsConfig;
import org.apache.iceberg.MetricsModes;
import org.apache.iceberg.PartitionField;
import org.apache.iceberg.PartitionSpec;
import org.apache.iceberg.PartitionSpecParser;
import org.apache.iceberg.RewriteFiles;
import org.apache.iceberg.SchemaParser;
import org.apache.iceberg.SingleValueParser;
import org.apache.iceberg.Snapshot;
import org.apache.iceberg.SnapshotAncestryValidator;
import org.apache.iceberg.Table;
import org.apache.iceberg.TableScan;
import org.apache.iceberg.exceptions.ValidationException;
import org.apache.iceberg.expressions.Expressions;
import org.apache.iceberg.expressions.Literal;
import org.apache.iceberg.expressions.ResidualEvaluator;
import org.apache.iceberg.io.CloseableIterable;
import org.apache.iceberg.io.CloseableIterator;
import org.apache.iceberg.parquet.ParquetUtil;
import org.apache.iceberg.types.Conversions;
import org.apache.iceberg.types.Type;
import org.apache.iceberg.util.BinaryUtil;
import org.apache.iceberg.util.ContentFileUtil;
import org.apache.iceberg.util.UnicodeUtil;

public class Rewrite {
  private final ObjectMapper json = new ObjectMapper();
  private final Table table;
  private final long snapshotId;
  private final Map tasks = new HashMap();
  private final Map deletes = new LinkedHashMap();
  private final Map applications = new HashMap();
  private final Set committed = new HashSet();
  private final Map dataFiles = new HashMap();

  /** Plans the scan tasks of these files in one snapshot; {@code paths} are separated by NUL characters. */
  public Rewrite(Table table, long snapshotId, String paths) throws Exception {
    this.table = table;
    this.snapshotId = snapshotId;
    Set requested = new HashSet(java.util.Arrays.asList(paths.split("\0")));
    TableScan scan = (TableScan) ((TableScan) table.newScan().useSnapshot(snapshotId)).ignoreResiduals();
    CloseableIterable planned = scan.planFiles();
    try {
      CloseableIterator each = planned.iterator();
      while (each.hasNext()) {
        FileScanTask task = (FileScanTask) each.next();
        String path = task.file().location();
        addApplications(applications, task, 1);
        if (requested.contains(path)) {
          tasks.put(path, task);
        }
      }
    } finally {
      planned.close();
    }
  }

  /** Describes every file, and every delete that applies to one of them, as JSON. */
  public String describe() throws Exception {
    ObjectNode description = json.createObjectNode();
    ArrayNode files = description.putArray("files");
    Iterator each = tasks.values().iterator();
    while (each.hasNext()) {
      FileScanTask task = (FileScanTask) each.next();
      DataFile file = (DataFile) task.file();
      ObjectNode row = files.addObject();
      row.put("path", file.location());
      row.put("format", file.format().name());
      row.put("spec_id", file.specId());
      row.put("bytes", file.fileSizeInBytes());
      row.put("records", file.recordCount());
      row.put("sequence_number", file.dataSequenceNumber().longValue());
      if (file.firstRowId() != null) {
        row.put("first_row_id", file.firstRowId().longValue());
      }
      row.put("encrypted", file.keyMetadata() != null);
      putConstants(row.putObject("constants"), file);
      ArrayNode numbers = row.putArray("deletes");
      Iterator applied = task.deletes().iterator();
      while (applied.hasNext()) {
        numbers.add(deleteNumber((DeleteFile) applied.next()));
      }
    }
    ArrayNode deleteRows = description.putArray("deletes");
    Iterator numbered = deletes.values().iterator();
    while (numbered.hasNext()) {
      describeDelete(deleteRows.addObject(), (DeleteFile) ((Object[]) numbered.next())[1]);
    }
    return json.writeValueAsString(description);
  }

  /** Puts the values of the columns with an identity partition, by field id. */
  private void putConstants(ObjectNode row, DataFile file) throws Exception {
    PartitionSpec spec = (PartitionSpec) table.specs().get(new Integer(file.specId()));
    List fields = spec.fields();
    for (int position = 0; position < fields.size(); position++) {
      PartitionField field = (PartitionField) fields.get(position);
      Type type = table.schema().findType(field.sourceId());
      if (field.transform().isIdentity() && type != null) {
        Object value = promote(type, file.partition().get(position, Object.class));
        String id = String.valueOf(field.sourceId());
        if (value == null) {
          row.putNull(id);
        } else {
          row.set(id, json.readTree(SingleValueParser.toJson(type, value)));
        }
      }
    }
  }

  /** Converts a partition value, which keeps the type that its column had when the file was written. */
  private static Object promote(Type type, Object value) {
    if (type.typeId() == Type.TypeID.LONG && value instanceof Integer) {
      return new Long(((Integer) value).longValue());
    }
    if (type.typeId() == Type.TypeID.DOUBLE && value instanceof Float) {
      return new Double(((Float) value).doubleValue());
    }
    return value;
  }

  private static String deleteKey(DeleteFile file) {
    return file.location() + "\0" + file.contentOffset();
  }

  /** Changes, for each delete of this data file, the number of data files that the delete applies to. */
  private static void addApplications(Map counts, FileScanTask task, int change) {
    Iterator applied = task.deletes().iterator();
    while (applied.hasNext()) {
      String key = deleteKey((DeleteFile) applied.next());
      Integer count = (Integer) counts.get(key);
      counts.put(key, new Integer((count == null ? 0 : count.intValue()) + change));
    }
  }

  private int deleteNumber(DeleteFile file) {
    String key = deleteKey(file);
    Object[] numbered = (Object[]) deletes.get(key);
    if (numbered == null) {
      numbered = new Object[] {new Integer(deletes.size()), file};
      deletes.put(key, numbered);
    }
    return ((Integer) numbered[0]).intValue();
  }

  private void describeDelete(ObjectNode row, DeleteFile file) {
    row.put("path", file.location());
    row.put("format", file.format().name());
    row.put("bytes", file.fileSizeInBytes());
    row.put("records", file.recordCount());
    row.put("sequence_number", file.dataSequenceNumber().longValue());
    row.put("encrypted", file.keyMetadata() != null);
    if (ContentFileUtil.isDV(file)) {
      row.put("kind", "vector");
      row.put("offset", file.contentOffset().longValue());
      row.put("length", file.contentSizeInBytes().longValue());
    } else if (file.content() == FileContent.POSITION_DELETES) {
      row.put("kind", "position");
    } else {
      row.put("kind", "equality");
      ArrayNode ids = row.putArray("equality_ids");
      Iterator each = file.equalityFieldIds().iterator();
      while (each.hasNext()) {
        ids.add(((Integer) each.next()).intValue());
      }
    }
  }

  /** Returns the location for an output in the partition of the file {@code like}. */
  public String location(String like, String name) {
    DataFile file = (DataFile) ((FileScanTask) tasks.get(like)).file();
    PartitionSpec spec = (PartitionSpec) table.specs().get(new Integer(file.specId()));
    if (spec.isUnpartitioned()) {
      return table.locationProvider().newDataLocation(name);
    }
    return table.locationProvider().newDataLocation(spec, file.partition(), name);
  }

  /** Builds the commit; reads the metrics from the footers of the outputs with Iceberg's own code. */
  public RewriteFiles prepare(String request, Map summary) throws Exception {
    JsonNode changes = json.readTree(request);
    RewriteFiles rewrite = table.newRewrite();
    rewrite.validateFromSnapshot(snapshotId);
    rewrite.dataSequenceNumber(table.snapshot(snapshotId).sequenceNumber());
    Set removedPaths = new HashSet();
    Iterator removed = changes.get("removed").elements();
    while (removed.hasNext()) {
      String path = ((JsonNode) removed.next()).asText();
      removedPaths.add(path);
      rewrite.deleteFile((DataFile) ((FileScanTask) tasks.get(path)).file());
    }
    removeUnusedDeletes(rewrite, removedPaths);
    long sequenceNumber = table.snapshot(snapshotId).sequenceNumber();
    rewrite.validateWith(new EqualityDeleteValidator(table, sequenceNumber, removedPaths));
    MetricsConfig metrics = MetricsConfig.forTable(table);
    Iterator added = changes.get("added").elements();
    while (added.hasNext()) {
      rewrite.addFile(dataFile((JsonNode) added.next(), metrics));
    }
    Iterator each = summary.entrySet().iterator();
    while (each.hasNext()) {
      Map.Entry entry = (Map.Entry) each.next();
      rewrite.set((String) entry.getKey(), (String) entry.getValue());
    }
    return rewrite;
  }

  /** Records a successful commit, so that deletes are no longer needed for the files it removed. */
  public void markCommitted(String request) throws Exception {
    Iterator removed = json.readTree(request).get("removed").elements();
    while (removed.hasNext()) {
      committed.add(((JsonNode) removed.next()).asText());
    }
  }

  /** Removes a delete together with the last data file that it applies to; it does not apply to newer files. */
  private void removeUnusedDeletes(RewriteFiles rewrite, Set removedPaths) {
    Map remaining = new HashMap(applications);
    Iterator earlier = committed.iterator();
    while (earlier.hasNext()) {
      addApplications(remaining, (FileScanTask) tasks.get(earlier.next()), -1);
    }
    Iterator each = removedPaths.iterator();
    while (each.hasNext()) {
      FileScanTask task = (FileScanTask) tasks.get(each.next());
      addApplications(remaining, task, -1);
      Iterator applied = task.deletes().iterator();
      while (applied.hasNext()) {
        DeleteFile file = (DeleteFile) applied.next();
        if (((Integer) remaining.get(deleteKey(file))).intValue() == 0) {
          rewrite.deleteFile(file);
        }
      }
    }
  }

  /**
   * Rejects a commit that would drop an equality delete that was committed during the rewrite.
   *
   * <p>Iceberg drops all deletes that are older than the oldest remaining data file, and does not consider the files
   * that a rewrite adds with an older sequence number (observed in 1.12). If all other remaining files are newer than
   * such an equality delete, it would be lost and the rows it deleted would reappear. Called for every commit attempt.
   */
  public static class EqualityDeleteValidator implements SnapshotAncestryValidator {
    private final Table table;
    private final long startSequenceNumber;
    private final Set removedPaths;

    public EqualityDeleteValidator(Table table, long startSequenceNumber, Set removedPaths) {
      this.table = table;
      this.startSequenceNumber = startSequenceNumber;
      this.removedPaths = removedPaths;
    }

    public boolean validate(Iterable ancestors) {
      Snapshot head = null;
      long oldestDelete = Long.MAX_VALUE;
      Iterator each = ancestors.iterator();
      while (each.hasNext()) {
        Snapshot snapshot = (Snapshot) each.next();
        if (head == null) {
          head = snapshot;
        }
        if (snapshot.sequenceNumber() <= startSequenceNumber) {
          break;
        }
        if (addsEqualityDeletes(snapshot)) {
          oldestDelete = snapshot.sequenceNumber();
        }
      }
      if (oldestDelete != Long.MAX_VALUE && oldestRemainingFile(head) > oldestDelete) {
        throw new ValidationException("Found new equality deletes, which this commit would drop", new Object[0]);
      }
      return true;
    }

    public String errorMessage() {
      return "";
    }

    private boolean addsEqualityDeletes(Snapshot snapshot) {
      Iterator added = snapshot.addedDeleteFiles(table.io()).iterator();
      while (added.hasNext()) {
        if (((DeleteFile) added.next()).content() == FileContent.EQUALITY_DELETES) {
          return true;
        }
      }
      return false;
    }

    private long oldestRemainingFile(Snapshot head) {
      long oldest = ((HasTableOperations) table).operations().current().lastSequenceNumber();
      Iterator manifests = head.dataManifests(table.io()).iterator();
      while (manifests.hasNext()) {
        ManifestReader reader = ManifestFiles.read((ManifestFile) manifests.next(), table.io(), table.specs());
        try {
          Iterator files = reader.iterator();
          while (files.hasNext()) {
            DataFile file = (DataFile) files.next();
            if (!removedPaths.contains(file.location())) {
              oldest = Math.min(oldest, file.dataSequenceNumber().longValue());
            }
          }
        } finally {
          close(reader);
        }
      }
      return oldest;
    }

    private static void close(ManifestReader reader) {
      try {
        reader.close();
      } catch (java.io.IOException e) {
        throw new java.io.UncheckedIOException(e);
      }
    }
  }

  /** Returns the scan tasks of these inputs, with their deletes; {@code paths} are separated by NUL characters. */
  public List inputTasks(String paths) {
    List found = new ArrayList();
    Iterator each = java.util.Arrays.asList(paths.split("\0")).iterator();
    while (each.hasNext()) {
      found.add(tasks.get(each.next()));
    }
    return found;
  }

  /** Creates a scan task for each output in a request, although no snapshot contains it yet. */
  public List outputTasks(String request) throws Exception {
    String schema = SchemaParser.toJson(table.schema());
    MetricsConfig metrics = MetricsConfig.forTable(table);
    List found = new ArrayList();
    Iterator added = json.readTree(request).get("added").elements();
    while (added.hasNext()) {
      DataFile file = dataFile((JsonNode) added.next(), metrics);
      PartitionSpec spec = (PartitionSpec) table.specs().get(new Integer(file.specId()));
      found.add(
          new BaseFileScanTask(
              withRowLineage(file, spec),
              new DeleteFile[0],
              schema,
              PartitionSpecParser.toJson(spec),
              ResidualEvaluator.unpartitioned(Expressions.alwaysTrue())));
    }
    return found;
  }

  /** The first row id of outputs: a row without a stored id gets an id that no row of the table has. */
  private static final long UNUSED_FIRST_ROW_ID = 1L << 60;

  /** Sets a first row id and sequence numbers, without which readers do not return the row lineage columns. */
  private DataFile withRowLineage(DataFile file, PartitionSpec spec) throws Exception {
    DataFile copy = DataFiles.builder(spec).copy(file).withFirstRowId(new Long(UNUSED_FIRST_ROW_ID)).build();
    Class type = Class.forName("org.apache.iceberg.BaseFile");
    String[] setters = {"setFileSequenceNumber", "setDataSequenceNumber"};
    for (int index = 0; index < setters.length; index++) {
      Method setter = type.getMethod(setters[index], new Class[] {Long.class});
      setter.setAccessible(true);
      setter.invoke(copy, new Object[] {new Long(0)});
    }
    return copy;
  }

  /** Returns the metrics that the manifest will contain for each output in a request. */
  public String outputMetrics(String request) throws Exception {
    MetricsConfig config = MetricsConfig.forTable(table);
    ObjectNode metrics = json.createObjectNode();
    Iterator added = json.readTree(request).get("added").elements();
    while (added.hasNext()) {
      DataFile file = dataFile((JsonNode) added.next(), config);
      ObjectNode row = metrics.putObject(file.location());
      row.put("record_count", file.recordCount());
      putCounts(row.putObject("null_value_counts"), file.nullValueCounts());
      putCounts(row.putObject("nan_value_counts"), file.nanValueCounts());
      putBounds(row.putObject("lower_bounds"), file.lowerBounds());
      putBounds(row.putObject("upper_bounds"), file.upperBounds());
    }
    return json.writeValueAsString(metrics);
  }

  private static void putCounts(ObjectNode node, Map counts) {
    Iterator each = counts == null ? new ArrayList().iterator() : counts.entrySet().iterator();
    while (each.hasNext()) {
      Map.Entry entry = (Map.Entry) each.next();
      node.put(entry.getKey().toString(), ((Long) entry.getValue()).longValue());
    }
  }

  private static void putBounds(ObjectNode node, Map bounds) {
    Iterator each = bounds == null ? new ArrayList().iterator() : bounds.entrySet().iterator();
    while (each.hasNext()) {
      Map.Entry entry = (Map.Entry) each.next();
      ByteBuffer value = (ByteBuffer) ((ByteBuffer) entry.getValue()).duplicate();
      byte[] raw = new byte[value.remaining()];
      value.get(raw);
      node.put(entry.getKey().toString(), Base64.getEncoder().encodeToString(raw));
    }
  }

  private DataFile dataFile(JsonNode output, MetricsConfig config) throws Exception {
    String path = output.get("path").asText();
    if (!dataFiles.containsKey(path)) {
      dataFiles.put(path, buildDataFile(output, config));
    }
    return (DataFile) dataFiles.get(path);
  }

  private DataFile buildDataFile(JsonNode output, MetricsConfig config) throws Exception {
    DataFile like = (DataFile) ((FileScanTask) tasks.get(output.get("like").asText())).file();
    PartitionSpec spec = (PartitionSpec) table.specs().get(new Integer(like.specId()));
    DataFiles.Builder builder = DataFiles.builder(spec);
    builder.withPath(output.get("path").asText());
    builder.withFormat(FileFormat.PARQUET);
    builder.withFileSizeInBytes(output.get("bytes").asLong());
    builder.withMetrics(readMetrics(output, config));
    if (!spec.isUnpartitioned()) {
      builder.withPartition(like.partition());
    }
    if (output.get("sorted").asBoolean()) {
      builder.withSortOrder(table.sortOrder());
    }
    List offsets = new ArrayList();
    Iterator each = output.get("split_offsets").elements();
    while (each.hasNext()) {
      offsets.add(new Long(((JsonNode) each.next()).asLong()));
    }
    builder.withSplitOffsets(offsets);
    return builder.build();
  }

  /** Reads the metrics from the footer, and adds the NaN counts, which footers do not have, from the kernel. */
  private Metrics readMetrics(JsonNode output, MetricsConfig config) throws Exception {
    Metrics footer = ParquetUtil.fileMetrics(table.io().newInputFile(output.get("path").asText()), config);
    Map nanCounts = new HashMap();
    Iterator each = output.get("nan_counts").fields();
    while (each.hasNext()) {
      Map.Entry entry = (Map.Entry) each.next();
      Integer id = new Integer((String) entry.getKey());
      if (footer.valueCounts() != null && footer.valueCounts().containsKey(id)) {
        nanCounts.put(id, new Long(((JsonNode) entry.getValue()).asLong()));
      }
    }
    Map lower = footer.lowerBounds() == null ? new HashMap() : new HashMap(footer.lowerBounds());
    Map upper = footer.upperBounds() == null ? new HashMap() : new HashMap(footer.upperBounds());
    Iterator bounds = output.get("bounds").fields();
    while (bounds.hasNext()) {
      Map.Entry entry = (Map.Entry) bounds.next();
      JsonNode pair = (JsonNode) entry.getValue();
      Integer id = new Integer((String) entry.getKey());
      byte[] smallest = Base64.getDecoder().decode(((JsonNode) pair.get(0)).asText());
      byte[] largest = Base64.getDecoder().decode(((JsonNode) pair.get(1)).asText());
      putOrRemove(lower, id, truncateBound(id, smallest, config, false));
      putOrRemove(upper, id, truncateBound(id, largest, config, true));
    }
    return new Metrics(
        footer.recordCount(),
        footer.columnSizes(),
        footer.valueCounts(),
        footer.nullValueCounts(),
        nanCounts,
        lower,
        upper);
  }

  private static void putOrRemove(Map bounds, Integer id, ByteBuffer bound) {
    if (bound == null) {
      bounds.remove(id);
    } else {
      bounds.put(id, bound);
    }
  }

  /** Truncates a bound as the column's metrics mode requires; null without bounds, or if no upper bound is that short. */
  private ByteBuffer truncateBound(Integer id, byte[] value, MetricsConfig config, boolean isUpper) throws Exception {
    MetricsModes.MetricsMode mode = config.columnMode(table.schema().findColumnName(id.intValue()));
    Type type = table.schema().findType(id.intValue());
    if (!(mode instanceof MetricsModes.Full) && !(mode instanceof MetricsModes.Truncate)) {
      return null;
    }
    if (mode instanceof MetricsModes.Full || type.typeId() == Type.TypeID.FLOAT || type.typeId() == Type.TypeID.DOUBLE) {
      return ByteBuffer.wrap(value);
    }
    int length = ((MetricsModes.Truncate) mode).length();
    Literal truncated;
    if (type.typeId() == Type.TypeID.STRING) {
      Literal whole = Expressions.lit(new String(value, "UTF-8"));
      truncated = isUpper ? UnicodeUtil.truncateStringMax(whole, length) : UnicodeUtil.truncateStringMin(whole, length);
    } else {
      Literal whole = Expressions.lit(ByteBuffer.wrap(value));
      truncated = isUpper ? BinaryUtil.truncateBinaryMax(whole, length) : BinaryUtil.truncateBinaryMin(whole, length);
    }
    return truncated == null ? null : Conversions.toByteBuffer(type, truncated.value());
  }
}
