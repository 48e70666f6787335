#include "lua/vm/counted_search.h"

#include <cstddef>
#include <cstdint>
#include <cstring>

#include "absl/status/status.h"
#include "base/status/torch_status.h"
#include "lua/binding/native_stack.h"
#include "lua/binding/stack.h"
#include "lua/vm/limits.h"

namespace moonring::lua {
namespace {

constexpr int64_t kNone = -1, kPlace = -1;

// Matches a compiled Lua pattern (`program`, a list of items) against a text. Positions and
// captures are counted from 1.
class Search {
 public:
  Search(lua_State* L, const char* text, size_t size, const char* program, size_t items)
      : L_(L),
        text_(text),
        size_(static_cast<int64_t>(size)),
        program_(program),
        items_(static_cast<int64_t>(items)) {}

  // Matches the program's items from number `p` on at position `i`. Returns the position after the
  // match; kNone without a match.
  int64_t Match(int64_t i, int64_t p);

  int64_t first[kMostCaptures + 1] = {}, last[kMostCaptures + 1] = {};

 private:
  const char* Item(int64_t p) const { return program_ + p * kItemBytes; }
  unsigned char Byte(int64_t i) const { return static_cast<unsigned char>(text_[i - 1]); }
  static bool Has(const char* item, unsigned char byte) {
    return (item[3 + byte / 8] >> (byte % 8) & 1) != 0;
  }
  // Whether position `i` has a character that is in the item's set.
  bool Takes(const char* item, int64_t i) {
    Count(1);
    return i >= 1 && i <= size_ && Has(item, Byte(i));
  }
  bool IsFrontier(const char* item, int64_t i) const {
    const unsigned char before = i > 1 ? Byte(i - 1) : 0, here = i <= size_ ? Byte(i) : 0;
    return !Has(item, before) && Has(item, here);
  }
  void Count(int64_t steps) {
    for (steps_ += steps; steps_ >= kCountEach; steps_ -= kCountEach) CountCaught(L_);
  }
  int64_t Fewest(const char* item, int64_t i, int64_t p);
  int64_t Most(const char* item, int64_t i, int64_t p);
  int64_t Capture(const char* item, int64_t i, int64_t p);
  int64_t Balanced(const char* item, int64_t i);
  int64_t Again(const char* item, int64_t i);

  lua_State* const L_;
  const char* const text_;
  const int64_t size_;
  const char* const program_;
  const int64_t items_;
  int64_t steps_ = 0;
};

int64_t Search::Fewest(const char* item, int64_t i, int64_t p) {
  while (true) {
    if (const int64_t after = Match(i, p + 1); after != kNone) return after;
    if (!Takes(item, i)) return kNone;
    ++i;
  }
}

int64_t Search::Most(const char* item, int64_t i, int64_t p) {
  const int64_t least = item[0] == '+' ? i + 1 : i;
  int64_t most = i;
  while (Takes(item, most)) ++most;
  for (; most >= least; --most) {
    if (const int64_t after = Match(most, p + 1); after != kNone) return after;
  }
  return kNone;
}

// Matches a capture and the rest of the pattern. Restores the capture if the rest does not match.
int64_t Search::Capture(const char* item, int64_t i, int64_t p) {
  const int c = item[1];
  const int64_t before_first = first[c], before_last = last[c];
  if (item[0] != ')') first[c] = i;
  if (item[0] != '(') last[c] = item[0] == '.' ? kPlace : i - 1;
  const int64_t after = Match(i, p + 1);
  if (after == kNone) first[c] = before_first, last[c] = before_last;
  return after;
}

int64_t Search::Balanced(const char* item, int64_t i) {
  const auto left = static_cast<unsigned char>(item[1]),
             right = static_cast<unsigned char>(item[2]);
  if (i > size_ || Byte(i) != left) return kNone;
  int64_t depth = 1;
  for (int64_t k = i + 1; k <= size_; ++k) {
    Count(1);
    if (Byte(k) == right) {
      if (--depth == 0) return k + 1;
    } else if (Byte(k) == left) {
      ++depth;
    }
  }
  return kNone;
}

int64_t Search::Again(const char* item, int64_t i) {
  const int c = item[1];
  if (last[c] == kPlace) return kNone;
  const int64_t length = last[c] - first[c] + 1;
  Count(1 + length / 16);
  const bool same =
      length <= size_ + 1 - i && std::memcmp(text_ + first[c] - 1, text_ + i - 1, length) == 0;
  return same ? i + length : kNone;
}

int64_t Search::Match(int64_t i, int64_t p) {
  Count(1);
  if (NativeStackIsShort())
    throw base::StatusError(absl::ResourceExhaustedError("a pattern too long for the stack"));
  for (; p < items_; ++p) {
    const char* const item = Item(p);
    switch (item[0]) {
      case '1':
        if (!Takes(item, i)) return kNone;
        ++i;
        break;
      case '?':
        if (Takes(item, i)) {
          if (const int64_t after = Match(i + 1, p + 1); after != kNone) return after;
        }
        break;
      case '-':
        return Fewest(item, i, p);
      case '*':
      case '+':
        return Most(item, i, p);
      case '$':
        if (i != size_ + 1) return kNone;
        break;
      case '(':
      case ')':
      case '.':
        return Capture(item, i, p);
      case 'b':
        if ((i = Balanced(item, i)) == kNone) return kNone;
        break;
      case 'f':
        if (!IsFrontier(item, i)) return kNone;
        break;
      default:  // '='
        if ((i = Again(item, i)) == kNone) return kNone;
    }
  }
  return i;
}

}  // namespace

int SearchPattern(lua_State* L) {
  size_t size = 0, program_size = 0;
  for (const int index : {1, 2}) {
    if (!lua_isstring(L, index)) RefuseValue(L, index, "string");
  }
  const char* const text = lua_tolstring(L, 1, &size);
  const char* const program = lua_tolstring(L, 2, &program_size);
  const auto from = Value<int64_t>::Read(L, 3);
  const bool anchored = Value<bool>::Read(L, 4);
  const int captures = Value<int>::Read(L, 5);
  if (program_size % kItemBytes != 0 || captures < 0 || captures > kMostCaptures || from < 1)
    throw base::StatusError(absl::InvalidArgumentError("search_pattern: no compiled pattern"));
  Search search(L, text, size, program, program_size / kItemBytes);
  const int64_t end = static_cast<int64_t>(size) + 1;
  for (int64_t i = from; i <= (anchored ? from : end); ++i) {
    const int64_t after = search.Match(i, 0);
    if (after == kNone) continue;
    luaL_checkstack(L, 2 + 2 * captures, "captures");
    lua_pushnumber(L, static_cast<double>(i));
    lua_pushnumber(L, static_cast<double>(after));
    for (int c = 1; c <= captures; ++c) {
      lua_pushnumber(L, static_cast<double>(search.first[c]));
      lua_pushnumber(L, static_cast<double>(search.last[c]));
    }
    return 2 + 2 * captures;
  }
  return lua_pushnil(L), 1;
}

}  // namespace moonring::lua
