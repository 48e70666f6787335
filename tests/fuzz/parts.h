// Several texts in one input: separated by zero bytes, which a fuzzer moves and multiplies readily
// and none of these formats holds.
#ifndef MOONRING_TESTS_FUZZ_PARTS_H_
#define MOONRING_TESTS_FUZZ_PARTS_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"

namespace moonring::fuzz {

// `count` of them; those that are not there are empty, and the last has whatever follows.
inline std::vector<std::string> PartsOfInput(const uint8_t* data, size_t size, size_t count) {
  const absl::string_view input(reinterpret_cast<const char*>(data), size);
  std::vector<std::string> parts =
      absl::StrSplit(input, absl::MaxSplits('\0', static_cast<int>(count) - 1));
  parts.resize(count);
  return parts;
}

}  // namespace moonring::fuzz

#endif  // MOONRING_TESTS_FUZZ_PARTS_H_
