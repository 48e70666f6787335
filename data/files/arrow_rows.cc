#include "data/files/arrow_rows.h"

#include <algorithm>
#include <exception>
#include <memory>
#include <utility>
#include <vector>

#include <arrow/array.h>
#include <arrow/io/file.h>
#include <arrow/ipc/reader.h>
#include <arrow/record_batch.h>
#include <arrow/result.h>
#include <arrow/scalar.h>
#include <arrow/status.h>
#include <arrow/type.h>
#include <arrow/util/utf8.h>
#include <parquet/arrow/reader.h>
#include <parquet/file_reader.h>
#include <parquet/metadata.h>
#include <parquet/properties.h>

namespace moonring::data {
namespace {

using json = nlohmann::ordered_json;

constexpr int64_t kReadBatchRows = 1024;

template <typename Array>
const Array& As(const arrow::Array& array) {
  return static_cast<const Array&>(array);
}

json ValueAt(const arrow::Array& array, int64_t i);

template <typename List>
json ListAt(const List& list, int64_t i) {
  json items = json::array();
  const int64_t begin = list.value_offset(i);
  for (int64_t k = 0; k < list.value_length(i); ++k)
    items.push_back(ValueAt(*list.values(), begin + k));
  return items;
}

json StructAt(const arrow::StructArray& array, int64_t i) {
  json fields = json::object();
  for (int f = 0; f < array.num_fields(); ++f)
    fields[array.struct_type()->field(f)->name()] = ValueAt(*array.field(f), i);
  return fields;
}

json ValueAt(const arrow::Array& array, int64_t i) {
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
      return As<arrow::StringArray>(array).GetString(i);
    case arrow::Type::LARGE_STRING:
      return As<arrow::LargeStringArray>(array).GetString(i);
    case arrow::Type::STRING_VIEW:
      return As<arrow::StringViewArray>(array).GetString(i);
    case arrow::Type::LIST:
    case arrow::Type::MAP:
      return ListAt(As<arrow::ListArray>(array), i);
    case arrow::Type::LARGE_LIST:
      return ListAt(As<arrow::LargeListArray>(array), i);
    case arrow::Type::FIXED_SIZE_LIST:
      return ListAt(As<arrow::FixedSizeListArray>(array), i);
    case arrow::Type::STRUCT:
      return StructAt(As<arrow::StructArray>(array), i);
    case arrow::Type::DICTIONARY: {
      const auto& dictionary = As<arrow::DictionaryArray>(array);
      return ValueAt(*dictionary.dictionary(), dictionary.GetValueIndex(i));
    }
    case arrow::Type::EXTENSION:
      return ValueAt(*As<arrow::ExtensionArray>(array).storage(), i);
    case arrow::Type::BINARY:
    case arrow::Type::LARGE_BINARY:
    case arrow::Type::BINARY_VIEW:
    case arrow::Type::FIXED_SIZE_BINARY:
      return nullptr;
    default: {
      const auto scalar = array.GetScalar(i);
      return scalar.ok() ? json((*scalar)->ToString()) : json();
    }
  }
}

// The batches of a file, one at a time.
class Batches {
 public:
  virtual ~Batches() = default;
  virtual arrow::Result<std::shared_ptr<arrow::RecordBatch>> Next() = 0;  // null at the end
  // Passes over whole parts of the file, as long as no more than `rows` rows are in them; how many
  // were.
  virtual int64_t SkipParts(int64_t rows) { return 0; }
};

class StreamBatches final : public Batches {
 public:
  explicit StreamBatches(std::shared_ptr<arrow::RecordBatchReader> reader)
      : reader_(std::move(reader)) {}
  arrow::Result<std::shared_ptr<arrow::RecordBatch>> Next() override { return reader_->Next(); }

 private:
  std::shared_ptr<arrow::RecordBatchReader> reader_;
};

class FileBatches final : public Batches {
 public:
  explicit FileBatches(std::shared_ptr<arrow::ipc::RecordBatchFileReader> reader)
      : reader_(std::move(reader)) {}
  arrow::Result<std::shared_ptr<arrow::RecordBatch>> Next() override {
    if (next_ == reader_->num_record_batches()) return nullptr;
    return reader_->ReadRecordBatch(next_++);
  }

 private:
  std::shared_ptr<arrow::ipc::RecordBatchFileReader> reader_;
  int next_ = 0;
};

class ParquetBatches final : public Batches {
 public:
  explicit ParquetBatches(std::unique_ptr<parquet::arrow::FileReader> reader)
      : reader_(std::move(reader)) {}

  arrow::Result<std::shared_ptr<arrow::RecordBatch>> Next() override {
    while (true) {
      if (batches_ != nullptr) {
        ARROW_ASSIGN_OR_RAISE(std::shared_ptr<arrow::RecordBatch> batch, batches_->Next());
        if (batch != nullptr) return batch;
      }
      if (group_ == reader_->num_row_groups()) return nullptr;
      ARROW_ASSIGN_OR_RAISE(batches_, reader_->GetRecordBatchReader({group_++}));
    }
  }

  int64_t SkipParts(int64_t rows) override {
    int64_t skipped = 0;
    for (; group_ < reader_->num_row_groups(); ++group_) {
      const int64_t size = reader_->parquet_reader()->metadata()->RowGroup(group_)->num_rows();
      if (skipped + size > rows) break;
      skipped += size;
    }
    return skipped;
  }

 private:
  std::unique_ptr<parquet::arrow::FileReader> reader_;
  int group_ = 0;
  std::unique_ptr<arrow::RecordBatchReader> batches_;  // of the row group before group_
};

arrow::Result<std::unique_ptr<Batches>> OpenParquet(
    std::shared_ptr<arrow::io::RandomAccessFile> file) {
  parquet::arrow::FileReaderBuilder builder;
  ARROW_RETURN_NOT_OK(builder.Open(std::move(file)));
  parquet::ArrowReaderProperties properties;
  properties.set_batch_size(kReadBatchRows);
  properties.set_pre_buffer(
      false);  // a row group is read column by column, and no thread is started
  builder.properties(properties);
  ARROW_ASSIGN_OR_RAISE(auto reader, builder.Build());
  return std::make_unique<ParquetBatches>(std::move(reader));
}

// The file format begins with its name; a stream does not.
arrow::Result<std::unique_ptr<Batches>> OpenIpc(std::shared_ptr<arrow::io::RandomAccessFile> file) {
  arrow::ipc::IpcReadOptions options;
  options.use_threads = false;
  char magic[6] = {};
  ARROW_ASSIGN_OR_RAISE(const int64_t read, file->ReadAt(0, sizeof(magic), magic));
  if (std::string(magic, static_cast<size_t>(read)) == "ARROW1") {
    ARROW_ASSIGN_OR_RAISE(auto reader,
                          arrow::ipc::RecordBatchFileReader::Open(std::move(file), options));
    return std::make_unique<FileBatches>(std::move(reader));
  }
  ARROW_RETURN_NOT_OK(file->Seek(0));
  ARROW_ASSIGN_OR_RAISE(auto reader,
                        arrow::ipc::RecordBatchStreamReader::Open(std::move(file), options));
  return std::make_unique<StreamBatches>(std::move(reader));
}

arrow::Result<std::unique_ptr<Batches>> OpenBatches(const char* path, bool parquet) {
  ARROW_ASSIGN_OR_RAISE(std::shared_ptr<arrow::io::RandomAccessFile> file,
                        arrow::io::ReadableFile::Open(path));
  return parquet ? OpenParquet(std::move(file)) : OpenIpc(std::move(file));
}

class Rows final : public ArrowRows {
 public:
  explicit Rows(std::unique_ptr<Batches> batches) : batches_(std::move(batches)) {
    arrow::util::InitializeUTF8();
  }

  bool Next(json& row, std::string& error) override {
    return Guarded(error, [&]() -> arrow::Result<bool> {
      ARROW_ASSIGN_OR_RAISE(const bool more, Load());
      if (!more) return false;
      row = json::object();
      for (int c = 0; c < batch_->num_columns(); ++c)
        row[batch_->column_name(c)] = ValueAt(*batch_->column(c), next_);
      ++next_;
      return true;
    });
  }

  bool Skip(int64_t rows, std::string& error) override {
    return Guarded(error, [&]() -> arrow::Result<bool> {
      rows -= batches_->SkipParts(rows);
      while (rows > 0) {
        ARROW_ASSIGN_OR_RAISE(const bool more, Load());
        if (!more)
          return arrow::Status::Invalid("the file has fewer rows than when the state was saved");
        const int64_t passed = std::min(rows, batch_->num_rows() - next_);
        next_ += passed;
        rows -= passed;
      }
      return true;
    });
  }

 private:
  // Sees to a batch with a row at next_; false at the end.
  arrow::Result<bool> Load() {
    while (batch_ == nullptr || next_ == batch_->num_rows()) {
      ARROW_ASSIGN_OR_RAISE(batch_, batches_->Next());
      next_ = 0;
      if (batch_ == nullptr) return false;
      ARROW_RETURN_NOT_OK(
          batch_->ValidateFull());  // offsets that lead out of a buffer, text that is not UTF-8
      if (!arrow::util::ValidateUTF8(batch_->schema()->ToString()))
        return arrow::Status::Invalid("the name of a column is not UTF-8");
    }
    return true;
  }

  template <typename Function>
  static bool Guarded(std::string& error, Function function) {
    try {
      const arrow::Result<bool> result = function();
      if (!result.ok()) error = result.status().message();
      return result.ok() && *result;
    } catch (const std::exception& thrown) {
      error = thrown.what();
      return false;
    }
  }

  std::unique_ptr<Batches> batches_;
  std::shared_ptr<arrow::RecordBatch> batch_;
  int64_t next_ = 0;  // in batch_
};

}  // namespace
}  // namespace moonring::data

extern "C" __attribute__((visibility("default"))) moonring::data::ArrowRows* MoonringOpenArrowRows(
    const char* path, bool parquet, std::string& error) try {
  auto batches = moonring::data::OpenBatches(path, parquet);
  if (!batches.ok()) {
    error = batches.status().message();
    return nullptr;
  }
  return new moonring::data::Rows(*std::move(batches));
} catch (const std::exception& thrown) {
  error = thrown.what();
  return nullptr;
}
