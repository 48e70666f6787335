#ifndef MOONRING_LUA_TYPED_LINE_H_
#define MOONRING_LUA_TYPED_LINE_H_

// What a line editor and whoever asks it for lines say to each other. It knows neither libedit nor
// Lua.

#include <cstddef>
#include <functional>
#include <string>
#include <vector>

namespace moonring::lua {

struct TypedLine {
  enum class Kind { kLine, kEnd, kInterrupted };  // Enter; Ctrl-D, or no terminal any more; Ctrl-C
  Kind kind = Kind::kEnd;
  std::string text;  // without its end of line
};

// What Tab offers in place of line[begin, cursor).
struct Offers {
  size_t begin = 0;
  std::vector<std::string> words;
  std::vector<std::string> shown;  // a word as it is listed, with its type; as many
};

using Completer = std::function<Offers(const std::string& line, size_t cursor)>;
using LineReader = std::function<TypedLine(const std::string& prompt, const Completer& complete)>;

}  // namespace moonring::lua

#endif  // MOONRING_LUA_TYPED_LINE_H_
