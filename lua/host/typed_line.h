#ifndef MOONRING_LUA_HOST_TYPED_LINE_H_
#define MOONRING_LUA_HOST_TYPED_LINE_H_

// Types shared by a line editor and its callers. Independent of libedit and Lua.

#include <cstddef>
#include <functional>
#include <string>
#include <vector>

namespace moonring::lua {

struct TypedLine {
  enum class Kind { kLine, kEnd, kInterrupted };  // Enter; Ctrl-D, or terminal closed; Ctrl-C
  Kind kind = Kind::kEnd;
  std::string text;  // without the line end
};

// Completions that Tab offers; one of them replaces line[begin, cursor).
struct Offers {
  size_t begin = 0;
  std::vector<std::string> words;
  std::vector<std::string> shown;  // the same words as they are displayed, with their types; same
                                   // number
};

using Completer = std::function<Offers(const std::string& line, size_t cursor)>;
using LineReader = std::function<TypedLine(const std::string& prompt, const Completer& complete)>;

}  // namespace moonring::lua

#endif  // MOONRING_LUA_HOST_TYPED_LINE_H_
