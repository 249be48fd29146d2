// Hashes columnar batches on executors, with the same results as the SQL expressions of expressions.py.
// Compiled by the compiler that Spark carries, which knows no lambdas and no generics.
package icepack;

import java.io.Serializable;
import java.math.BigInteger;
import java.util.Arrays;
import java.util.Collections;
import java.util.Iterator;
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
  // Of the polynomial that joins the hashes of a row's columns, as in expressions.py.
  private static final long FACTOR = -7046029254386353131L;
  private static final long NEGATIVE_ZERO = hashText("-0.0");
  private static final long POSITIVE_ZERO = hashText("0.0");

  private static final int SLOT_BITS = 11;

  // Of each column: nulls, two hashes, NaNs, values outside of the bounds.
  private static final int MEASURES = 5;
  private static final int NULLS = 0;
  private static final int HASH_1 = 1;
  private static final int HASH_2 = 2;
  private static final int NANS = 3;
  private static final int OUTSIDE = 4;

  private final int file;
  private final int[] places;
  private final String[] kinds;
  private final int columnsPerWhole;
  private final Object[] lower;
  private final Object[] upper;

  private transient long rows;
  private transient long[] measures;
  private transient long[] wholes;
  private transient long[] rowHashes;
  private transient Object[] knownBases;
  private transient long[] knownOffsets;
  private transient int[] knownLengths;
  private transient long[] knownHashes;
  private transient int[] knownOutside;

  // `places`: where each column stands in a batch. `columnsPerWhole`: how many columns are hashed together as a row.
  public BatchDigest(
      int file, int[] places, String[] kinds, int columnsPerWhole, Object[] lower, Object[] upper) {
    this.file = file;
    this.places = places;
    this.kinds = kinds;
    this.columnsPerWhole = columnsPerWhole;
    this.lower = lower;
    this.upper = upper;
  }

  public Iterator call(Object partition) {
    int parts = (places.length + columnsPerWhole - 1) / columnsPerWhole;
    rows = 0;
    measures = new long[places.length * MEASURES];
    wholes = new long[parts * 2];
    rowHashes = new long[0];
    knownBases = new Object[1 << SLOT_BITS];
    knownOffsets = new long[1 << SLOT_BITS];
    knownLengths = new int[1 << SLOT_BITS];
    knownHashes = new long[1 << SLOT_BITS];
    knownOutside = new int[1 << SLOT_BITS];
    Iterator batches = (Iterator) partition;
    while (batches.hasNext()) {
      add((ColumnarBatch) batches.next());
    }
    return Collections.singletonList(text()).iterator();
  }

  private void add(ColumnarBatch batch) {
    int count = batch.numRows();
    rows += count;
    if (rowHashes.length < count) {
      rowHashes = new long[count];
    }
    for (int column = 0; column < places.length; column++) {
      if (column % columnsPerWhole == 0) {
        Arrays.fill(rowHashes, 0, count, SEED);
      }
      addColumn(batch.column(places[column]), column, count);
      if ((column + 1) % columnsPerWhole == 0 || column + 1 == places.length) {
        addWholes(column / columnsPerWhole, count);
      }
    }
  }

  private void addWholes(int part, int count) {
    long one = 0;
    long two = 0;
    for (int row = 0; row < count; row++) {
      long hash = XXH64.hashLong(rowHashes[row], SEED);
      one += hash;
      two += hash * hash;
    }
    wholes[part * 2] += one;
    wholes[part * 2 + 1] += two;
  }

  private void addColumn(ColumnVector vector, int column, int count) {
    String kind = kinds[column];
    if (kind.equals("boolean")) {
      addBooleans(vector, column, count);
    } else if (kind.equals("int")) {
      addInts(vector, column, count);
    } else if (kind.equals("long")) {
      addLongs(vector, column, count);
    } else if (kind.equals("float")) {
      addFloats(vector, column, count);
    } else if (kind.equals("double")) {
      addDoubles(vector, column, count);
    } else if (kind.equals("string")) {
      addStrings(vector, column, count);
    } else if (kind.equals("binary")) {
      addBinaries(vector, column, count);
    } else {
      int comma = kind.indexOf(',');
      int precision = Integer.parseInt(kind.substring(0, comma));
      addDecimals(vector, column, count, precision, Integer.parseInt(kind.substring(comma + 1)));
    }
  }

  private void addBooleans(ColumnVector vector, int column, int count) {
    long low = lower[column] == null ? 0 : ((Number) lower[column]).longValue();
    long high = upper[column] == null ? 1 : ((Number) upper[column]).longValue();
    long nulls = 0, one = 0, two = 0, outside = 0;
    for (int row = 0; row < count; row++) {
      long hash = SEED;
      if (vector.isNullAt(row)) {
        nulls++;
      } else {
        int value = vector.getBoolean(row) ? 1 : 0;
        hash = XXH64.hashInt(value, SEED);
        if (value < low || value > high) {
          outside++;
        }
      }
      one += hash;
      two += hash * hash;
      rowHashes[row] = rowHashes[row] * FACTOR + hash;
    }
    sum(column, nulls, one, two, 0, outside);
  }

  private void addInts(ColumnVector vector, int column, int count) {
    long low = lower[column] == null ? Long.MIN_VALUE : ((Number) lower[column]).longValue();
    long high = upper[column] == null ? Long.MAX_VALUE : ((Number) upper[column]).longValue();
    boolean hasNull = vector.hasNull();
    long nulls = 0, one = 0, two = 0, outside = 0;
    for (int row = 0; row < count; row++) {
      long hash = SEED;
      if (hasNull && vector.isNullAt(row)) {
        nulls++;
      } else {
        int value = vector.getInt(row);
        hash = XXH64.hashInt(value, SEED);
        if (value < low || value > high) {
          outside++;
        }
      }
      one += hash;
      two += hash * hash;
      rowHashes[row] = rowHashes[row] * FACTOR + hash;
    }
    sum(column, nulls, one, two, 0, outside);
  }

  private void addLongs(ColumnVector vector, int column, int count) {
    long low = lower[column] == null ? Long.MIN_VALUE : ((Number) lower[column]).longValue();
    long high = upper[column] == null ? Long.MAX_VALUE : ((Number) upper[column]).longValue();
    boolean hasNull = vector.hasNull();
    long nulls = 0, one = 0, two = 0, outside = 0;
    for (int row = 0; row < count; row++) {
      long hash = SEED;
      if (hasNull && vector.isNullAt(row)) {
        nulls++;
      } else {
        long value = vector.getLong(row);
        hash = XXH64.hashLong(value, SEED);
        if (value < low || value > high) {
          outside++;
        }
      }
      one += hash;
      two += hash * hash;
      rowHashes[row] = rowHashes[row] * FACTOR + hash;
    }
    sum(column, nulls, one, two, 0, outside);
  }

  private void addFloats(ColumnVector vector, int column, int count) {
    float low = lower[column] == null ? Float.NEGATIVE_INFINITY : ((Number) lower[column]).floatValue();
    float high = upper[column] == null ? Float.POSITIVE_INFINITY : ((Number) upper[column]).floatValue();
    boolean hasNull = vector.hasNull();
    long nulls = 0, one = 0, two = 0, nans = 0, outside = 0;
    for (int row = 0; row < count; row++) {
      long hash = SEED;
      if (hasNull && vector.isNullAt(row)) {
        nulls++;
      } else {
        float value = vector.getFloat(row);
        hash = value == 0f ? zeroHash(1f / value) : XXH64.hashInt(Float.floatToIntBits(value), SEED);
        if (value != value) {
          nans++;
        } else if (value < low || value > high) {
          outside++;
        }
      }
      one += hash;
      two += hash * hash;
      rowHashes[row] = rowHashes[row] * FACTOR + hash;
    }
    sum(column, nulls, one, two, nans, outside);
  }

  private void addDoubles(ColumnVector vector, int column, int count) {
    double low = lower[column] == null ? Double.NEGATIVE_INFINITY : ((Number) lower[column]).doubleValue();
    double high = upper[column] == null ? Double.POSITIVE_INFINITY : ((Number) upper[column]).doubleValue();
    boolean hasNull = vector.hasNull();
    long nulls = 0, one = 0, two = 0, nans = 0, outside = 0;
    for (int row = 0; row < count; row++) {
      long hash = SEED;
      if (hasNull && vector.isNullAt(row)) {
        nulls++;
      } else {
        double value = vector.getDouble(row);
        hash = value == 0d ? zeroHash(1d / value) : XXH64.hashLong(Double.doubleToLongBits(value), SEED);
        if (value != value) {
          nans++;
        } else if (value < low || value > high) {
          outside++;
        }
      }
      one += hash;
      two += hash * hash;
      rowHashes[row] = rowHashes[row] * FACTOR + hash;
    }
    sum(column, nulls, one, two, nans, outside);
  }

  private void addStrings(ColumnVector vector, int column, int count) {
    UTF8String low = lower[column] == null ? null : UTF8String.fromBytes((byte[]) lower[column]);
    UTF8String high = upper[column] == null ? null : UTF8String.fromBytes((byte[]) upper[column]);
    boolean hasNull = vector.hasNull();
    long nulls = 0, one = 0, two = 0, outside = 0;
    Arrays.fill(knownBases, null);
    for (int row = 0; row < count; row++) {
      long hash = SEED;
      if (hasNull && vector.isNullAt(row)) {
        nulls++;
      } else {
        int slot = slotOf(vector.getUTF8String(row), low, high);
        hash = knownHashes[slot];
        outside += knownOutside[slot];
      }
      one += hash;
      two += hash * hash;
      rowHashes[row] = rowHashes[row] * FACTOR + hash;
    }
    sum(column, nulls, one, two, 0, outside);
  }

  // Values of a dictionary are parts of one array, so that each is hashed once, as long as its slot is not taken by
  // another. Arrays do not change while one batch is read.
  private int slotOf(UTF8String value, UTF8String low, UTF8String high) {
    Object base = value.getBaseObject();
    long offset = value.getBaseOffset();
    int length = value.numBytes();
    int slot = (int) (offset * FACTOR >>> (64 - SLOT_BITS));
    if (base == null || knownBases[slot] != base || knownOffsets[slot] != offset || knownLengths[slot] != length) {
      knownBases[slot] = base;
      knownOffsets[slot] = offset;
      knownLengths[slot] = length;
      knownHashes[slot] = XXH64.hashUnsafeBytes(base, offset, length, SEED);
      boolean isOutside = (low != null && value.binaryCompare(low) < 0)
          || (high != null && value.binaryCompare(high) > 0);
      knownOutside[slot] = isOutside ? 1 : 0;
    }
    return slot;
  }

  private void addBinaries(ColumnVector vector, int column, int count) {
    byte[] low = (byte[]) lower[column];
    byte[] high = (byte[]) upper[column];
    boolean hasNull = vector.hasNull();
    long nulls = 0, one = 0, two = 0, outside = 0;
    for (int row = 0; row < count; row++) {
      long hash = SEED;
      if (hasNull && vector.isNullAt(row)) {
        nulls++;
      } else {
        byte[] value = vector.getBinary(row);
        hash = hashBytes(value);
        if ((low != null && Arrays.compareUnsigned(value, low) < 0)
            || (high != null && Arrays.compareUnsigned(value, high) > 0)) {
          outside++;
        }
      }
      one += hash;
      two += hash * hash;
      rowHashes[row] = rowHashes[row] * FACTOR + hash;
    }
    sum(column, nulls, one, two, 0, outside);
  }

  private void addDecimals(ColumnVector vector, int column, int count, int precision, int scale) {
    if (precision <= Decimal.MAX_LONG_DIGITS()) {
      addSmallDecimals(vector, column, count, precision, scale);
    } else {
      addLargeDecimals(vector, column, count, precision, scale);
    }
  }

  private void addSmallDecimals(ColumnVector vector, int column, int count, int precision, int scale) {
    long low = lower[column] == null ? Long.MIN_VALUE : new BigInteger((byte[]) lower[column]).longValue();
    long high = upper[column] == null ? Long.MAX_VALUE : new BigInteger((byte[]) upper[column]).longValue();
    boolean hasNull = vector.hasNull();
    long nulls = 0, one = 0, two = 0, outside = 0;
    for (int row = 0; row < count; row++) {
      long hash = SEED;
      if (hasNull && vector.isNullAt(row)) {
        nulls++;
      } else {
        long value = vector.getDecimal(row, precision, scale).toUnscaledLong();
        hash = XXH64.hashLong(value, SEED);
        if (value < low || value > high) {
          outside++;
        }
      }
      one += hash;
      two += hash * hash;
      rowHashes[row] = rowHashes[row] * FACTOR + hash;
    }
    sum(column, nulls, one, two, 0, outside);
  }

  private void addLargeDecimals(ColumnVector vector, int column, int count, int precision, int scale) {
    BigInteger low = lower[column] == null ? null : new BigInteger((byte[]) lower[column]);
    BigInteger high = upper[column] == null ? null : new BigInteger((byte[]) upper[column]);
    boolean hasNull = vector.hasNull();
    long nulls = 0, one = 0, two = 0, outside = 0;
    for (int row = 0; row < count; row++) {
      long hash = SEED;
      if (hasNull && vector.isNullAt(row)) {
        nulls++;
      } else {
        BigInteger value = vector.getDecimal(row, precision, scale).toJavaBigDecimal().unscaledValue();
        hash = hashBytes(value.toByteArray());
        if ((low != null && value.compareTo(low) < 0) || (high != null && value.compareTo(high) > 0)) {
          outside++;
        }
      }
      one += hash;
      two += hash * hash;
      rowHashes[row] = rowHashes[row] * FACTOR + hash;
    }
    sum(column, nulls, one, two, 0, outside);
  }

  private void sum(int column, long nulls, long one, long two, long nans, long outside) {
    int first = column * MEASURES;
    measures[first + NULLS] += nulls;
    measures[first + HASH_1] += one;
    measures[first + HASH_2] += two;
    measures[first + NANS] += nans;
    measures[first + OUTSIDE] += outside;
  }

  private static long zeroHash(double inverse) {
    return inverse < 0 ? NEGATIVE_ZERO : POSITIVE_ZERO;
  }

  private static long hashText(String text) {
    return hashBytes(text.getBytes(java.nio.charset.StandardCharsets.UTF_8));
  }

  private static long hashBytes(byte[] bytes) {
    return XXH64.hashUnsafeBytes(bytes, Platform.BYTE_ARRAY_OFFSET, bytes.length, SEED);
  }

  // The file, the rows, two hashes of each part of whole rows, then the measures of each column.
  private String text() {
    StringBuilder text = new StringBuilder();
    text.append(file).append(' ').append(rows);
    for (int at = 0; at < wholes.length; at++) {
      text.append(' ').append(wholes[at]);
    }
    for (int at = 0; at < measures.length; at++) {
      text.append(' ').append(measures[at]);
    }
    return text.toString();
  }
}
