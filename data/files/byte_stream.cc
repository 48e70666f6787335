#include "data/files/byte_stream.h"

#include <fcntl.h>
#include <unistd.h>
#include <zlib.h>
#include <zstd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <system_error>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "base/files/input_file.h"
#include "base/status/status_macros.h"
#include "data/files/row_limits.h"

namespace moonring::data {
namespace {

absl::Status CannotRead() {
  return absl::UnavailableError(absl::StrCat("cannot be read: ", std::strerror(errno)));
}
absl::Status CutOff(const char* format) {
  return absl::InvalidArgumentError(
      absl::StrCat("the ", format, " data ends early: the file is cut off"));
}
absl::Status TooShort() {
  return absl::FailedPreconditionError("is shorter than when the state was saved");
}

// Reads gzip files and uncompressed files with zlib's file functions.
class ZlibStream final : public ByteStream {
 public:
  ZlibStream(std::string path, gzFile file) : path_(std::move(path)), file_(file) {}
  ~ZlibStream() override { gzclose(file_); }

  absl::StatusOr<size_t> Read(char* into, size_t room) override {
    const int read = gzread(file_, into, static_cast<unsigned>(room));
    if (read > 0)
      return static_cast<size_t>(read);  // an error after these bytes is reported by the next call
    int code = Z_OK;
    const char* text = gzerror(file_, &code);
    if (code == Z_BUF_ERROR) return CutOff("gzip");
    if (code == Z_ERRNO) return CannotRead();
    if (read == 0) return 0;
    const absl::string_view what(text);  // "<file>: message"
    const size_t colon = what.find(": ");
    return absl::InvalidArgumentError(absl::StrCat(
        "the gzip data is broken: ", colon == what.npos ? what : what.substr(colon + 2)));
  }

  absl::Status Skip(int64_t bytes) override {
    if (gzdirect(file_) == 0) return ByteStream::Skip(bytes);
    std::error_code error;
    const uintmax_t size = std::filesystem::file_size(path_, error);
    if (error || static_cast<uintmax_t>(bytes) > size ||
        gzseek(file_, static_cast<z_off_t>(bytes), SEEK_CUR) < 0)
      return TooShort();
    return absl::OkStatus();
  }

 private:
  std::string path_;
  gzFile file_;
};

class ZstdStream final : public ByteStream {
 public:
  explicit ZstdStream(int file)
      : file_(file), context_(ZSTD_createDCtx()), buffer_(ZSTD_DStreamInSize()) {}
  ~ZstdStream() override {
    ZSTD_freeDCtx(context_);
    close(file_);
  }

  absl::StatusOr<size_t> Read(char* into, size_t room) override {
    ZSTD_outBuffer output{into, room, 0};
    while (output.pos == 0) {
      if (input_.pos == input_.size && !(was_full_ && inside_frame_)) {
        const ssize_t read = ::read(file_, buffer_.data(), buffer_.size());
        if (read < 0) return CannotRead();
        if (read == 0 && inside_frame_) return CutOff("Zstandard");
        if (read == 0) return 0;
        input_ = {buffer_.data(), static_cast<size_t>(read), 0};
        read_ += read;
      }
      const size_t left = ZSTD_decompressStream(context_, &output, &input_);
      if (ZSTD_isError(left))
        return absl::InvalidArgumentError(
            absl::StrCat("the Zstandard data is broken: ", ZSTD_getErrorName(left)));
      inside_frame_ = left != 0;
      was_full_ = output.pos == output.size;
    }
    made_ += static_cast<int64_t>(output.pos);
    if (made_ > MostTextOf(read_))
      return absl::InvalidArgumentError(absl::StrCat("the first ", read_,
                                                     " bytes of the Zstandard data expand to "
                                                     "more than ",
                                                     MostTextOf(read_)));
    return output.pos;
  }

 private:
  int file_;
  ZSTD_DCtx* context_;
  std::vector<char> buffer_;
  ZSTD_inBuffer input_{nullptr, 0, 0};
  bool inside_frame_ = false;
  bool was_full_ = false;        // last call filled its buffer, so the decoder may have more output
  int64_t read_ = 0, made_ = 0;  // bytes
};

}  // namespace

absl::Status ByteStream::Skip(int64_t bytes) {
  std::vector<char> buffer(1 << 16);
  while (bytes > 0) {
    ASSIGN_OR_RETURN(
        const size_t read,
        Read(buffer.data(), static_cast<size_t>(std::min<int64_t>(bytes, buffer.size()))));
    if (read == 0) return TooShort();
    bytes -= static_cast<int64_t>(read);
  }
  return absl::OkStatus();
}

absl::StatusOr<std::unique_ptr<ByteStream>> ByteStream::Open(const std::string& path) {
  RETURN_IF_ERROR(base::CheckInputFile(path));
  const int file = open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (file < 0)
    return absl::NotFoundError(absl::StrCat("cannot be opened: ", std::strerror(errno)));
  char magic[4] = {};
  const ssize_t read = pread(file, magic, sizeof(magic), 0);
  if (read == sizeof(magic) && absl::string_view(magic, sizeof(magic)) == "\x28\xB5\x2F\xFD")
    return std::make_unique<ZstdStream>(file);
  gzFile zlib = gzdopen(file, "rb");
  if (zlib == nullptr) {
    close(file);
    return absl::ResourceExhaustedError("cannot be opened: no memory");
  }
  return std::make_unique<ZlibStream>(path, zlib);
}

}  // namespace moonring::data
