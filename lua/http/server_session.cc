#include "lua/http/server_session.h"

#include <algorithm>
#include <limits>

#include <boost/beast/http/error.hpp>
#include <boost/beast/http/field.hpp>
#include <boost/beast/http/verb.hpp>

#include "absl/status/status.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "lua/http/request_head.h"
#include "lua/http/response_text.h"

namespace moonring::lua {
namespace {

namespace beast_http = boost::beast::http;

constexpr size_t kReadBytes = size_t{16} << 10, kReadBytesOfBody = size_t{256} << 10;
constexpr size_t kBodyProgress = size_t{64} << 10;  // bytes that renew the deadline of a body
constexpr size_t kJoinedBytes = size_t{16} << 10;   // largest body written with its header
constexpr std::chrono::seconds kHalfClosed(2);      // for an answer after the client's last byte
// After the last answer: for the client's next byte, and in all.
constexpr std::chrono::seconds kFarewell(2), kLongestFarewell(30);

// Returns "GET, POST or PUT".
std::string Listed(const std::vector<std::string>& names) {
  std::string text;
  for (size_t i = 0; i < names.size(); ++i) {
    absl::StrAppend(&text, i == 0 ? "" : i + 1 == names.size() ? " or " : ", ", names[i]);
  }
  return text;
}

}  // namespace

size_t ServerSession::ReadSize() const {
  if (state_ == State::kLeaving) return kReadBytesOfBody;
  if (state_ != State::kBody) return kReadBytes;
  const auto left = parser_->content_length_remaining();
  return left ? std::clamp<uint64_t>(*left, kReadBytes, kReadBytesOfBody) : kReadBytesOfBody;
}

void ServerSession::AwaitRequest() {
  state_ = State::kIdle;
  parser_.emplace();
  parser_->header_limit(static_cast<uint32_t>(owner_.options().most_header_bytes));
  parser_->body_limit(std::numeric_limits<uint64_t>::max());  // RefuseHeader has the limit
  header_bytes_ = body_mark_ = 0;
  owner_.SetRank(*this, is_known_ ? SessionOwner::Rank::kKnown : SessionOwner::Rank::kUnknown);
  SetDeadline(owner_.options().silence);
  Parse();
}

// Parses what has come until a request is complete, or more input is needed.
void ServerSession::Parse() {
  while (true) {
    if (state_ == State::kIdle) {
      // Some clients end a body with an empty line that does not belong to it.
      while (input().size() > 0 &&
             absl::StrContains("\r\n", *static_cast<const char*>(input().data().data())))
        input().consume(1);
      if (input().size() > 0) {
        state_ = State::kHeader;
        SetDeadline(owner_.options().silence);
      }
    }
    // The parser needs the last chunk (five bytes) in one piece.
    const size_t needed = state_ == State::kBody && parser_->chunked() ? 5 : 1;
    if (input().size() < needed) break;
    boost::system::error_code error;
    const size_t used = parser_->put(input().data(), error);
    input().consume(used);
    if (state_ == State::kHeader) header_bytes_ += used;
    const size_t open_bytes = input().size() + (state_ == State::kHeader ? header_bytes_ : 0);
    const bool is_long = open_bytes > owner_.options().most_header_bytes;
    if (error == beast_http::error::need_more && !is_long) break;
    if (error) return TakeParseError(error);
    if (state_ == State::kHeader && !TakeHeader()) return;
    if (!CountBody()) return;
    if (parser_->is_done()) return TakeRequest();
  }
  if (input_ended()) return Close();
  ReadMore(ReadSize());
}

void ServerSession::TakeParseError(boost::system::error_code error) {
  const ServerOptions& options = owner_.options();
  if (error == beast_http::error::body_limit) {
    Refuse(413, absl::StrCat("expected a body of at most ", options.most_body_bytes, " bytes"));
  } else if (state_ == State::kHeader &&
             (error == beast_http::error::header_limit || error == beast_http::error::need_more)) {
    Refuse(431, absl::StrCat("expected a header of at most ", options.most_header_bytes, " bytes"));
  } else if (error == beast_http::error::need_more) {
    Refuse(400, "expected a body in chunks, with short headers of the chunks");
  } else {
    Refuse(400, absl::StrCat("expected a request of HTTP/1.1: ", error.message()));
  }
}

// Returns whether the body may be read.
bool ServerSession::TakeHeader() {
  const auto& header = parser_->get();
  is_http_1_1_ = header.version() >= 11;
  sends_body_ = header.method() != beast_http::verb::head;
  absl::StatusOr<ServerRequest> request = ReadRequestHead(header);
  if (!request.ok()) return Refuse(400, std::string(request.status().message())), false;
  request_ = *std::move(request);
  // The body of a refused request is not read, so that it would be parsed as the next request.
  keeps_ = parser_->keep_alive() && parser_->is_done();
  if (auto refusal = owner_.Check(request_)) return WriteAnswer(*std::move(refusal)), false;
  is_known_ = true;
  if (RefuseHeader()) return false;
  keeps_ = parser_->keep_alive();
  AwaitBody();
  return true;
}

bool ServerSession::RefuseHeader() {
  const ServerOptions& options = owner_.options();
  if (std::find(options.methods.begin(), options.methods.end(), request_.method) ==
      options.methods.end()) {
    const std::string methods = Listed(options.methods);
    return Refuse(405, absl::StrCat("expected ", methods),
                  {{"Allow", absl::StrJoin(options.methods, ", ")}}),
           true;
  }
  const auto expectation = request_.headers.find("expect");
  if (expectation != request_.headers.end() &&
      !absl::EqualsIgnoreCase(expectation->second, "100-continue"))
    return Refuse(417, "expected no expectation but 100-continue"), true;
  const uint64_t length = parser_->content_length().value_or(0);
  if (length > options.most_body_bytes)
    return TakeParseError(beast_http::make_error_code(beast_http::error::body_limit)), true;
  if (is_surplus_ && owner_.HasTooMany())
    return Refuse(503, "too many connections at once", {{"Retry-After", "1"}}), true;
  return false;
}

void ServerSession::AwaitBody() {
  state_ = State::kBody;
  owner_.SetRank(*this, SessionOwner::Rank::kBusy);
  parser_->body_limit(owner_.options().most_body_bytes);  // limit of a chunked body
  awaits_permission_ = is_http_1_1_ && request_.headers.count("expect") != 0;
  SetDeadline(owner_.options().silence);
}

// Counts the bytes of the body, all of them at first if the header has their number. Returns false
// if there is no room for them.
bool ServerSession::CountBody() {
  const size_t have = parser_->get().body().size();
  const uint64_t needed = std::max<uint64_t>(have, parser_->content_length().value_or(0));
  if (needed > charged_ && !owner_.Charge(needed - charged_)) {
    Refuse(503, "too many bytes in the bodies of requests that are not answered yet",
           {{"Retry-After", "1"}});
    return false;
  }
  charged_ = needed;
  if (std::exchange(awaits_permission_, false) && !parser_->is_done() && input().size() == 0)
    Write("HTTP/1.1 100 Continue\r\n\r\n");
  if (have >= body_mark_ + kBodyProgress) {
    body_mark_ = have;
    SetDeadline(owner_.options().silence);
  }
  return true;
}

void ServerSession::TakeRequest() {
  state_ = State::kWaiting;
  ClearDeadline();
  request_.body = std::move(parser_->get().body());
  parser_.reset();
  has_left_ = false;
  id_ = request_.id = owner_.Register(*this);
  ShrinkInput();
  ReadMore(ReadSize());  // notices that the client disconnects
  owner_.Handle(std::move(request_));
  if (input_ended()) NoteDeparture();
}

// The client has ended its input. It may have left, or wait for its answer nevertheless.
void ServerSession::NoteDeparture() {
  if (state_ != State::kWaiting && state_ != State::kParts) return;
  if (!std::exchange(has_left_, true)) owner_.Vanished(id_);
  if (state_ == State::kWaiting) SetDeadline(kHalfClosed);
  if (state_ == State::kParts) OnBroken();
}

void ServerSession::Answer(ServerResponse response) {
  if (state_ == State::kWaiting) return WriteAnswer(std::move(response));
  if (state_ == State::kParts) FinishParts();
}

void ServerSession::WriteAnswer(ServerResponse response) {
  state_ = State::kAnswer;
  owner_.SetRank(*this, SessionOwner::Rank::kBusy);
  parser_.reset();
  ReleaseBody();
  const bool has_body = HasBody(response.status);
  ResponseHead head{.status = response.status, .type = response.type, .keeps = keeps_};
  if (has_body) head.length = response.body.size();
  std::string text = HeadText(head, owner_.options().headers, response.headers);
  if (!has_body || !sends_body_) response.body.clear();
  if (response.body.size() <= kJoinedBytes) text += std::exchange(response.body, "");
  Write(std::move(text));
  Write(std::move(response.body));
  SetDeadline(owner_.options().silence);
}

void ServerSession::Refuse(int status, const std::string& why, ServerHeaders headers) {
  keeps_ = false;
  std::optional<ServerResponse> response = JsonRefusal(status, why);
  if (owner_.options().refuse) response = owner_.options().refuse(status, why);
  if (!response.has_value()) return Close();
  response->headers.insert(response->headers.end(), headers.begin(), headers.end());
  WriteAnswer(*std::move(response));
}

void ServerSession::BeginParts(const std::string& type, UnreadBytes unread) {
  if (state_ != State::kWaiting) return;
  state_ = State::kParts;
  ReleaseBody();
  keeps_ = keeps_ && is_http_1_1_;
  Write(HeadText({.type = type, .is_chunked = is_http_1_1_, .keeps = keeps_},
                 owner_.options().headers, {}));
  unread_ = std::move(unread);
  *unread_ += output_bytes();
  SetDeadline(owner_.options().silence);
  if (has_left_) NoteDeparture();
}

void ServerSession::SendPart(absl::string_view part) {
  if (state_ != State::kParts || !sends_body_) return;
  if (output_bytes() == 0) SetDeadline(owner_.options().silence);
  std::string text = is_http_1_1_ ? ChunkText(part) : std::string(part);
  *unread_ += text.size() - part.size();
  Write(std::move(text));
}

void ServerSession::FinishParts() {
  if (state_ != State::kParts) return;
  state_ = State::kAnswer;
  unread_.reset();
  if (is_http_1_1_ && sends_body_) Write(kLastChunk);
  SetDeadline(owner_.options().silence);
  if (output_bytes() == 0) EndAnswer();
}

void ServerSession::OnInput() {
  switch (state_) {
    case State::kIdle:
    case State::kHeader:
    case State::kBody:
      return Parse();
    case State::kWaiting:
    case State::kParts:
    case State::kAnswer:  // requests that the client sends ahead of the answer
      if (input().size() < owner_.options().most_header_bytes) ReadMore(ReadSize());
      return;
    case State::kLeaving:
      input().consume(input().size());
      if (Clock::now() < leaves_until_) SetDeadline(kFarewell);
      ReadMore(ReadSize());
  }
}

void ServerSession::OnInputEnd() {
  if (state_ == State::kWaiting || state_ == State::kParts) return NoteDeparture();
  if (state_ != State::kAnswer) Close();
}

void ServerSession::OnBroken() {
  if (state_ == State::kWaiting || state_ == State::kParts) {
    owner_.Unregister(id_);
    if (!std::exchange(has_left_, true)) owner_.Vanished(id_);
  }
  Close();
}

void ServerSession::OnWritten(size_t bytes) {
  if (unread_ != nullptr) *unread_ -= bytes;
  if (state_ != State::kParts && state_ != State::kAnswer) return;
  if (output_bytes() > 0) return SetDeadline(owner_.options().silence);
  if (state_ == State::kAnswer) return EndAnswer();
  ClearDeadline();
}

void ServerSession::OnDeadline() {
  if (state_ == State::kHeader) {
    Refuse(408, "the header of the request did not come in time");
  } else if (state_ == State::kBody) {
    Refuse(408, "the body of the request did not come in time");
  } else {
    OnBroken();
  }
}

void ServerSession::EndAnswer() {
  if (keeps_ && !closes_soon_) return AwaitRequest();
  Leave();
}

// A socket that is closed with unread input is reset, and the client may then lose the answer.
void ServerSession::Leave() {
  ShutDownOutput();
  if (input_ended()) return Close();
  state_ = State::kLeaving;
  owner_.SetRank(*this, SessionOwner::Rank::kLeaving);
  leaves_until_ = Clock::now() + kLongestFarewell;
  SetDeadline(kFarewell);
  input().consume(input().size());
  ReadMore(ReadSize());
}

void ServerSession::Close() {
  if (is_closed()) return;
  ReleaseBody();
  CloseSocket();
  owner_.Forget(*this);
}

void ServerSession::CloseSoon() {
  closes_soon_ = true;
  if (state_ != State::kAnswer && state_ != State::kLeaving) Close();
}

void ServerSession::ReleaseBody() { owner_.Release(std::exchange(charged_, 0)); }

}  // namespace moonring::lua
