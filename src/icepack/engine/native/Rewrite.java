// The JVM's side of a native rewrite: everything that touches each file, so that no file crosses the gateway alone.
// Compiled when it is first needed, by the compiler that Spark itself carries; that one knows no lambdas and no generics.
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
  private final Map users = new HashMap();
  private final Set landed = new HashSet();
  private final Map built = new HashMap();

  /** Finds the scan tasks of these files, by name and one after another divided by a NUL, in one snapshot. */
  public Rewrite(Table table, long snapshotId, String paths) throws Exception {
    this.table = table;
    this.snapshotId = snapshotId;
    Set wanted = new HashSet(java.util.Arrays.asList(paths.split("\0")));
    TableScan scan = (TableScan) ((TableScan) table.newScan().useSnapshot(snapshotId)).ignoreResiduals();
    CloseableIterable planned = scan.planFiles();
    try {
      CloseableIterator each = planned.iterator();
      while (each.hasNext()) {
        FileScanTask task = (FileScanTask) each.next();
        String path = task.file().location();
        count(users, task, 1);
        if (wanted.contains(path)) {
          tasks.put(path, task);
        }
      }
    } finally {
      planned.close();
    }
  }

  /** What a task needs to know of every file, and of every delete that applies to it. */
  public String describe() throws Exception {
    ObjectNode answer = json.createObjectNode();
    ArrayNode files = answer.putArray("files");
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
      constants(row.putObject("constants"), file);
      ArrayNode numbers = row.putArray("deletes");
      Iterator applied = task.deletes().iterator();
      while (applied.hasNext()) {
        numbers.add(number((DeleteFile) applied.next()));
      }
    }
    ArrayNode described = answer.putArray("deletes");
    Iterator known = deletes.values().iterator();
    while (known.hasNext()) {
      describe(described.addObject(), (DeleteFile) ((Object[]) known.next())[1]);
    }
    return json.writeValueAsString(answer);
  }

  /** By field id, the partition's value of every column by whose identity the file is partitioned. */
  private void constants(ObjectNode row, DataFile file) throws Exception {
    PartitionSpec spec = (PartitionSpec) table.specs().get(new Integer(file.specId()));
    List fields = spec.fields();
    for (int position = 0; position < fields.size(); position++) {
      PartitionField field = (PartitionField) fields.get(position);
      Type type = table.schema().findType(field.sourceId());
      if (field.transform().isIdentity() && type != null) {
        Object value = promoted(type, file.partition().get(position, Object.class));
        String id = String.valueOf(field.sourceId());
        if (value == null) {
          row.putNull(id);
        } else {
          row.set(id, json.readTree(SingleValueParser.toJson(type, value)));
        }
      }
    }
  }

  /** A partition keeps the type that its column had when it was written. */
  private static Object promoted(Type type, Object value) {
    if (type.typeId() == Type.TypeID.LONG && value instanceof Integer) {
      return new Long(((Integer) value).longValue());
    }
    if (type.typeId() == Type.TypeID.DOUBLE && value instanceof Float) {
      return new Double(((Float) value).doubleValue());
    }
    return value;
  }

  private static String key(DeleteFile file) {
    return file.location() + "\0" + file.contentOffset();
  }

  /** Adds to the number of data files that each delete of this one still applies to. */
  private static void count(Map counts, FileScanTask task, int change) {
    Iterator applied = task.deletes().iterator();
    while (applied.hasNext()) {
      String key = key((DeleteFile) applied.next());
      Integer known = (Integer) counts.get(key);
      counts.put(key, new Integer((known == null ? 0 : known.intValue()) + change));
    }
  }

  private int number(DeleteFile file) {
    String key = key(file);
    Object[] known = (Object[]) deletes.get(key);
    if (known == null) {
      known = new Object[] {new Integer(deletes.size()), file};
      deletes.put(key, known);
    }
    return ((Integer) known[0]).intValue();
  }

  private void describe(ObjectNode row, DeleteFile file) {
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

  /** A place for an output beside the file whose partition it shares. */
  public String location(String like, String name) {
    DataFile file = (DataFile) ((FileScanTask) tasks.get(like)).file();
    PartitionSpec spec = (PartitionSpec) table.specs().get(new Integer(file.specId()));
    if (spec.isUnpartitioned()) {
      return table.locationProvider().newDataLocation(name);
    }
    return table.locationProvider().newDataLocation(spec, file.partition(), name);
  }

  /** The footers of the outputs are read here, by the code that every other writer of the table uses. */
  public RewriteFiles prepare(String request, Map summary) throws Exception {
    JsonNode wanted = json.readTree(request);
    RewriteFiles rewrite = table.newRewrite();
    rewrite.validateFromSnapshot(snapshotId);
    rewrite.dataSequenceNumber(table.snapshot(snapshotId).sequenceNumber());
    Set gone = new HashSet();
    Iterator removed = wanted.get("removed").elements();
    while (removed.hasNext()) {
      String path = ((JsonNode) removed.next()).asText();
      gone.add(path);
      rewrite.deleteFile((DataFile) ((FileScanTask) tasks.get(path)).file());
    }
    removeDeletesOf(rewrite, gone);
    rewrite.validateWith(new Guard(table, table.snapshot(snapshotId).sequenceNumber(), gone));
    MetricsConfig metrics = MetricsConfig.forTable(table);
    Iterator added = wanted.get("added").elements();
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

  /** To be told once a commit is known to have landed: what its files needed no longer counts. */
  public void landed(String request) throws Exception {
    Iterator removed = json.readTree(request).get("removed").elements();
    while (removed.hasNext()) {
      landed.add(((JsonNode) removed.next()).asText());
    }
  }

  /** A delete goes with the last of the snapshot's files that it applies to; there is no later file that needs it. */
  private void removeDeletesOf(RewriteFiles rewrite, Set gone) {
    Map left = new HashMap(users);
    Iterator before = landed.iterator();
    while (before.hasNext()) {
      count(left, (FileScanTask) tasks.get(before.next()), -1);
    }
    Iterator each = gone.iterator();
    while (each.hasNext()) {
      FileScanTask task = (FileScanTask) tasks.get(each.next());
      count(left, task, -1);
      Iterator applied = task.deletes().iterator();
      while (applied.hasNext()) {
        DeleteFile file = (DeleteFile) applied.next();
        if (((Integer) left.get(key(file))).intValue() == 0) {
          rewrite.deleteFile(file);
        }
      }
    }
  }

  /**
   * Iceberg drops every delete that is older than the oldest data file left, and does not count the files that a
   * rewrite adds under an older number (seen in 1.12). An equality delete that came meanwhile would be lost when
   * nothing but newer files is left beside the outputs, and its rows would come back. Asked with every attempt.
   */
  public static class Guard implements SnapshotAncestryValidator {
    private final Table table;
    private final long start;
    private final Set gone;

    public Guard(Table table, long start, Set gone) {
      this.table = table;
      this.start = start;
      this.gone = gone;
    }

    public boolean validate(Iterable ancestors) {
      Snapshot head = null;
      long oldest = Long.MAX_VALUE;
      Iterator each = ancestors.iterator();
      while (each.hasNext()) {
        Snapshot snapshot = (Snapshot) each.next();
        if (head == null) {
          head = snapshot;
        }
        if (snapshot.sequenceNumber() <= start) {
          break;
        }
        if (addsEqualityDeletes(snapshot)) {
          oldest = snapshot.sequenceNumber();
        }
      }
      if (oldest != Long.MAX_VALUE && oldestLeft(head) > oldest) {
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

    private long oldestLeft(Snapshot head) {
      long oldest = ((HasTableOperations) table).operations().current().lastSequenceNumber();
      Iterator manifests = head.dataManifests(table.io()).iterator();
      while (manifests.hasNext()) {
        ManifestReader reader = ManifestFiles.read((ManifestFile) manifests.next(), table.io(), table.specs());
        try {
          Iterator files = reader.iterator();
          while (files.hasNext()) {
            DataFile file = (DataFile) files.next();
            if (!gone.contains(file.location())) {
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

  /** Scan tasks of these inputs, by name and divided by a NUL, with the deletes that apply to them. */
  public List inputTasks(String paths) {
    List found = new ArrayList();
    Iterator each = java.util.Arrays.asList(paths.split("\0")).iterator();
    while (each.hasNext()) {
      found.add(tasks.get(each.next()));
    }
    return found;
  }

  /** A scan task for each output of a request, though no snapshot has it yet. */
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
              readable(file, spec),
              new DeleteFile[0],
              schema,
              PartitionSpecParser.toJson(spec),
              ResidualEvaluator.unpartitioned(Expressions.alwaysTrue())));
    }
    return found;
  }

  /** Where the first row id of an output is given, a row that does not state its own gets one that no row has. */
  private static final long UNSTATED = 1L << 60;

  /** Readers give rows their identity only where the file has a first row id and a sequence number. */
  private DataFile readable(DataFile file, PartitionSpec spec) throws Exception {
    DataFile copy = DataFiles.builder(spec).copy(file).withFirstRowId(new Long(UNSTATED)).build();
    Class type = Class.forName("org.apache.iceberg.BaseFile");
    String[] numbers = {"setFileSequenceNumber", "setDataSequenceNumber"};
    for (int at = 0; at < numbers.length; at++) {
      Method setter = type.getMethod(numbers[at], new Class[] {Long.class});
      setter.setAccessible(true);
      setter.invoke(copy, new Object[] {new Long(0)});
    }
    return copy;
  }

  /** What the manifest will say of each output of a request. */
  public String outputMetrics(String request) throws Exception {
    MetricsConfig config = MetricsConfig.forTable(table);
    ObjectNode answer = json.createObjectNode();
    Iterator added = json.readTree(request).get("added").elements();
    while (added.hasNext()) {
      DataFile file = dataFile((JsonNode) added.next(), config);
      ObjectNode row = answer.putObject(file.location());
      row.put("record_count", file.recordCount());
      putCounts(row.putObject("null_value_counts"), file.nullValueCounts());
      putCounts(row.putObject("nan_value_counts"), file.nanValueCounts());
      putBounds(row.putObject("lower_bounds"), file.lowerBounds());
      putBounds(row.putObject("upper_bounds"), file.upperBounds());
    }
    return json.writeValueAsString(answer);
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

  private DataFile dataFile(JsonNode made, MetricsConfig config) throws Exception {
    String path = made.get("path").asText();
    if (!built.containsKey(path)) {
      built.put(path, build(made, config));
    }
    return (DataFile) built.get(path);
  }

  private DataFile build(JsonNode made, MetricsConfig config) throws Exception {
    DataFile like = (DataFile) ((FileScanTask) tasks.get(made.get("like").asText())).file();
    PartitionSpec spec = (PartitionSpec) table.specs().get(new Integer(like.specId()));
    DataFiles.Builder builder = DataFiles.builder(spec);
    builder.withPath(made.get("path").asText());
    builder.withFormat(FileFormat.PARQUET);
    builder.withFileSizeInBytes(made.get("bytes").asLong());
    builder.withMetrics(metrics(made, config));
    if (!spec.isUnpartitioned()) {
      builder.withPartition(like.partition());
    }
    if (made.get("sorted").asBoolean()) {
      builder.withSortOrder(table.sortOrder());
    }
    List offsets = new ArrayList();
    Iterator each = made.get("split_offsets").elements();
    while (each.hasNext()) {
      offsets.add(new Long(((JsonNode) each.next()).asLong()));
    }
    builder.withSplitOffsets(offsets);
    return builder.build();
  }

  /** A footer does not say how many values are not numbers; the kernel has counted them. */
  private Metrics metrics(JsonNode made, MetricsConfig config) throws Exception {
    Metrics read = ParquetUtil.fileMetrics(table.io().newInputFile(made.get("path").asText()), config);
    Map nans = new HashMap();
    Iterator each = made.get("nan_counts").fields();
    while (each.hasNext()) {
      Map.Entry entry = (Map.Entry) each.next();
      Integer id = new Integer((String) entry.getKey());
      if (read.valueCounts() != null && read.valueCounts().containsKey(id)) {
        nans.put(id, new Long(((JsonNode) entry.getValue()).asLong()));
      }
    }
    Map lower = read.lowerBounds() == null ? new HashMap() : new HashMap(read.lowerBounds());
    Map upper = read.upperBounds() == null ? new HashMap() : new HashMap(read.upperBounds());
    Iterator exact = made.get("bounds").fields();
    while (exact.hasNext()) {
      Map.Entry entry = (Map.Entry) exact.next();
      JsonNode pair = (JsonNode) entry.getValue();
      Integer id = new Integer((String) entry.getKey());
      put(lower, id, bound(id, Base64.getDecoder().decode(((JsonNode) pair.get(0)).asText()), config, false));
      put(upper, id, bound(id, Base64.getDecoder().decode(((JsonNode) pair.get(1)).asText()), config, true));
    }
    return new Metrics(
        read.recordCount(), read.columnSizes(), read.valueCounts(), read.nullValueCounts(), nans, lower, upper);
  }

  private static void put(Map bounds, Integer id, ByteBuffer bound) {
    if (bound == null) {
      bounds.remove(id);
    } else {
      bounds.put(id, bound);
    }
  }

  /** As much of a value as the column's metrics keep; none where they keep none, or where no upper bound is that short. */
  private ByteBuffer bound(Integer id, byte[] value, MetricsConfig config, boolean isUpper) throws Exception {
    MetricsModes.MetricsMode mode = config.columnMode(table.schema().findColumnName(id.intValue()));
    Type type = table.schema().findType(id.intValue());
    if (!(mode instanceof MetricsModes.Full) && !(mode instanceof MetricsModes.Truncate)) {
      return null;
    }
    if (mode instanceof MetricsModes.Full || type.typeId() == Type.TypeID.FLOAT || type.typeId() == Type.TypeID.DOUBLE) {
      return ByteBuffer.wrap(value);
    }
    int length = ((MetricsModes.Truncate) mode).length();
    Literal cut;
    if (type.typeId() == Type.TypeID.STRING) {
      Literal whole = Expressions.lit(new String(value, "UTF-8"));
      cut = isUpper ? UnicodeUtil.truncateStringMax(whole, length) : UnicodeUtil.truncateStringMin(whole, length);
    } else {
      Literal whole = Expressions.lit(ByteBuffer.wrap(value));
      cut = isUpper ? BinaryUtil.truncateBinaryMax(whole, length) : BinaryUtil.truncateBinaryMin(whole, length);
    }
    return cut == null ? null : Conversions.toByteBuffer(type, cut.value());
  }
}
