#include "data/files/arrow_row_maker.h"

#include <stdexcept>
#include <string>

#include <arrow/scalar.h>
#include <arrow/type.h>
#include <arrow/util/ree_util.h>

#include "data/files/row_limits.h"

namespace moonring::data {
namespace {

using OrderedRow = base::OrderedJson;

template <typename Array>
const Array& As(const arrow::Array& array) {
  return static_cast<const Array&>(array);
}

void Add(int64_t more, int64_t& there, int64_t most, const char* what) {
  if (more > most - there)
    throw std::runtime_error("refers to more than " + std::to_string(most) + " " + what);
  there += more;
}

}  // namespace

OrderedRow ArrowRowMaker::Row(const arrow::RecordBatch& batch, int64_t i) {
  Add(1, rows_, MostRowsOf(file_bytes_), "rows in a file of this size");
  row_values_ = row_bytes_ = 0;
  AddValues(kValuesOfMember * batch.num_columns());
  OrderedRow row = OrderedRow::object();
  for (int c = 0; c < batch.num_columns(); ++c) {
    AddBytes(batch.column_name(c).size());
    row[batch.column_name(c)] = ValueAt(*batch.column(c), i);
  }
  return row;
}

void ArrowRowMaker::AddValues(int64_t count) {
  Add(count, row_values_, kMostRowValues, "values in a row");
  Add(count, values_, MostValuesOf(file_bytes_), "values in a file of this size");
}

void ArrowRowMaker::AddBytes(size_t count) {
  const int64_t bytes = static_cast<int64_t>(count);
  Add(bytes, row_bytes_, kMostRowBytes, "bytes of text in a row");
  Add(bytes, bytes_, MostTextOf(file_bytes_), "bytes of text in a file of this size");
}

OrderedRow ArrowRowMaker::Text(std::string_view text) {
  AddBytes(text.size());
  return OrderedRow(std::string(text));
}

template <typename List>
OrderedRow ArrowRowMaker::ListAt(const List& list, int64_t i) {
  const int64_t begin = list.value_offset(i), length = list.value_length(i);
  AddValues(length);
  OrderedRow::array_t items;
  items.reserve(static_cast<size_t>(length));
  for (int64_t k = 0; k < length; ++k) items.push_back(ValueAt(*list.values(), begin + k));
  return items;
}

OrderedRow ArrowRowMaker::StructAt(const arrow::StructArray& array, int64_t i) {
  AddValues(kValuesOfMember * array.num_fields());
  OrderedRow fields = OrderedRow::object();
  for (int f = 0; f < array.num_fields(); ++f) {
    const std::string& name = array.struct_type()->field(f)->name();
    AddBytes(name.size());
    fields[name] = ValueAt(*array.field(f), i);
  }
  return fields;
}

// Text of a date, decimal or other scalar type.
OrderedRow ArrowRowMaker::TextOfScalar(const arrow::Array& array, int64_t i) {
  const auto scalar = array.GetScalar(i);
  return scalar.ok() ? Text((*scalar)->ToString()) : OrderedRow();
}

OrderedRow ArrowRowMaker::ValueAt(const arrow::Array& array, int64_t i) {
  if (array.IsNull(i)) return nullptr;
  switch (array.type_id()) {
    case arrow::Type::BOOL:
      return As<arrow::BooleanArray>(array).Value(i);
    case arrow::Type::INT8:
      return As<arrow::Int8Array>(array).Value(i);
    case arrow::Type::INT16:
      return As<arrow::Int16Array>(array).Value(i);
    case arrow::Type::INT32:
      return As<arrow::Int32Array>(array).Value(i);
    case arrow::Type::INT64:
      return As<arrow::Int64Array>(array).Value(i);
    case arrow::Type::UINT8:
      return As<arrow::UInt8Array>(array).Value(i);
    case arrow::Type::UINT16:
      return As<arrow::UInt16Array>(array).Value(i);
    case arrow::Type::UINT32:
      return As<arrow::UInt32Array>(array).Value(i);
    case arrow::Type::UINT64:
      return As<arrow::UInt64Array>(array).Value(i);
    case arrow::Type::FLOAT:
      return As<arrow::FloatArray>(array).Value(i);
    case arrow::Type::DOUBLE:
      return As<arrow::DoubleArray>(array).Value(i);
    case arrow::Type::STRING:
      return Text(As<arrow::StringArray>(array).GetView(i));
    case arrow::Type::LARGE_STRING:
      return Text(As<arrow::LargeStringArray>(array).GetView(i));
    case arrow::Type::STRING_VIEW:
      return Text(As<arrow::StringViewArray>(array).GetView(i));
    case arrow::Type::LIST:
    case arrow::Type::MAP:
      return ListAt(As<arrow::ListArray>(array), i);
    case arrow::Type::LARGE_LIST:
      return ListAt(As<arrow::LargeListArray>(array), i);
    case arrow::Type::LIST_VIEW:
      return ListAt(As<arrow::ListViewArray>(array), i);
    case arrow::Type::LARGE_LIST_VIEW:
      return ListAt(As<arrow::LargeListViewArray>(array), i);
    case arrow::Type::FIXED_SIZE_LIST:
      return ListAt(As<arrow::FixedSizeListArray>(array), i);
    case arrow::Type::STRUCT:
      return StructAt(As<arrow::StructArray>(array), i);
    case arrow::Type::DICTIONARY: {
      const auto& dictionary = As<arrow::DictionaryArray>(array);
      return ValueAt(*dictionary.dictionary(), dictionary.GetValueIndex(i));
    }
    case arrow::Type::RUN_END_ENCODED: {
      const auto& runs = As<arrow::RunEndEncodedArray>(array);
      const arrow::ArraySpan span(*array.data());
      return ValueAt(*runs.values(), arrow::ree_util::FindPhysicalIndex(span, i, span.offset));
    }
    case arrow::Type::SPARSE_UNION:
    case arrow::Type::DENSE_UNION: {
      const auto& choice = As<arrow::UnionArray>(array);
      const bool dense = array.type_id() == arrow::Type::DENSE_UNION;
      return ValueAt(*choice.field(choice.child_id(i)),
                     dense ? As<arrow::DenseUnionArray>(array).value_offset(i) : i);
    }
    case arrow::Type::EXTENSION:
      return ValueAt(*As<arrow::ExtensionArray>(array).storage(), i);
    case arrow::Type::BINARY:
    case arrow::Type::LARGE_BINARY:
    case arrow::Type::BINARY_VIEW:
    case arrow::Type::FIXED_SIZE_BINARY:
      return nullptr;
    default:
      return TextOfScalar(array, i);
  }
}

}  // namespace moonring::data
