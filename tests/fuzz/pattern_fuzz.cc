// Fuzzes a regular expression in the syntax of tokenizer.json, and a text that it splits.
#include <cstdint>
#include <stdexcept>

#include "data/text/regex/regex.h"
#include "data/text/unicode/utf8.h"
#include "tests/fuzz/parts.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace moonring::data;
  const std::vector<std::string> parts = moonring::fuzz::PartsOfInput(data, size, 2);
  const auto regex = Regex::Compile(ReplaceMalformedUtf8(parts[0]));
  if (!regex.ok()) return 0;
  const std::string text = ReplaceMalformedUtf8(parts[1]);
  std::string joined;
  try {
    (*regex)->Split(
        text, [&](absl::string_view piece, bool) { joined.append(piece.data(), piece.size()); });
  } catch (const std::runtime_error&) {  // allowed: a limit was reached
    return 0;
  }
  if (joined != text) __builtin_trap();
  return 0;
}
