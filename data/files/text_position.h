#ifndef MOONRING_DATA_FILES_TEXT_POSITION_H_
#define MOONRING_DATA_FILES_TEXT_POSITION_H_

#include <cstdint>

namespace moonring::data {

// The position of a character in a file's (decompressed) text, sufficient to return to it.
struct TextPosition {
  int64_t offset = 0;
  int64_t line = 1;
  int64_t column = 1;  // in characters, not bytes

  void Advance(unsigned char c) {
    ++offset;
    if (c == '\n') {
      ++line;
      column = 1;
    } else if ((c & 0xC0) != 0x80) {  // the first byte of a UTF-8 character
      ++column;
    }
  }
};

}  // namespace moonring::data

#endif  // MOONRING_DATA_FILES_TEXT_POSITION_H_
