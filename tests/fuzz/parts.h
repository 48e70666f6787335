// Several texts in one fuzzer input, separated by zero bytes: a fuzzer moves and duplicates these
// easily, and they do not occur in the formats themselves.
#ifndef MOONRING_TESTS_FUZZ_PARTS_H_
#define MOONRING_TESTS_FUZZ_PARTS_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"

namespace moonring::fuzz {

// Splits the input into `count` texts. Missing texts are empty; the last text is the whole rest.
inline std::vector<std::string> PartsOfInput(const uint8_t* data, size_t size, size_t count) {
  const absl::string_view input(reinterpret_cast<const char*>(data), size);
  std::vector<std::string> parts =
      absl::StrSplit(input, absl::MaxSplits('\0', static_cast<int>(count) - 1));
  parts.resize(count);
  return parts;
}

}  // namespace moonring::fuzz

#endif  // MOONRING_TESTS_FUZZ_PARTS_H_
