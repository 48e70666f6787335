// Finds where a JSON value ends in a longer text, one character at a time, without parsing it.
//
// The scanner also stops after a bracket, comma, colon, string or word that cannot come next in the
// value: a missing bracket is noticed a few characters into the next value, not at the end of the
// file. The caller then parses the text up to there, and the parser reports the error.
#ifndef MOONRING_DATA_FILES_JSON_VALUE_SCANNER_H_
#define MOONRING_DATA_FILES_JSON_VALUE_SCANNER_H_

#include <cstdint>
#include <string>

namespace moonring::data {

class JsonValueScanner {
 public:
  // Whether the value ended before `c`: a number or a word ends where something else begins.
  bool EndsBefore(char c) const;

  // Takes the next character, which EndsBefore denies; whether it is the last one.
  bool Take(char c);

  // At least as many as the text so far has values (row_limits.h).
  int64_t values() const { return values_; }

 private:
  enum class Next { kValue, kValueOrEnd, kKey, kKeyOrEnd, kColon, kCommaOrEnd };

  bool TakeInString(char c);
  bool Open(char c);
  bool Close(char c);
  bool Wants(Next one, Next other) const { return next_ == one || next_ == other; }

  int64_t values_ = 1;
  std::string open_;  // the brackets around the next character
  Next next_ = Next::kValue;
  bool in_string_ = false, is_escaped_ = false, is_key_ = false, in_word_ = false;
  bool is_broken_ = false;  // the string or word at hand is none that the value goes on with
};

}  // namespace moonring::data

#endif  // MOONRING_DATA_FILES_JSON_VALUE_SCANNER_H_
