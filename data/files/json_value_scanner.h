// Finds the end of a JSON value in a longer text, one character at a time, without parsing it.
//
// The scanner also stops after a bracket, comma, colon, string or word that is not allowed at this
// position, so that a missing bracket is noticed a few characters into the next value instead of at
// the end of the file. The caller then parses the text read so far, and the parser reports the
// error.
#ifndef MOONRING_DATA_FILES_JSON_VALUE_SCANNER_H_
#define MOONRING_DATA_FILES_JSON_VALUE_SCANNER_H_

#include <cstdint>
#include <string>

namespace moonring::data {

class JsonValueScanner {
 public:
  // Whether the value ended before `c`. Numbers and words end where another token begins.
  bool EndsBefore(char c) const;

  // Takes the next character, for which EndsBefore has returned false. Returns whether it is the
  // last one of the value.
  bool Take(char c);

  // An upper bound of the number of values in the text so far (row_limits.h).
  int64_t values() const { return values_; }

 private:
  enum class Next { kValue, kValueOrEnd, kKey, kKeyOrEnd, kColon, kCommaOrEnd };

  bool TakeInString(char c);
  bool Open(char c);
  bool Close(char c);
  bool Wants(Next one, Next other) const { return next_ == one || next_ == other; }

  int64_t values_ = 1;
  std::string open_;  // the open brackets around the next character
  Next next_ = Next::kValue;
  bool in_string_ = false, is_escaped_ = false, is_key_ = false, in_word_ = false;
  bool is_broken_ = false;  // the current string or word is not allowed here
};

}  // namespace moonring::data

#endif  // MOONRING_DATA_FILES_JSON_VALUE_SCANNER_H_
