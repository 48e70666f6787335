// A fuzzer's input as a file, for code that reads a path. The file is in memory and has no name in
// the file system, so it disappears with the process.
#ifndef MOONRING_TESTS_FUZZ_INPUT_FILE_H_
#define MOONRING_TESTS_FUZZ_INPUT_FILE_H_

#include <string>

#include "absl/strings/string_view.h"

namespace moonring::fuzz {

class InputFile {
 public:
  explicit InputFile(absl::string_view bytes);
  ~InputFile();
  InputFile(const InputFile&) = delete;
  InputFile& operator=(const InputFile&) = delete;

  std::string path() const;

 private:
  int descriptor_;
};

}  // namespace moonring::fuzz

#endif  // MOONRING_TESTS_FUZZ_INPUT_FILE_H_
