// Digests files with Iceberg's generic reader, for tables with types that Spark does not support.
// Compiled on first use by Janino, the compiler that is part of Spark, which supports neither lambdas nor generics.
package icepack;

import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.lang.reflect.Constructor;
import java.lang.reflect.Method;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.util.Iterator;
import java.util.List;
import java.util.Map;
import org.apache.iceberg.FileScanTask;
import org.apache.iceberg.MetadataColumns;
import org.apache.iceberg.Schema;
import org.apache.iceberg.StructLike;
import org.apache.iceberg.Table;
import org.apache.iceberg.TableScan;
import org.apache.iceberg.data.Record;
import org.apache.iceberg.io.CloseableIterable;
import org.apache.iceberg.types.Types;
import org.apache.spark.sql.catalyst.expressions.XXH64;
import org.apache.spark.unsafe.Platform;

public class GenericDigest {
  private static final long SEED = 42L;
  private final ObjectMapper json = new ObjectMapper();
  private final Schema schema;
  private final Object reader;
  private final Method open;

  public GenericDigest(Table table, Boolean withLineage) throws Exception {
    this.schema = withLineage.booleanValue() ? MetadataColumns.schemaWithRowLineage(table.schema()) : table.schema();
    TableScan scan = (TableScan) table.newScan().project(schema);
    Class type = Class.forName("org.apache.iceberg.data.GenericReader");
    Constructor constructor = type.getDeclaredConstructor(new Class[] {TableScan.class, Boolean.TYPE});
    constructor.setAccessible(true);
    this.reader = constructor.newInstance(new Object[] {scan, Boolean.FALSE});
    this.open = type.getMethod("open", new Class[] {FileScanTask.class});
    this.open.setAccessible(true);
  }

  /** Returns, as JSON, the number of rows, and nulls, NaNs and two hashes of each column and of whole rows. */
  public String digest(List tasks) throws Exception {
    int columns = schema.columns().size();
    long[] nulls = new long[columns];
    long[] nans = new long[columns];
    long[] first = new long[columns + 1];
    long[] second = new long[columns + 1];
    long rows = 0;
    Iterator each = tasks.iterator();
    while (each.hasNext()) {
      CloseableIterable records = (CloseableIterable) open.invoke(reader, new Object[] {each.next()});
      try {
        Iterator record = records.iterator();
        while (record.hasNext()) {
          StructLike row = (StructLike) record.next();
          rows++;
          long rowHash = SEED;
          for (int index = 0; index < columns; index++) {
            Object value = row.get(index, Object.class);
            long hash = hash(value);
            nulls[index] += value == null ? 1 : 0;
            nans[index] += isNaN(value) ? 1 : 0;
            first[index] += hash;
            second[index] += XXH64.hashLong(hash, SEED);
            rowHash = XXH64.hashLong(hash, rowHash);
          }
          first[columns] += rowHash;
          second[columns] += XXH64.hashLong(rowHash, SEED);
        }
      } finally {
        records.close();
      }
    }
    return toJson(rows, nulls, nans, first, second);
  }

  private String toJson(long rows, long[] nulls, long[] nans, long[] first, long[] second) throws Exception {
    ObjectNode digest = json.createObjectNode();
    digest.put("rows", rows);
    ArrayNode columns = digest.putArray("columns");
    for (int index = 0; index < nulls.length; index++) {
      ObjectNode row = columns.addObject();
      row.put("name", ((Types.NestedField) schema.columns().get(index)).name());
      row.put("nulls", nulls[index]);
      row.put("nans", nans[index]);
      row.put("hash_1", Long.toHexString(first[index]));
      row.put("hash_2", Long.toHexString(second[index]));
    }
    digest.put("hash_1", Long.toHexString(first[nulls.length]));
    digest.put("hash_2", Long.toHexString(second[nulls.length]));
    return json.writeValueAsString(digest);
  }

  private static boolean isNaN(Object value) {
    return (value instanceof Double && ((Double) value).isNaN()) || (value instanceof Float && ((Float) value).isNaN());
  }

  /** Hashes a value; distinguishes null, empty containers and the order of elements at every depth. */
  private static long hash(Object value) throws Exception {
    if (value == null) {
      return SEED;
    }
    if (value instanceof Double) {
      return XXH64.hashLong(Double.doubleToLongBits(((Double) value).doubleValue()), SEED);
    }
    if (value instanceof Float) {
      return XXH64.hashLong(Float.floatToIntBits(((Float) value).floatValue()), SEED);
    }
    if (value instanceof Number && !(value instanceof java.math.BigDecimal)) {
      return XXH64.hashLong(((Number) value).longValue(), SEED);
    }
    if (value instanceof byte[]) {
      return hashBytes((byte[]) value);
    }
    if (value instanceof ByteBuffer) {
      ByteBuffer copy = (ByteBuffer) ((ByteBuffer) value).duplicate();
      byte[] raw = new byte[copy.remaining()];
      copy.get(raw);
      return hashBytes(raw);
    }
    if (value instanceof List) {
      long found = XXH64.hashLong(((List) value).size(), 1L);
      Iterator each = ((List) value).iterator();
      while (each.hasNext()) {
        found = XXH64.hashLong(hash(each.next()), found);
      }
      return found;
    }
    if (value instanceof Map) {
      long found = 0;
      Iterator each = ((Map) value).entrySet().iterator();
      while (each.hasNext()) {
        Map.Entry entry = (Map.Entry) each.next();
        found += XXH64.hashLong(hash(entry.getValue()), hash(entry.getKey()));
      }
      return XXH64.hashLong(found, XXH64.hashLong(((Map) value).size(), 2L));
    }
    if (value instanceof Record) {
      long found = 3L;
      for (int index = 0; index < ((Record) value).size(); index++) {
        found = XXH64.hashLong(hash(((Record) value).get(index)), found);
      }
      return found;
    }
    // Dates, times, decimals, uuids, strings and booleans are fully described by their text.
    return hashBytes(value.toString().getBytes(StandardCharsets.UTF_8));
  }

  private static long hashBytes(byte[] raw) {
    return XXH64.hashUnsafeBytes(raw, Platform.BYTE_ARRAY_OFFSET, raw.length, SEED);
  }
}
