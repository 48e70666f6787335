// Text from bytes that come piece by piece, as a model's tokens do: a piece may end inside of a
// character, whose first bytes then wait for the others.
#ifndef MOONRING_DATA_TEXT_WHOLE_CHARACTERS_H_
#define MOONRING_DATA_TEXT_WHOLE_CHARACTERS_H_

#include <string>

#include "absl/strings/string_view.h"

namespace moonring::data {

struct WholeCharacters {
  std::string text;  // well-formed; malformed bytes are replaced by U+FFFD
  std::string rest;  // the bytes of a character that is incomplete at the end, at most three
};

WholeCharacters SplitWholeCharacters(absl::string_view bytes);

}  // namespace moonring::data

#endif  // MOONRING_DATA_TEXT_WHOLE_CHARACTERS_H_
