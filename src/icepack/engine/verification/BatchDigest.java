// Hashes columnar batches of Iceberg's reader on executors, with the same results as the SQL expressions of
// expressions.py. Compiled on first use by Janino, the compiler that is part of Spark, which supports neither lambdas
// nor generics.
package icepack;

import java.io.Serializable;
import java.lang.reflect.Field;
import java.math.BigInteger;
import java.nio.charset.StandardCharsets;
import java.util.Arrays;
import java.util.Collections;
import java.util.Iterator;
import org.apache.iceberg.shaded.org.apache.arrow.vector.BaseFixedWidthVector;
import org.apache.iceberg.shaded.org.apache.arrow.vector.BigIntVector;
import org.apache.iceberg.shaded.org.apache.arrow.vector.Float8Vector;
import org.apache.iceberg.shaded.org.apache.arrow.vector.IntVector;
import org.apache.iceberg.shaded.org.apache.arrow.vector.TimeStampMicroTZVector;
import org.apache.iceberg.shaded.org.apache.arrow.vector.TimeStampMicroVector;
import org.apache.iceberg.shaded.org.apache.arrow.vector.ValueVector;
import org.apache.iceberg.shaded.org.apache.parquet.column.Dictionary;
import org.apache.iceberg.spark.data.vectorized.IcebergArrowColumnVector;
import org.apache.spark.api.java.function.FlatMapFunction;
import org.apache.spark.sql.catalyst.expressions.XXH64;
import org.apache.spark.sql.types.Decimal;
import org.apache.spark.sql.vectorized.ColumnVector;
import org.apache.spark.sql.vectorized.ColumnarBatch;
import org.apache.spark.unsafe.Platform;
import org.apache.spark.unsafe.types.UTF8String;

public class BatchDigest implements FlatMapFunction, Serializable {
  private static final long serialVersionUID = 1L;

  private static final long SEED = 42L;
  // The factor of the polynomial that combines the hashes of a row's columns, as in expressions.py.
  private static final long FACTOR = -7046029254386353131L;
  private static final long NEGATIVE_ZERO = hashBytes("-0.0".getBytes(StandardCharsets.UTF_8));
  private static final long POSITIVE_ZERO = hashBytes("0.0".getBytes(StandardCharsets.UTF_8));

  private static final int BOOLEAN = 0;
  private static final int INT = 1;
  private static final int LONG = 2;
  private static final int FLOAT = 3;
  private static final int DOUBLE = 4;
  private static final int STRING = 5;
  private static final int BINARY = 6;
  private static final int SMALL_DECIMAL = 7;
  private static final int LARGE_DECIMAL = 8;

  // Flags of a value, which are cached together with its hash.
  private static final int OUTSIDE_BOUNDS = 1;
  private static final int NAN = 2;
  private static final int FLAGS = 3;

  // The hashes of keys below this number are cached; values with larger keys are hashed each time.
  private static final int MAX_KEYS = 1 << 20;
  private static final int INITIAL_KEYS = 1 << 12;

  // The measures of each column: nulls, two hashes, NaNs, values outside of the bounds.
  private static final int MEASURES = 5;

  private final int file;
  private final int[] positions;
  private final String[] kinds;
  private final int columnsPerGroup;
  private final Object[] lower;
  private final Object[] upper;

  private transient long rows;
  private transient long[] measures;
  private transient long[] rowHashSums;
  private transient long[] rowHashes;
  private transient Column[] columns;
  // The flags of the value that `hashValue` hashed last.
  private transient int flags;

  // `positions` are the positions of the columns in a batch; `columnsPerGroup` columns are hashed together as a row.
  public BatchDigest(
      int file, int[] positions, String[] kinds, int columnsPerGroup, Object[] lower, Object[] upper) {
    this.file = file;
    this.positions = positions;
    this.kinds = kinds;
    this.columnsPerGroup = columnsPerGroup;
    this.lower = lower;
    this.upper = upper;
  }

  public Iterator call(Object partition) {
    int groups = (positions.length + columnsPerGroup - 1) / columnsPerGroup;
    rows = 0;
    measures = new long[positions.length * MEASURES];
    rowHashSums = new long[groups * 2];
    rowHashes = new long[0];
    columns = new Column[positions.length];
    for (int column = 0; column < columns.length; column++) {
      columns[column] = new Column(kinds[column], lower[column], upper[column]);
    }
    Iterator batches = (Iterator) partition;
    while (batches.hasNext()) {
      add((ColumnarBatch) batches.next());
    }
    return Collections.singletonList(formatResult()).iterator();
  }

  private void add(ColumnarBatch batch) {
    int count = batch.numRows();
    rows += count;
    if (rowHashes.length < count) {
      rowHashes = new long[count];
    }
    for (int column = 0; column < positions.length; column++) {
      if (column % columnsPerGroup == 0) {
        Arrays.fill(rowHashes, 0, count, SEED);
      }
      addColumn(batch.column(positions[column]), column, count);
      if ((column + 1) % columnsPerGroup == 0 || column + 1 == positions.length) {
        addRowHashes(column / columnsPerGroup, count);
      }
    }
  }

  private void addRowHashes(int group, int count) {
    long sum1 = 0;
    long sum2 = 0;
    for (int row = 0; row < count; row++) {
      long hash = XXH64.hashLong(rowHashes[row], SEED);
      sum1 += hash;
      sum2 += hash * hash;
    }
    rowHashSums[group * 2] += sum1;
    rowHashSums[group * 2 + 1] += sum2;
  }

  // Reads Iceberg's Arrow vectors directly if they contain plain values, or one key for each value.
  private void addColumn(ColumnVector vector, int position, int count) {
    Column column = columns[position];
    ValueVector values = getArrowVector(vector);
    if (values instanceof IntVector) {
      addCached(vector, ((IntVector) values).getDataBufferAddress(), position, count);
    } else if (column.kind == LONG && hasLongs(values)) {
      addLongs(vector, ((BaseFixedWidthVector) values).getDataBufferAddress(), position, count);
    } else if (column.kind == DOUBLE && values instanceof Float8Vector) {
      addDoubles(vector, ((BaseFixedWidthVector) values).getDataBufferAddress(), position, count);
    } else {
      addValues(vector, position, count);
    }
  }

  // Accepts only this class, because its subclasses map rows to other positions of the vector if rows are deleted.
  private static ValueVector getArrowVector(ColumnVector vector) {
    if (vector.getClass() != IcebergArrowColumnVector.class) {
      return null;
    }
    return ((IcebergArrowColumnVector) vector).vectorAccessor().getVector();
  }

  private static boolean hasLongs(ValueVector values) {
    return values instanceof BigIntVector
        || values instanceof TimeStampMicroVector
        || values instanceof TimeStampMicroTZVector;
  }

  // An IntVector contains ids of a dictionary, or numbers that determine the value: with the same dictionary, equal
  // keys have equal values.
  private void addCached(ColumnVector vector, long address, int position, int count) {
    Column column = columns[position];
    column.useDictionary(((IcebergArrowColumnVector) vector).vectorAccessor());
    boolean hasNull = vector.hasNull();
    long[] cache = column.cache;
    long generation = column.generation;
    long nulls = 0, sum1 = 0, sum2 = 0, nans = 0, outside = 0;
    for (int row = 0; row < count; row++) {
      long hash = SEED;
      if (hasNull && vector.isNullAt(row)) {
        nulls++;
      } else {
        int key = Platform.getInt(null, address + 4L * row);
        long found = key >= 0 && key < cache.length >> 1 ? cache[2 * key] - generation : -1;
        if (found >= 0) {
          hash = cache[2 * key + 1];
        } else {
          hash = hashValue(vector, row, column);
          found = flags;
          if (key >= 0 && key < MAX_KEYS) {
            cache = column.cacheHash(key, hash, flags);
          }
        }
        outside += found & OUTSIDE_BOUNDS;
        nans += found >>> 1;
      }
      sum1 += hash;
      sum2 += hash * hash;
      rowHashes[row] = rowHashes[row] * FACTOR + hash;
    }
    addMeasures(position, nulls, sum1, sum2, nans, outside);
  }

  private void addLongs(ColumnVector vector, long address, int position, int count) {
    long low = columns[position].lowLong;
    long high = columns[position].highLong;
    boolean hasNull = vector.hasNull();
    long nulls = 0, sum1 = 0, sum2 = 0, outside = 0;
    for (int row = 0; row < count; row++) {
      long hash = SEED;
      if (hasNull && vector.isNullAt(row)) {
        nulls++;
      } else {
        long value = Platform.getLong(null, address + 8L * row);
        hash = XXH64.hashLong(value, SEED);
        if (value < low || value > high) {
          outside++;
        }
      }
      sum1 += hash;
      sum2 += hash * hash;
      rowHashes[row] = rowHashes[row] * FACTOR + hash;
    }
    addMeasures(position, nulls, sum1, sum2, 0, outside);
  }

  private void addDoubles(ColumnVector vector, long address, int position, int count) {
    double low = columns[position].lowDouble;
    double high = columns[position].highDouble;
    boolean hasNull = vector.hasNull();
    long nulls = 0, sum1 = 0, sum2 = 0, nans = 0, outside = 0;
    for (int row = 0; row < count; row++) {
      long hash = SEED;
      if (hasNull && vector.isNullAt(row)) {
        nulls++;
      } else {
        double value = Platform.getDouble(null, address + 8L * row);
        hash = hashDouble(value);
        if (value != value) {
          nans++;
        } else if (value < low || value > high) {
          outside++;
        }
      }
      sum1 += hash;
      sum2 += hash * hash;
      rowHashes[row] = rowHashes[row] * FACTOR + hash;
    }
    addMeasures(position, nulls, sum1, sum2, nans, outside);
  }

  private void addValues(ColumnVector vector, int position, int count) {
    Column column = columns[position];
    boolean hasNull = vector.hasNull();
    long nulls = 0, sum1 = 0, sum2 = 0, nans = 0, outside = 0;
    for (int row = 0; row < count; row++) {
      long hash = SEED;
      if (hasNull && vector.isNullAt(row)) {
        nulls++;
      } else {
        hash = hashValue(vector, row, column);
        outside += flags & OUTSIDE_BOUNDS;
        nans += flags >>> 1;
      }
      sum1 += hash;
      sum2 += hash * hash;
      rowHashes[row] = rowHashes[row] * FACTOR + hash;
    }
    addMeasures(position, nulls, sum1, sum2, nans, outside);
  }

  private void addMeasures(int position, long nulls, long sum1, long sum2, long nans, long outside) {
    int first = position * MEASURES;
    measures[first] += nulls;
    measures[first + 1] += sum1;
    measures[first + 2] += sum2;
    measures[first + 3] += nans;
    measures[first + 4] += outside;
  }

  // Hashes a value that is not null, and sets `flags`.
  private long hashValue(ColumnVector vector, int row, Column column) {
    switch (column.kind) {
      case BOOLEAN:
        int bit = vector.getBoolean(row) ? 1 : 0;
        flags = column.getFlags((long) bit);
        return XXH64.hashInt(bit, SEED);
      case INT:
        int number = vector.getInt(row);
        flags = column.getFlags((long) number);
        return XXH64.hashInt(number, SEED);
      case LONG:
        long value = vector.getLong(row);
        flags = column.getFlags(value);
        return XXH64.hashLong(value, SEED);
      case FLOAT:
        float single = vector.getFloat(row);
        flags = column.getFlags((double) single);
        return single == 0f ? hashZero(1f / single) : XXH64.hashInt(Float.floatToIntBits(single), SEED);
      case DOUBLE:
        double real = vector.getDouble(row);
        flags = column.getFlags(real);
        return hashDouble(real);
      case STRING:
        UTF8String text = vector.getUTF8String(row);
        flags = column.getFlags(text);
        return XXH64.hashUnsafeBytes(text.getBaseObject(), text.getBaseOffset(), text.numBytes(), SEED);
      case BINARY:
        byte[] bytes = vector.getBinary(row);
        flags = column.getFlags(bytes);
        return hashBytes(bytes);
      case SMALL_DECIMAL:
        long unscaled = vector.getDecimal(row, column.precision, column.scale).toUnscaledLong();
        flags = column.getFlags(unscaled);
        return XXH64.hashLong(unscaled, SEED);
      default:
        Decimal decimal = vector.getDecimal(row, column.precision, column.scale);
        BigInteger large = decimal.toJavaBigDecimal().unscaledValue();
        flags = column.getFlags(large);
        return hashBytes(large.toByteArray());
    }
  }

  private static long hashDouble(double value) {
    return value == 0d ? hashZero(1d / value) : XXH64.hashLong(Double.doubleToLongBits(value), SEED);
  }

  // Spark's own hash is the same for 0.0 and -0.0, so they are hashed as text.
  private static long hashZero(double inverse) {
    return inverse < 0 ? NEGATIVE_ZERO : POSITIVE_ZERO;
  }

  private static long hashBytes(byte[] bytes) {
    return XXH64.hashUnsafeBytes(bytes, Platform.BYTE_ARRAY_OFFSET, bytes.length, SEED);
  }

  // Formats the file number, the rows, two hashes for each group of columns, and the measures of each column.
  private String formatResult() {
    StringBuilder text = new StringBuilder();
    text.append(file).append(' ').append(rows);
    for (int index = 0; index < rowHashSums.length; index++) {
      text.append(' ').append(rowHashSums[index]);
    }
    for (int index = 0; index < measures.length; index++) {
      text.append(' ').append(measures[index]);
    }
    return text.toString();
  }

  // The type of a column and its bounds in the manifest entry, which are infinite if there are none.
  private static class Column {
    final int kind;
    final int precision;
    final int scale;
    long lowLong = Long.MIN_VALUE;
    long highLong = Long.MAX_VALUE;
    double lowDouble = Double.NEGATIVE_INFINITY;
    double highDouble = Double.POSITIVE_INFINITY;
    byte[] lowBytes;
    byte[] highBytes;
    UTF8String lowText;
    UTF8String highText;
    BigInteger lowLarge;
    BigInteger highLarge;
    // Two numbers for each key: the generation of its dictionary plus the flags of the value, and the value's hash. They
    // are adjacent because the entries of large dictionaries do not fit into the CPU cache. Each new dictionary
    // increases the generation.
    long[] cache = new long[2 * INITIAL_KEYS];
    long generation;
    private Object dictionary;
    private Class accessorClass;
    private Field dictionaryField;

    Column(String name, Object lower, Object upper) {
      int comma = name.indexOf(',');
      precision = comma < 0 ? 0 : Integer.parseInt(name.substring(0, comma));
      scale = comma < 0 ? 0 : Integer.parseInt(name.substring(comma + 1));
      kind = comma < 0 ? parseKind(name) : precision <= Decimal.MAX_LONG_DIGITS() ? SMALL_DECIMAL : LARGE_DECIMAL;
      if (lower != null) {
        setLower(lower);
      }
      if (upper != null) {
        setUpper(upper);
      }
    }

    private static int parseKind(String name) {
      return Arrays.asList(new String[] {"boolean", "int", "long", "float", "double", "string", "binary"})
          .indexOf(name);
    }

    private void setLower(Object bound) {
      if (bound instanceof Number) {
        lowLong = ((Number) bound).longValue();
        lowDouble = kind == FLOAT ? ((Number) bound).floatValue() : ((Number) bound).doubleValue();
        return;
      }
      lowBytes = (byte[]) bound;
      lowText = UTF8String.fromBytes(lowBytes);
      if (kind == SMALL_DECIMAL || kind == LARGE_DECIMAL) {
        lowLarge = new BigInteger(lowBytes);
        lowLong = lowLarge.longValue();
      }
    }

    private void setUpper(Object bound) {
      if (bound instanceof Number) {
        highLong = ((Number) bound).longValue();
        highDouble = kind == FLOAT ? ((Number) bound).floatValue() : ((Number) bound).doubleValue();
        return;
      }
      highBytes = (byte[]) bound;
      highText = UTF8String.fromBytes(highBytes);
      if (kind == SMALL_DECIMAL || kind == LARGE_DECIMAL) {
        highLarge = new BigInteger(highBytes);
        highLong = highLarge.longValue();
      }
    }

    // Iceberg creates a new accessor for each batch, which has the dictionary of the column chunk in a private field.
    // If the field cannot be read, each batch is treated as having a new dictionary.
    void useDictionary(Object accessor) {
      if (accessor.getClass() != accessorClass) {
        accessorClass = accessor.getClass();
        dictionaryField = findDictionary(accessorClass);
      }
      Object found = null;
      try {
        found = dictionaryField == null ? null : dictionaryField.get(accessor);
      } catch (IllegalAccessException ignored) {
        dictionaryField = null;
      }
      if (found == null || found != dictionary) {
        generation += FLAGS + 1;
      }
      dictionary = found;
    }

    private static Field findDictionary(Class accessorClass) {
      for (Class each = accessorClass; each != null; each = each.getSuperclass()) {
        Field[] fields = each.getDeclaredFields();
        for (int index = 0; index < fields.length; index++) {
          if (Dictionary.class.isAssignableFrom(fields[index].getType())) {
            fields[index].setAccessible(true);
            return fields[index];
          }
        }
      }
      return null;
    }

    long[] cacheHash(int key, long hash, int flags) {
      if (2 * key >= cache.length) {
        cache = Arrays.copyOf(cache, Math.max(2 * key + 2, 2 * cache.length));
      }
      cache[2 * key] = generation + flags;
      cache[2 * key + 1] = hash;
      return cache;
    }

    int getFlags(long value) {
      return value < lowLong || value > highLong ? OUTSIDE_BOUNDS : 0;
    }

    int getFlags(double value) {
      if (value != value) {
        return NAN;
      }
      return value < lowDouble || value > highDouble ? OUTSIDE_BOUNDS : 0;
    }

    int getFlags(UTF8String value) {
      boolean isBelow = lowText != null && value.binaryCompare(lowText) < 0;
      return isBelow || (highText != null && value.binaryCompare(highText) > 0) ? OUTSIDE_BOUNDS : 0;
    }

    int getFlags(byte[] value) {
      boolean isBelow = lowBytes != null && Arrays.compareUnsigned(value, lowBytes) < 0;
      return isBelow || (highBytes != null && Arrays.compareUnsigned(value, highBytes) > 0) ? OUTSIDE_BOUNDS : 0;
    }

    int getFlags(BigInteger value) {
      boolean isBelow = lowLarge != null && value.compareTo(lowLarge) < 0;
      return isBelow || (highLarge != null && value.compareTo(highLarge) > 0) ? OUTSIDE_BOUNDS : 0;
    }
  }
}
