#include "lua/http/http.h"

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <optional>
#include <system_error>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "comm/store/loopback.h"

namespace moonring::lua {
namespace {

constexpr size_t kErrorBytes = 64 << 10;  // most bytes that are kept of an error's body
constexpr int kRedirects = 10;
constexpr std::chrono::milliseconds kTick(100);

// Returns "https://host:443" for "https://host:443/path". libcurl's addresses have this form too.
std::string OriginOf(absl::string_view url) {
  const size_t scheme = url.find("://");
  if (scheme == absl::string_view::npos) return "";
  const size_t end = url.find_first_of("/?#", scheme + 3);
  std::string origin = absl::AsciiStrToLower(url.substr(0, end));
  for (const auto& [beginning, port] :
       {std::pair("https://", ":443"), std::pair("http://", ":80")}) {
    if (absl::StartsWith(origin, beginning)) origin = std::string(absl::StripSuffix(origin, port));
  }
  return origin;
}

// Whether an origin such as "http://127.0.0.1:80" is this machine itself.
bool IsOwn(absl::string_view origin) {
  absl::string_view host = origin.substr(std::min(origin.find("://") + 3, origin.size()));
  const size_t name_end = absl::StartsWith(host, "[") ? host.find(']') : 0;
  host = host.substr(0, host.find(':', std::min(name_end, host.size())));
  return comm::IsLoopback(host);
}

// Returns the file or folder of trusted certificates that the first of these variables names. If
// none is set, returns "", and the system's certificates are used.
std::string Certificates() {
  for (const char* name : {"REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE", "SSL_CERT_FILE"}) {
    const char* value = std::getenv(name);
    if (value != nullptr && *value != '\0') return value;
  }
  return "";
}

absl::Status NoAddress(const std::string& url) {
  return absl::InvalidArgumentError(absl::StrCat("'", url, "' is no address of http or https"));
}

bool IsAddress(absl::string_view url) {
  return absl::StartsWith(url, "https://") || absl::StartsWith(url, "http://");
}

}  // namespace

struct Http::Exchange {
  HttpRequest request;
  Done done;
  CURL* easy = nullptr;
  curl_slist* sent = nullptr;
  HttpAnswer answer;
  std::string next;      // address to which a redirect leads
  bool in_body = false;  // on_head has been called
  int redirects = 0;
  absl::Status failure;  // an error of the request's callbacks
  char words[CURL_ERROR_SIZE] = "";

  bool is_ok() const { return answer.code >= 200 && answer.code < 300; }

  static size_t TakeHeader(char* bytes, size_t, size_t size, void* self) {
    HttpAnswer& answer = static_cast<Exchange*>(self)->answer;
    absl::string_view line(bytes, size);
    if (absl::StartsWith(line, "HTTP/")) {  // starts a new answer: after 100 Continue, or a proxy's
                                            // CONNECT
      answer.headers.clear();
      size_t end = std::min(line.find(' '), line.size() - 1) + 1;
      answer.code = 0;
      for (; end < line.size() && absl::ascii_isdigit(line[end]); ++end)
        answer.code = 10 * answer.code + (line[end] - '0');
      answer.reason = std::string(absl::StripAsciiWhitespace(line.substr(end)));
      return size;
    }
    const size_t colon = line.find(':');
    if (colon != absl::string_view::npos) {
      answer.headers[absl::AsciiStrToLower(line.substr(0, colon))] =
          std::string(absl::StripAsciiWhitespace(line.substr(colon + 1)));
    }
    return size;
  }

  static size_t TakeBody(char* bytes, size_t, size_t size, void* self) {
    Exchange& exchange = *static_cast<Exchange*>(self);
    if (!exchange.is_ok() || !exchange.request.on_body) {
      std::string& body = exchange.answer.body;
      if (!exchange.is_ok()) {
        body.append(bytes, std::min(size, kErrorBytes - std::min(kErrorBytes, body.size())));
        return size;
      }
      const int64_t most = exchange.request.most_bytes;
      if (static_cast<int64_t>(body.size() + size) > most) {
        exchange.failure = absl::ResourceExhaustedError(
            absl::StrCat("the answer is longer than ", most >> 20, " MiB"));
        return size + 1;  // any other value aborts the transfer
      }
      body.append(bytes, size);
      return size;
    }
    if (!exchange.in_body && exchange.request.on_head)
      exchange.failure = exchange.request.on_head(exchange.answer);
    exchange.in_body = true;
    if (exchange.failure.ok()) exchange.failure = exchange.request.on_body({bytes, size});
    return exchange.failure.ok() ? size : size + 1;
  }
};

absl::StatusOr<std::unique_ptr<Http>> Http::Open() {
  absl::StatusOr<CurlLibrary> curl = OpenCurl();
  if (!curl.ok()) return curl.status();
  CURLM* const multi = curl->multi_init();
  if (multi == nullptr) return absl::ResourceExhaustedError("libcurl has no memory");
  return std::unique_ptr<Http>(new Http(*curl, multi, Certificates()));
}

Http::Http(CurlLibrary curl, CURLM* multi, std::string certificates)
    : curl_(curl), multi_(multi), certificates_(std::move(certificates)) {}

Http::~Http() {
  Drop();
  curl_.multi_cleanup(multi_);
}

void Http::Drop() {
  for (const auto& exchange : exchanges_) Release(*exchange);
  exchanges_.clear();
}

void Http::Release(Exchange& exchange) {
  if (exchange.easy != nullptr) {
    curl_.multi_remove_handle(multi_, exchange.easy);
    curl_.easy_cleanup(std::exchange(exchange.easy, nullptr));
  }
  curl_.slist_free_all(std::exchange(exchange.sent, nullptr));
}

void Http::Start(HttpRequest request, Done done) {
  exchanges_.push_back(std::make_unique<Exchange>());
  Exchange& exchange = *exchanges_.back();
  exchange.request = std::move(request);
  exchange.done = std::move(done);
  exchange.next = exchange.request.url;
  Send(exchange);
}

// Sends the exchange's request to the address exchange.next.
void Http::Send(Exchange& exchange) {
  const HttpRequest& request = exchange.request;
  exchange.answer = {.url = std::exchange(exchange.next, "")};
  exchange.easy = curl_.easy_init();
  CURL* const easy = exchange.easy;
  const auto set = [&](CURLoption option, auto value) { curl_.easy_setopt(easy, option, value); };
  set(CURLOPT_URL, exchange.answer.url.c_str());
  set(CURLOPT_FOLLOWLOCATION, 0L);
  set(CURLOPT_NOSIGNAL, 1L);  // no SIGALRM for timeouts: signals belong to the run
  set(CURLOPT_USERAGENT, "moonring");
  set(CURLOPT_NOBODY, request.head ? 1L : 0L);
  set(CURLOPT_CONNECTTIMEOUT_MS, static_cast<long>(request.connect_seconds * 1000));
  set(CURLOPT_LOW_SPEED_LIMIT, 1L);
  set(CURLOPT_LOW_SPEED_TIME, std::max(1L, static_cast<long>(request.idle_seconds)));
  set(CURLOPT_BUFFERSIZE, 512L << 10);
  set(CURLOPT_ERRORBUFFER, exchange.words);
  set(CURLOPT_PRIVATE, static_cast<void*>(&exchange));
  set(CURLOPT_HEADERFUNCTION, &Exchange::TakeHeader);
  set(CURLOPT_HEADERDATA, static_cast<void*>(&exchange));
  set(CURLOPT_WRITEFUNCTION, &Exchange::TakeBody);
  set(CURLOPT_WRITEDATA, static_cast<void*>(&exchange));
  std::error_code ignored;
  if (!certificates_.empty()) {
    const bool folder = std::filesystem::is_directory(certificates_, ignored);
    set(folder ? CURLOPT_CAPATH : CURLOPT_CAINFO, certificates_.c_str());
  }
  const std::string origin = OriginOf(exchange.answer.url);
  if (IsOwn(origin)) set(CURLOPT_PROXY, "");
  const auto send = [&](const std::string& header) {
    exchange.sent = curl_.slist_append(exchange.sent, header.c_str());
  };
  send("Accept-Encoding: identity");  // sizes and checksums are of the uncompressed bytes
  if (!request.token.empty() && origin == OriginOf(request.url))
    send(absl::StrCat("Authorization: Bearer ", request.token));
  if (request.json.has_value()) {
    set(CURLOPT_POSTFIELDSIZE_LARGE, static_cast<curl_off_t>(request.json->size()));
    set(CURLOPT_POSTFIELDS, request.json->data());
    for (const char* header : {"Content-Type: application/json", "Accept: application/json"})
      send(header);
    send("Expect:");  // long bodies are also sent without waiting for 100 Continue
  }
  if (request.first > 0 || request.last >= 0) {
    const std::string last = request.last >= 0 ? absl::StrCat(request.last) : "";
    set(CURLOPT_RANGE, absl::StrCat(request.first, "-", last).c_str());
  }
  set(CURLOPT_HTTPHEADER, exchange.sent);
  curl_.multi_add_handle(multi_, easy);
}

void Http::Run(std::chrono::milliseconds most) {
  int running = 0, left = 0;
  curl_.multi_perform(multi_, &running);
  const auto ended = [&] {
    const CURLMsg* message = curl_.multi_info_read(multi_, &left);
    while (message != nullptr && message->msg != CURLMSG_DONE)
      message = curl_.multi_info_read(multi_, &left);
    return message;
  };
  const CURLMsg* message = ended();
  if (message == nullptr) {
    curl_.multi_poll(multi_, nullptr, 0, static_cast<int>(most.count()), nullptr);
    curl_.multi_perform(multi_, &running);
    message = ended();
  }
  while (message != nullptr) {
    void* self = nullptr;
    const CURLcode code = message->data.result;
    curl_.easy_getinfo(message->easy_handle, CURLINFO_PRIVATE, &self);
    Finish(*static_cast<Exchange*>(self), code);
    message = ended();
  }
}

bool Http::Follow(Exchange& exchange) {
  const HttpAnswer& answer = exchange.answer;
  const auto location = answer.headers.find("location");
  const bool is_redirect = answer.code == 301 || answer.code == 302 || answer.code == 303 ||
                           answer.code == 307 || answer.code == 308;
  if (!is_redirect || location == answer.headers.end() || exchange.request.json.has_value())
    return false;
  const bool names_host =
      absl::StrContains(location->second, "://") || absl::StartsWith(location->second, "//");
  if (names_host && !exchange.request.follows_elsewhere) return false;
  char* next = nullptr;
  curl_.easy_getinfo(exchange.easy, CURLINFO_REDIRECT_URL, &next);
  if (next == nullptr || !IsAddress(next)) return false;
  exchange.next = next;
  return true;
}

void Http::Finish(Exchange& exchange, CURLcode code) {
  absl::Status failure = exchange.failure;
  if (failure.ok() && code != CURLE_OK) failure = Failure(exchange, code);
  if (failure.ok() && Follow(exchange)) {
    if (absl::StartsWith(exchange.answer.url, "https://") &&
        !absl::StartsWith(exchange.next, "https://")) {
      failure = absl::FailedPreconditionError(absl::StrCat(
          exchange.answer.url, " leads to an address without encryption: ", exchange.next));
    } else if (++exchange.redirects > kRedirects) {
      failure = absl::FailedPreconditionError(
          absl::StrCat(exchange.request.url, " leads from one address to the next without end"));
    } else {
      Release(exchange);
      return Send(exchange);
    }
  }
  Release(exchange);
  const auto place = std::find_if(exchanges_.begin(), exchanges_.end(),
                                  [&](const auto& each) { return each.get() == &exchange; });
  const std::unique_ptr<Exchange> ended = std::move(*place);
  exchanges_.erase(place);
  if (failure.ok()) {
    ended->done(std::move(ended->answer));
  } else {
    ended->done(std::move(failure));
  }
}

absl::Status Http::Failure(const Exchange& exchange, CURLcode code) const {
  const std::string words =
      absl::StrCat(OriginOf(exchange.answer.url), ": ",
                   exchange.words[0] != '\0' ? exchange.words : curl_.easy_strerror(code));
  switch (code) {
    case CURLE_URL_MALFORMAT:
      return NoAddress(exchange.answer.url);
    case CURLE_OPERATION_TIMEDOUT:
      return absl::DeadlineExceededError(words);
    case CURLE_COULDNT_RESOLVE_PROXY:
    case CURLE_COULDNT_RESOLVE_HOST:
    case CURLE_COULDNT_CONNECT:
      return absl::NotFoundError(words);
    case CURLE_PEER_FAILED_VERIFICATION:
    case CURLE_SSL_CACERT_BADFILE:
    case CURLE_SSL_CERTPROBLEM:
      return absl::FailedPreconditionError(words);
    default:
      return absl::UnavailableError(words);
  }
}

absl::StatusOr<HttpAnswer> Http::Ask(HttpRequest request, absl::FunctionRef<bool()> stop) {
  if (!IsAddress(request.url)) return NoAddress(request.url);
  std::optional<absl::StatusOr<HttpAnswer>> outcome;
  Start(std::move(request),
        [&](absl::StatusOr<HttpAnswer> answer) { outcome = std::move(answer); });
  while (!outcome.has_value()) {
    if (stop()) {
      Drop();
      return absl::CancelledError("the request was cancelled");
    }
    Run(kTick);
  }
  return *std::move(outcome);
}

}  // namespace moonring::lua
