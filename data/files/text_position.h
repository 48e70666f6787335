#ifndef MOONRING_DATA_FILES_TEXT_POSITION_H_
#define MOONRING_DATA_FILES_TEXT_POSITION_H_

#include <cstdint>

namespace moonring::data {

// Where a character stands in a file's (decompressed) text: enough to go back there.
struct TextPosition {
  int64_t offset = 0;
  int64_t line = 1;
  int64_t column = 1;  // in characters

  void Advance(unsigned char c) {
    ++offset;
    if (c == '\n') {
      ++line;
      column = 1;
    } else if ((c & 0xC0) != 0x80) {  // a byte that begins a character
      ++column;
    }
  }
};

}  // namespace moonring::data

#endif  // MOONRING_DATA_FILES_TEXT_POSITION_H_
