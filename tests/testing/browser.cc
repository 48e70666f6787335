#include "tests/testing/browser.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <stdexcept>
#include <thread>

#include "absl/strings/escaping.h"

namespace moonring::testing {
namespace {

using nlohmann::json;

constexpr int kPatience = 60;  // seconds for an answer

}  // namespace

Browser::Browser(const std::string& profile) {
  int to[2], from[2];
  if (pipe2(to, O_CLOEXEC) != 0 || pipe2(from, O_CLOEXEC) != 0)
    throw std::runtime_error("browser: no pipes");
  pid_ = fork();
  if (pid_ == 0) {
    setpgid(0, 0);
    // The pipe's ends may have the numbers 3 and 4 themselves, so they are moved away first.
    const int in = fcntl(to[0], F_DUPFD, 10), out = fcntl(from[1], F_DUPFD, 10);
    dup2(in, 3);
    dup2(out, 4);
    dup2(open("/dev/null", O_WRONLY), STDERR_FILENO);  // it speaks of buses that are not there
    const std::string folder = "--user-data-dir=" + profile;
    execlp("chromium", "chromium", "--headless", "--no-sandbox", "--disable-gpu",
           "--disable-dev-shm-usage", "--no-first-run", "--remote-debugging-pipe", folder.c_str(),
           "about:blank", nullptr);
    _exit(127);
  }
  setpgid(pid_, pid_);
  close(to[0]);
  close(from[1]);
  to_ = to[1];
  from_ = from[0];
  const json target = Call("Target.createTarget", {{"url", "about:blank"}});
  session_ = Call("Target.attachToTarget", {{"targetId", target.at("targetId")}, {"flatten", true}})
                 .at("sessionId");
  for (const char* domain : {"Page", "Runtime", "Log", "Network"})
    Call(std::string(domain) + ".enable");
}

Browser::~Browser() {
  kill(-pid_, SIGKILL);
  waitpid(pid_, nullptr, 0);
  close(to_);
  close(from_);
}

json Browser::Read() {
  while (true) {
    if (const size_t end = buffer_.find('\0'); end != std::string::npos) {
      const json message = json::parse(buffer_.substr(0, end));
      buffer_.erase(0, end + 1);
      return message;
    }
    pollfd ready{from_, POLLIN, 0};
    if (poll(&ready, 1, kPatience * 1000) <= 0) throw std::runtime_error("browser: no answer");
    char bytes[65536];
    const ssize_t size = read(from_, bytes, sizeof bytes);
    if (size <= 0)
      throw std::runtime_error("browser: it has ended; is Debian's chromium installed?");
    buffer_.append(bytes, size);
  }
}

void Browser::Note(const json& event) {
  const std::string method = event.value("method", "");
  if (method.empty() || event.value("sessionId", "") != session_) return;
  const json& told = event.at("params");
  if (method == "Page.loadEventFired") loaded_ = true;
  if (method == "Runtime.exceptionThrown" || method == "Log.entryAdded" ||
      method == "Runtime.consoleAPICalled") {
    complaints_.push_back(told.dump());
  }
  if (method == "Network.requestWillBeSent") requests_.push_back(told.at("request").at("url"));
}

json Browser::Call(const std::string& method, const json& parameters) {
  json message = {{"id", ++last_}, {"method", method}};
  if (!parameters.is_null()) message["params"] = parameters;
  if (!session_.empty()) message["sessionId"] = session_;
  const std::string text = message.dump() + '\0';
  for (size_t sent = 0; sent < text.size();) {
    const ssize_t size = write(to_, text.data() + sent, text.size() - sent);
    if (size <= 0) throw std::runtime_error("browser: it takes no message");
    sent += size;
  }
  while (true) {
    const json answer = Read();
    Note(answer);
    if (answer.value("id", 0) != last_) continue;
    if (answer.contains("error")) throw std::runtime_error(method + ": " + answer["error"].dump());
    return answer.at("result");
  }
}

void Browser::Open(const std::string& url, int width, bool dark) {
  Call("Emulation.setDeviceMetricsOverride",
       {{"width", width}, {"height", 900}, {"deviceScaleFactor", 1}, {"mobile", width < 600}});
  const json scheme = {{"name", "prefers-color-scheme"}, {"value", dark ? "dark" : "light"}};
  Call("Emulation.setEmulatedMedia", {{"features", json::array({scheme})}});
  complaints_.clear();
  requests_.clear();
  loaded_ = false;
  Call("Page.navigate", {{"url", url}});
  while (!loaded_) Note(Read());
}

json Browser::Evaluate(const std::string& expression) {
  const json result =
      Call("Runtime.evaluate",
           {{"expression", expression}, {"returnByValue", true}, {"awaitPromise", true}});
  if (result.contains("exceptionDetails"))
    throw std::runtime_error(expression + ": " + result["exceptionDetails"].dump());
  return result.at("result").value("value", json());
}

bool Browser::Await(const std::string& expression) {
  for (int i = 0; i < 10 * kPatience; ++i) {
    if (Evaluate(expression) == true) return true;
    std::this_thread::sleep_for(std::chrono::milliseconds(100));
  }
  return false;
}

void Browser::Mouse(const std::string& what, double x, double y) {
  Call("Input.dispatchMouseEvent", {{"type", what},
                                    {"x", x},
                                    {"y", y},
                                    {"button", what == "mouseMoved" ? "none" : "left"},
                                    {"buttons", what == "mouseReleased" ? 0 : 1},
                                    {"clickCount", what == "mouseMoved" ? 0 : 1}});
}

std::string Browser::Screenshot() {
  const json size = Evaluate(
      "({x: 0, y: 0, scale: 1, width: innerWidth, height: document.documentElement.scrollHeight})");
  const json shot = Call("Page.captureScreenshot",
                         {{"format", "png"}, {"captureBeyondViewport", true}, {"clip", size}});
  std::string png;
  if (!absl::Base64Unescape(shot.at("data").get<std::string>(), &png))
    throw std::runtime_error("browser: no picture");
  return png;
}

}  // namespace moonring::testing
