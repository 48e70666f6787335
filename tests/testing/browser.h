#ifndef MOONRING_TESTS_TESTING_BROWSER_H_
#define MOONRING_TESTS_TESTING_BROWSER_H_

// Chromium without a window, by its DevTools protocol over two pipes (--remote-debugging-pipe:
// JSON messages that end in a zero byte).

#include <sys/types.h>

#include <functional>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

namespace moonring::testing {

class Browser {
 public:
  // `profile`: an empty folder for its files. Fails the test where there is no chromium.
  explicit Browser(const std::string& profile);
  ~Browser();
  Browser(const Browser&) = delete;
  Browser& operator=(const Browser&) = delete;

  // Loads a page in a window of this width and colour scheme, and waits until it is loaded.
  void Open(const std::string& url, int width, bool dark);
  // The value of a JavaScript expression, a promise's once it is there.
  nlohmann::json Evaluate(const std::string& expression);
  // Waits until an expression is true; false where it is not within a minute.
  bool Await(const std::string& expression);
  // A mouse event at a place of the window: "mouseMoved", "mousePressed", "mouseReleased".
  void Mouse(const std::string& what, double x, double y);
  // The whole page as PNG.
  std::string Screenshot();

  // Of the page that is open: messages on the console, exceptions, refusals by the page's policy;
  // and what it has asked for besides itself.
  const std::vector<std::string>& complaints() const { return complaints_; }
  const std::vector<std::string>& requests() const { return requests_; }

 private:
  nlohmann::json Call(const std::string& method, const nlohmann::json& parameters = {});
  nlohmann::json Read();
  void Note(const nlohmann::json& event);

  pid_t pid_ = -1;
  int to_ = -1, from_ = -1;
  int last_ = 0;
  std::string buffer_, session_;
  bool loaded_ = false;
  std::vector<std::string> complaints_, requests_;
};

}  // namespace moonring::testing

#endif  // MOONRING_TESTS_TESTING_BROWSER_H_
