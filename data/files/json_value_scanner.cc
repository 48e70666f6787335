#include "data/files/json_value_scanner.h"

#include "data/files/row_limits.h"

namespace moonring::data {
namespace {

bool IsSpace(char c) { return c == ' ' || c == '\t' || c == '\r' || c == '\n'; }

bool IsMark(char c) {
  return c == '{' || c == '}' || c == '[' || c == ']' || c == ',' || c == ':' || c == '"';
}

}  // namespace

bool JsonValueScanner::EndsBefore(char c) const {
  return in_word_ && (open_.empty() || is_broken_) && (IsSpace(c) || IsMark(c));
}

bool JsonValueScanner::Take(char c) {
  if (in_string_) return TakeInString(c);
  if (IsSpace(c) || IsMark(c)) in_word_ = false;
  if (IsSpace(c)) return false;
  switch (c) {
    case '"':
      is_key_ = Wants(Next::kKey, Next::kKeyOrEnd);
      is_broken_ = !is_key_ && !Wants(Next::kValue, Next::kValueOrEnd);
      in_string_ = true;
      return false;
    case '{':
    case '[':
      return Open(c);
    case '}':
    case ']':
      return Close(c);
    case ',':
      if (open_.empty() || next_ != Next::kCommaOrEnd) return true;
      ++values_;
      next_ = open_.back() == '{' ? Next::kKey : Next::kValue;
      return false;
    case ':':
      if (next_ != Next::kColon) return true;
      values_ += kValuesOfMember;
      next_ = Next::kValue;
      return false;
    default:
      break;
  }
  if (in_word_) return false;
  is_broken_ = !Wants(Next::kValue, Next::kValueOrEnd);
  in_word_ = true;
  next_ = Next::kCommaOrEnd;
  return false;
}

bool JsonValueScanner::TakeInString(char c) {
  if (c == '\n') return true;  // strings cannot contain a line feed: the closing quote is missing
  if (is_escaped_) {
    is_escaped_ = false;
  } else if (c == '\\') {
    is_escaped_ = true;
  } else if (c == '"') {
    in_string_ = false;
    next_ = is_key_ ? Next::kColon : Next::kCommaOrEnd;
    return open_.empty() || is_broken_;
  }
  return false;
}

bool JsonValueScanner::Open(char c) {
  if (!Wants(Next::kValue, Next::kValueOrEnd)) return true;
  ++values_;
  open_ += c;
  next_ = c == '{' ? Next::kKeyOrEnd : Next::kValueOrEnd;
  return false;
}

bool JsonValueScanner::Close(char c) {
  const bool is_empty = next_ == (c == '}' ? Next::kKeyOrEnd : Next::kValueOrEnd);
  if (open_.empty() || open_.back() != (c == '}' ? '{' : '[') ||
      !(is_empty || next_ == Next::kCommaOrEnd))
    return true;
  open_.pop_back();
  next_ = Next::kCommaOrEnd;
  return open_.empty();
}

}  // namespace moonring::data
