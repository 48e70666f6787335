#ifndef MOONRING_TESTS_TESTING_BROWSER_H_
#define MOONRING_TESTS_TESTING_BROWSER_H_

// Controls a headless Chromium by its DevTools protocol over two pipes (--remote-debugging-pipe:
// JSON messages that end in a zero byte).

#include <sys/types.h>

#include <functional>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

namespace moonring::testing {

class Browser {
 public:
  // `profile` is an empty folder for Chromium's files. Fails the test if chromium is not installed.
  explicit Browser(const std::string& profile);
  ~Browser();
  Browser(const Browser&) = delete;
  Browser& operator=(const Browser&) = delete;

  // Opens a page in a window of this width and color scheme, and waits until it is loaded.
  void Open(const std::string& url, int width, bool dark);
  // Evaluates a JavaScript expression and returns its value; waits for a promise.
  nlohmann::json Evaluate(const std::string& expression);
  // Waits until an expression is true; returns false if it is not true within a minute.
  bool Await(const std::string& expression);
  // Sends a mouse event at a point of the window: "mouseMoved", "mousePressed" or "mouseReleased".
  void Mouse(const std::string& what, double x, double y);
  // Returns the whole page as PNG.
  std::string Screenshot();

  // complaints: console messages, exceptions and content-policy violations of the open page.
  // requests: the URLs that the page has requested in addition to itself.
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
