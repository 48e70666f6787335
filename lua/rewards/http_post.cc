#include "lua/rewards/http_post.h"

#include <algorithm>
#include <cstdint>
#include <optional>
#include <utility>

#include <boost/asio/connect.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/beast/core/flat_buffer.hpp>
#include <boost/beast/http.hpp>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"

namespace moonring::lua {
namespace {

namespace asio = boost::asio;
namespace http = boost::beast::http;
using asio::ip::tcp;
using Error = boost::system::error_code;

constexpr uint64_t kLongest = uint64_t{64} << 20;  // bytes of an answer's body
constexpr std::chrono::milliseconds kTick(100);

// Resolve, connect, write, read: each begins the next. Who drives it looks at the clock.
class Exchange {
 public:
  Exchange(const HttpAddress& address, const std::string& json) : address_(address) {
    request_.version(11);
    request_.method(http::verb::post);
    request_.target(address.target);
    const bool is_ip6 = absl::StrContains(address.host, ":");
    const std::string host = is_ip6 ? absl::StrCat("[", address.host, "]") : address.host;
    request_.set(http::field::host, absl::StrCat(host, ":", address.port));
    request_.set(http::field::user_agent, "moonring");
    request_.set(http::field::content_type, "application/json");
    request_.set(http::field::accept, "application/json");
    request_.set(http::field::connection, "close");
    request_.body() = json;
    request_.prepare_payload();
    parser_.body_limit(kLongest);
    resolver_.async_resolve(address_.host, address_.port,
                            [this](Error error, const tcp::resolver::results_type& found) {
                              if (!Failed(error, "cannot find the host")) Connect(found);
                            });
  }

  // Goes on for a while; whether it is through.
  bool Run(std::chrono::milliseconds tick) {
    context_.run_for(tick);
    return outcome_.has_value();
  }

  absl::StatusOr<HttpAnswer> Take() { return *std::move(outcome_); }

 private:
  bool Failed(Error error, const char* what) {
    if (!error) return false;
    const std::string words = absl::StrCat(what, ": ", error.message());
    outcome_ = error == http::error::body_limit
                   ? absl::ResourceExhaustedError("the answer is longer than 64 MiB")
                   : absl::UnavailableError(words);
    return true;
  }
  void Connect(const tcp::resolver::results_type& found) {
    asio::async_connect(socket_, found, [this](Error error, const tcp::endpoint&) {
      if (!Failed(error, "cannot connect")) Write();
    });
  }
  void Write() {
    http::async_write(socket_, request_, [this](Error error, size_t) {
      // Who refuses a question may answer before it has read all of it.
      write_error_ = error;
      ReadHeader();
    });
  }
  void ReadHeader() {
    http::async_read_header(socket_, buffer_, parser_, [this](Error error, size_t) {
      if (error && write_error_) error = write_error_;
      if (Failed(error, "no answer")) return;
      // The parser's own limit looks at chunks alone.
      const boost::optional<uint64_t> length = parser_.content_length();
      if (length.has_value() && *length > kLongest) {
        Failed(http::error::body_limit, "no answer");
      } else {
        ReadBody();
      }
    });
  }
  void ReadBody() {
    http::async_read(socket_, buffer_, parser_, [this](Error error, size_t) {
      if (Failed(error, "no answer")) return;
      const auto& answer = parser_.get();
      outcome_ = HttpAnswer{.code = static_cast<int>(answer.result_int()),
                            .reason = std::string(answer.reason()),
                            .body = answer.body()};
    });
  }

  const HttpAddress address_;
  asio::io_context context_;
  tcp::resolver resolver_{context_};
  tcp::socket socket_{context_};
  http::request<http::string_body> request_;
  boost::beast::flat_buffer buffer_;
  http::response_parser<http::string_body> parser_;
  Error write_error_;
  std::optional<absl::StatusOr<HttpAnswer>> outcome_;
};

bool IsPort(const std::string& text) {
  int port = 0;
  return absl::SimpleAtoi(text, &port) && port > 0 && port < 65536 &&
         std::all_of(text.begin(), text.end(), [](char c) { return c >= '0' && c <= '9'; });
}

}  // namespace

absl::StatusOr<HttpAddress> ParseHttpAddress(const std::string& url) {
  const auto refuse = [&](const char* why) {
    return absl::InvalidArgumentError(
        absl::StrCat("'", url, "': ", why, "; wanted http://HOST:PORT/PATH"));
  };
  constexpr char kScheme[] = "http://";
  if (absl::StartsWith(url, "https://")) return refuse("https is not spoken");
  if (!absl::StartsWith(url, kScheme)) return refuse("no address");
  for (const char c : url) {
    if (c <= ' ' || c == '#' || c == 0x7f) return refuse("it has a space, a '#' or a control sign");
  }
  const std::string rest = url.substr(sizeof kScheme - 1);
  const size_t end = std::min(rest.find_first_of("/?"), rest.size());
  std::string place = rest.substr(0, end);
  HttpAddress address;
  address.target = rest.substr(end);
  if (address.target.empty() || address.target[0] == '?') address.target.insert(0, "/");
  if (absl::StrContains(place, "@")) return refuse("a name and password are not sent");
  const size_t bracket = place.find(']');
  const size_t colon = place.find(':', bracket == std::string::npos ? 0 : bracket);
  if (colon != std::string::npos) {
    address.port = place.substr(colon + 1);
    place.resize(colon);
  }
  if (!IsPort(address.port)) return refuse("no such port");
  if (!place.empty() && place[0] == '[' && place.back() == ']')
    place = place.substr(1, place.size() - 2);
  if (place.empty()) return refuse("no host");
  address.host = std::move(place);
  return address;
}

absl::StatusOr<HttpAnswer> PostJson(const HttpAddress& address, const std::string& json,
                                    std::chrono::steady_clock::time_point deadline,
                                    absl::FunctionRef<bool()> stop) {
  Exchange exchange(address, json);
  while (true) {
    const auto left =
        std::chrono::ceil<std::chrono::milliseconds>(deadline - std::chrono::steady_clock::now());
    if (left.count() <= 0) return absl::DeadlineExceededError("no answer in time");
    if (exchange.Run(std::min<std::chrono::milliseconds>(left, kTick))) return exchange.Take();
    if (stop()) return absl::CancelledError("the run was cancelled");
  }
}

}  // namespace moonring::lua
