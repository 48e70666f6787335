#include "data/files/arrow_sink.h"

#include <exception>
#include <memory>
#include <utility>

#include <arrow/array/builder_base.h>
#include <arrow/array/builder_nested.h>
#include <arrow/array/builder_primitive.h>
#include <arrow/io/file.h>
#include <arrow/ipc/writer.h>
#include <arrow/record_batch.h>
#include <arrow/result.h>
#include <arrow/status.h>
#include <arrow/type.h>
#include <arrow/util/key_value_metadata.h>

namespace moonring::data {
namespace {

constexpr int64_t kWrittenBatchRows = 1000;

std::shared_ptr<arrow::DataType> TypeOf(ArrowType type) {
  switch (type) {
    case ArrowType::kInt8List:
      return arrow::list(arrow::int8());
    case ArrowType::kInt32List:
      return arrow::list(arrow::int32());
    case ArrowType::kInt64List:
      return arrow::list(arrow::int64());
    case ArrowType::kBool:
      break;
  }
  return arrow::boolean();
}

template <class Values>
arrow::Status AppendList(arrow::ArrayBuilder& builder, std::span<const int32_t> numbers) {
  auto& list = static_cast<arrow::ListBuilder&>(builder);
  auto& values = static_cast<Values&>(*list.value_builder());
  ARROW_RETURN_NOT_OK(list.Append());
  for (const int32_t number : numbers)
    ARROW_RETURN_NOT_OK(values.Append(static_cast<typename Values::value_type>(number)));
  return arrow::Status::OK();
}

arrow::Status AppendTo(arrow::ArrayBuilder& builder, ArrowType type,
                       std::span<const int32_t> numbers) {
  switch (type) {
    case ArrowType::kInt8List:
      return AppendList<arrow::Int8Builder>(builder, numbers);
    case ArrowType::kInt32List:
      return AppendList<arrow::Int32Builder>(builder, numbers);
    case ArrowType::kInt64List:
      return AppendList<arrow::Int64Builder>(builder, numbers);
    case ArrowType::kBool:
      break;
  }
  return static_cast<arrow::BooleanBuilder&>(builder).Append(numbers[0] != 0);
}

class Sink final : public ArrowSink {
 public:
  static arrow::Result<std::unique_ptr<Sink>> Open(const char* path,
                                                   const std::vector<ArrowField>& fields,
                                                   const std::string& metadata) {
    auto sink = std::unique_ptr<Sink>(new Sink);
    arrow::FieldVector columns;
    for (const ArrowField& field : fields) {
      const auto type = TypeOf(field.type);
      columns.push_back(arrow::field(field.name, type));
      ARROW_ASSIGN_OR_RAISE(auto builder, arrow::MakeBuilder(type));
      sink->types_.push_back(field.type);
      sink->builders_.push_back(std::move(builder));
    }
    sink->schema_ =
        arrow::schema(std::move(columns), arrow::key_value_metadata({"huggingface"}, {metadata}));
    ARROW_ASSIGN_OR_RAISE(sink->file_, arrow::io::FileOutputStream::Open(path));
    ARROW_ASSIGN_OR_RAISE(sink->writer_, arrow::ipc::MakeStreamWriter(sink->file_, sink->schema_));
    return sink;
  }

  bool Add(const std::vector<std::span<const int32_t>>& row, std::string& error) override {
    return Guarded(error, [&]() -> arrow::Status {
      for (size_t c = 0; c < builders_.size(); ++c)
        ARROW_RETURN_NOT_OK(AppendTo(*builders_[c], types_[c], row[c]));
      return ++rows_ == kWrittenBatchRows ? Flush() : arrow::Status::OK();
    });
  }

  bool Close(std::string& error) override {
    return Guarded(error, [&]() -> arrow::Status {
      if (rows_ > 0) ARROW_RETURN_NOT_OK(Flush());
      ARROW_RETURN_NOT_OK(writer_->Close());
      return file_->Close();
    });
  }

 private:
  arrow::Status Flush() {
    arrow::ArrayVector columns;
    for (const auto& builder : builders_) {
      ARROW_ASSIGN_OR_RAISE(auto column, builder->Finish());
      columns.push_back(std::move(column));
    }
    return writer_->WriteRecordBatch(
        *arrow::RecordBatch::Make(schema_, std::exchange(rows_, 0), std::move(columns)));
  }

  template <typename Function>
  static bool Guarded(std::string& error, Function function) {
    try {
      const arrow::Status status = function();
      if (!status.ok()) error = status.message();
      return status.ok();
    } catch (const std::exception& thrown) {
      error = thrown.what();
      return false;
    }
  }

  std::shared_ptr<arrow::Schema> schema_;
  std::vector<ArrowType> types_;
  std::vector<std::unique_ptr<arrow::ArrayBuilder>> builders_;
  std::shared_ptr<arrow::io::OutputStream> file_;
  std::shared_ptr<arrow::ipc::RecordBatchWriter> writer_;
  int64_t rows_ = 0;  // rows in the builders
};

}  // namespace
}  // namespace moonring::data

extern "C" __attribute__((visibility("default"))) moonring::data::ArrowSink* MoonringOpenArrowSink(
    const char* path, const std::vector<moonring::data::ArrowField>& fields,
    const std::string& metadata, std::string& error) try {
  auto sink = moonring::data::Sink::Open(path, fields, metadata);
  if (sink.ok()) return (*std::move(sink)).release();
  error = sink.status().message();
  return nullptr;
} catch (const std::exception& thrown) {
  error = thrown.what();
  return nullptr;
}
