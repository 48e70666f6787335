#include "data/text/whole_characters.h"

#include "data/text/unicode/utf8.h"

namespace moonring::data {

WholeCharacters SplitWholeCharacters(absl::string_view bytes) {
  const size_t length = CompleteUtf8Prefix(bytes);
  return {ReplaceMalformedUtf8(bytes.substr(0, length)), std::string(bytes.substr(length))};
}

}  // namespace moonring::data
