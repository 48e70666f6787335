#include "tests/fuzz/input_file.h"

#include <sys/mman.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>

#include "absl/strings/str_cat.h"

namespace moonring::fuzz {

InputFile::InputFile(absl::string_view bytes) : descriptor_(memfd_create("input", MFD_CLOEXEC)) {
  // An input that cannot be written is not a bug of the target, but the run must not succeed
  // either.
  if (descriptor_ < 0 ||
      write(descriptor_, bytes.data(), bytes.size()) != static_cast<ssize_t>(bytes.size())) {
    std::perror("the fuzzer's input as a file in memory");
    std::exit(2);
  }
}

InputFile::~InputFile() { close(descriptor_); }

std::string InputFile::path() const { return absl::StrCat("/proc/self/fd/", descriptor_); }

}  // namespace moonring::fuzz
