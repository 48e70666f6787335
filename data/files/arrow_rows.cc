#include "data/files/arrow_rows.h"

#include <algorithm>
#include <exception>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <arrow/io/file.h>
#include <arrow/ipc/reader.h>
#include <arrow/memory_pool.h>
#include <arrow/record_batch.h>
#include <arrow/result.h>
#include <arrow/status.h>
#include <arrow/type.h>
#include <arrow/util/utf8.h>
#include <parquet/arrow/reader.h>
#include <parquet/file_reader.h>
#include <parquet/metadata.h>
#include <parquet/properties.h>

#include "data/files/arrow_row_maker.h"
#include "data/files/row_limits.h"

namespace moonring::data {
namespace {

using json = base::OrderedJson;

constexpr int64_t kReadBatchRows = 128;

// Iterates over the record batches of a file.
class Batches {
 public:
  virtual ~Batches() = default;
  virtual arrow::Result<std::shared_ptr<arrow::RecordBatch>> Next() = 0;  // null at the end
  // Skips whole row groups or batches that contain at most `rows` rows in total. Returns the number
  // of rows skipped.
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
  std::unique_ptr<arrow::RecordBatchReader> batches_;  // of row group group_ - 1
};

arrow::Result<std::unique_ptr<Batches>> OpenParquet(
    std::shared_ptr<arrow::io::RandomAccessFile> file, arrow::MemoryPool& pool) {
  parquet::arrow::FileReaderBuilder builder;
  ARROW_RETURN_NOT_OK(builder.Open(std::move(file), parquet::ReaderProperties(&pool)));
  builder.memory_pool(&pool);
  parquet::ArrowReaderProperties properties;
  properties.set_batch_size(kReadBatchRows);
  properties.set_pre_buffer(false);  // read one column at a time, without starting threads
  builder.properties(properties);
  ARROW_ASSIGN_OR_RAISE(auto reader, builder.Build());
  return std::make_unique<ParquetBatches>(std::move(reader));
}

// The IPC file format begins with "ARROW1"; the stream format does not.
arrow::Result<std::unique_ptr<Batches>> OpenIpc(std::shared_ptr<arrow::io::RandomAccessFile> file,
                                                arrow::MemoryPool& pool) {
  arrow::ipc::IpcReadOptions options;
  options.memory_pool = &pool;
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

// A substring of Arrow's error message when the memory pool of this file has reached its limit.
constexpr char kPoolIsFull[] = "bytes_allocated cap exceeded";

class Rows final : public ArrowRows {
 public:
  static arrow::Result<std::unique_ptr<Rows>> Open(const char* path, bool parquet) {
    ARROW_ASSIGN_OR_RAISE(std::shared_ptr<arrow::io::RandomAccessFile> file,
                          arrow::io::ReadableFile::Open(path));
    ARROW_ASSIGN_OR_RAISE(const int64_t bytes, file->GetSize());
    std::unique_ptr<Rows> rows(new Rows(bytes));
    auto batches =
        parquet ? OpenParquet(std::move(file), rows->pool_) : OpenIpc(std::move(file), rows->pool_);
    if (!batches.ok()) return arrow::Status::Invalid(rows->Explained(batches.status().message()));
    rows->batches_ = *std::move(batches);
    return rows;
  }

  bool Next(json& row, std::string& error) override {
    return Guarded(error, [&]() -> arrow::Result<bool> {
      ARROW_ASSIGN_OR_RAISE(const bool more, Load());
      if (!more) return false;
      row = maker_.Row(*batch_, next_);
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
  explicit Rows(int64_t bytes)
      : bytes_(bytes),
        own_(arrow::default_memory_pool()),
        pool_(&own_, MostDecompressed(bytes)),
        maker_(bytes) {
    arrow::util::InitializeUTF8();
  }

  // Loads a batch that has a row at next_. Returns false at the end of the file.
  arrow::Result<bool> Load() {
    while (batch_ == nullptr || next_ == batch_->num_rows()) {
      ARROW_ASSIGN_OR_RAISE(batch_, batches_->Next());
      next_ = 0;
      if (batch_ == nullptr) return false;
      // Rejects offsets outside of a buffer and text that is not UTF-8.
      ARROW_RETURN_NOT_OK(batch_->ValidateFull());
      if (std::exchange(schema_, batch_->schema()) == batch_->schema()) continue;
      if (!arrow::util::ValidateUTF8(schema_->ToString()))
        return arrow::Status::Invalid("the name of a column is not UTF-8");
    }
    return true;
  }

  template <typename Function>
  bool Guarded(std::string& error, Function function) {
    try {
      const arrow::Result<bool> result = function();
      if (!result.ok()) error = Explained(result.status().message());
      return result.ok() && *result;
    } catch (const std::exception& thrown) {
      error = Explained(thrown.what());
      return false;
    }
  }

  std::string Explained(const std::string& what) const {
    if (what.find(kPoolIsFull) == std::string::npos) return what;
    return "takes more than " + std::to_string(MostDecompressed(bytes_)) +
           " bytes when it is decompressed, and the file has " + std::to_string(bytes_);
  }

  const int64_t bytes_;  // size of the file
  arrow::ProxyMemoryPool own_;
  arrow::CappedMemoryPool pool_;  // destroyed after everything that allocates from it
  ArrowRowMaker maker_;
  std::unique_ptr<Batches> batches_;
  std::shared_ptr<arrow::Schema> schema_;  // field names are checked to be UTF-8
  std::shared_ptr<arrow::RecordBatch> batch_;
  int64_t next_ = 0;  // index of the next row in batch_
};

}  // namespace
}  // namespace moonring::data

extern "C" __attribute__((visibility("default"))) moonring::data::ArrowRows* MoonringOpenArrowRows(
    const char* path, bool parquet, std::string& error) try {
  auto rows = moonring::data::Rows::Open(path, parquet);
  if (rows.ok()) return (*std::move(rows)).release();
  error = rows.status().message();
  return nullptr;
} catch (const std::exception& thrown) {
  error = thrown.what();
  return nullptr;
}
