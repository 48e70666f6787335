#ifndef MOONRING_LUA_REPORT_LINE_INPUT_H_
#define MOONRING_LUA_REPORT_LINE_INPUT_H_

// Lines of a descriptor, read while the program also does other work: the requests that
// `moonring watch` sends to the process that answers its chat.

#include <optional>
#include <string>

namespace moonring::lua {

class LineInput {
 public:
  // Reads `descriptor`, which stays open.
  explicit LineInput(int descriptor) : descriptor_(descriptor) {}

  // Returns the next line without its line end; nullopt if there is none within this many seconds,
  // or if the input has ended. An incomplete last line is dropped.
  std::optional<std::string> Take(double seconds);
  // Whether the input has ended and all of its lines are taken.
  bool ended() const { return ended_; }

 private:
  std::optional<std::string> TakeBuffered();

  const int descriptor_;
  std::string buffered_;
  bool ended_ = false;
};

}  // namespace moonring::lua

#endif  // MOONRING_LUA_REPORT_LINE_INPUT_H_
