// HttpServer: requests in all forms, answers, and refusals.

#include <atomic>
#include <chrono>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <nlohmann/json.hpp>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "lua/http/server.h"
#include "tests/lua/http/raw_client.h"
#include "tests/lua/http/served.h"
#include "tests/testing/busy_port.h"

namespace moonring::testing {
namespace {

using lua::HttpServer;
using ::testing::HasSubstr;
using ::testing::Not;

// The sentence of a refusal; "" if its body has another form.
std::string DetailOf(const RawAnswer& answer) {
  const nlohmann::json body = nlohmann::json::parse(answer.body, nullptr, false);
  if (!body.is_object() || answer.headers.at("content-type") != "application/json") return "";
  return body.value("detail", "");
}

// Bytes in which each position differs from its neighbours.
std::string Pattern(size_t size) {
  std::string text(size, '\0');
  for (size_t i = 0; i < size; ++i) text[i] = static_cast<char>(i * 31 + (i >> 8) * 7);
  return text;
}

class HttpServerTest : public Served {};

TEST_F(HttpServerTest, KeepsTheConnection) {
  Start();
  RawClient client(port());
  for (int i = 0; i < 3; ++i) {
    const RawAnswer answer =
        client.Ask(GetText("/a%20b+c%2?x=1%262&y=a+b&&z&x=%zz", "X-Thing: 1\r\n"));
    EXPECT_EQ(answer.status, 200);
    EXPECT_EQ(answer.body, "GET /a b+c%2 [x=1&2;y=a b;z=;x=%zz;] ");
    EXPECT_EQ(answer.headers.at("connection"), "keep-alive");
    EXPECT_EQ(answer.headers.at("content-type"), "text/plain");
  }
  EXPECT_EQ(client.Ask("\r\n\r\n" + PostText("/x", "body")).body, "POST /x [] body");
  EXPECT_EQ(client.Ask(PostText("http://other/x?y", "")).body, "POST /x [y=;] ");
  EXPECT_EQ(client.Ask("DELETE / HTTP/1.1\r\nHost: a\r\n\r\n").body, "DELETE / [] ");
  EXPECT_EQ(client.Ask(GetText("/last", "Connection: close\r\n")).headers.at("connection"),
            "close");
  EXPECT_TRUE(client.Ends());
}

TEST_F(HttpServerTest, JoinsHeadersOfOneName) {
  Start();
  RawClient client(port());
  client.Send(GetText("/wait", "X-KEY: a\r\nx-key: b\r\n"));
  const Request request = Next();
  EXPECT_EQ(request.headers.at("x-key"), "a, b");
  EXPECT_EQ(request.headers.at("host"), "localhost");
}

TEST_F(HttpServerTest, ReadsBodiesInChunks) {
  Start();
  RawClient client(port());
  const std::string request =
      "POST /x HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n"
      "4\r\nmoon\r\n5;name=\"value\"\r\nring!\r\n0\r\nTrailer: 1\r\n\r\n";
  EXPECT_EQ(client.Ask(request).body, "POST /x [] moonring!");
  for (const char byte : request) client.Send(std::string(1, byte));
  EXPECT_EQ(client.Read().body, "POST /x [] moonring!");
  // The last chunk alone, in pieces; the permission to send the body comes once.
  client.Send(
      "POST /x HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n"
      "Expect: 100-continue\r\n\r\n");
  EXPECT_EQ(client.Read().status, 100);
  for (const char* piece : {"4", "\r\n", "moon", "\r\n", "0\r\n", "\r"}) {
    client.Send(piece);
    EXPECT_EQ(Ask(GetText("/")).status, 200);  // the piece has come alone
  }
  EXPECT_EQ(client.Ask("\n").body, "POST /x [] moon");
  client.Send("POST /x HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n");
  EXPECT_EQ(Ask(GetText("/")).status, 200);
  client.Send("\r");
  EXPECT_EQ(Ask(GetText("/")).status, 200);
  EXPECT_EQ(client.Ask("\n").body, "POST /x [] ");
  const std::string large = Pattern(3 << 20);
  std::string chunks;
  for (size_t at = 0; at < large.size(); at += 100000) {
    const std::string chunk = large.substr(at, 100000);
    absl::StrAppend(&chunks, absl::Hex(chunk.size()), "\r\n", chunk, "\r\n");
  }
  client.Send("POST /x HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n" + chunks);
  EXPECT_TRUE(client.Ask("0\r\n\r\n").body == "POST /x [] " + large);
}

TEST_F(HttpServerTest, ReadsAndSendsLargeBodies) {
  Start();
  RawClient client(port());
  const std::string large = Pattern(64 << 20);
  const RawAnswer answer = client.Ask(PostText("/", large));
  EXPECT_TRUE(answer.body == "POST / [] " + large) << answer.status << " " << answer.body.size();
  EXPECT_EQ(client.Ask(PostText("/", large + "x")).status, 413);
}

// A client that asks before it sends its body gets the refusal instead of the permission.
TEST_F(HttpServerTest, ReadsABodyAfterTheCheck) {
  std::atomic<int> checks = 0;
  Start({.check = [&](const Request& request) -> std::optional<Response> {
    ++checks;
    EXPECT_EQ(request.body, "");
    if (request.headers.count("x-key") != 0) return std::nullopt;
    return Response{.status = 401, .type = "text/plain", .body = "no key"};
  }});
  const std::string header =
      "POST /x HTTP/1.1\r\nHost: a\r\nContent-Length: 10\r\nExpect: 100-Continue\r\n";
  RawClient refused(port());
  EXPECT_EQ(refused.Ask(header + "\r\n").body, "no key");
  EXPECT_TRUE(refused.Ends());
  RawClient accepted(port());
  EXPECT_EQ(accepted.Ask(header + "X-Key: 1\r\n\r\n").status, 100);
  EXPECT_EQ(accepted.Ask("0123456789").body, "POST /x [] 0123456789");
  // A client that does not wait for the permission gets no interim answer.
  EXPECT_EQ(accepted.Ask(header + "X-Key: 1\r\n\r\n0123456789").status, 200);
  EXPECT_EQ(checks, 3);
  // 64 MiB that are never sent.
  RawClient silent(port());
  EXPECT_EQ(silent.Ask("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 67108864\r\n\r\n").status,
            401);
  // A refused request without a body keeps the connection.
  RawClient kept(port());
  EXPECT_EQ(kept.Ask(GetText("/")).status, 401);
  EXPECT_EQ(kept.Ask(GetText("/", "X-Key: 1\r\n")).status, 200);
}

// The answer to the first request comes last from the test, and first on the connection.
TEST_F(HttpServerTest, AnswersPipelinedRequestsInOrder) {
  Start();
  RawClient client(port());
  client.Send(PostText("/wait/1", "one") + PostText("/2", "two") + PostText("/wait/3", "three"));
  RawClient other(port());
  EXPECT_EQ(other.Ask(GetText("/")).status, 200);
  Request first = Next();
  EXPECT_EQ(first.body, "one");
  server().Reply(first.id, Echo(first));
  EXPECT_EQ(client.Read().body, "POST /wait/1 [] one");
  EXPECT_EQ(client.Read().body, "POST /2 [] two");
  first = Next();
  client.Send(GetText("/4"));
  server().Reply(first.id, Echo(first));
  EXPECT_EQ(client.Read().body, "POST /wait/3 [] three");
  EXPECT_EQ(client.Read().body, "GET /4 [] ");
  // More requests ahead than the server keeps: the rest waits in the kernel.
  std::string many;
  for (int i = 0; i < 5000; ++i) many += GetText("/");
  std::thread sender([&] { client.Send(GetText("/wait/5") + many); });
  server().Reply(Next().id, {.body = "5"});
  EXPECT_EQ(client.Read().body, "5");
  for (int i = 0; i < 5000; ++i) ASSERT_EQ(client.Read().body, "GET / [] ") << i;
  sender.join();
  EXPECT_EQ(Departures(), 0);
}

TEST_F(HttpServerTest, AnswersOlderClients) {
  Start();
  RawClient client(port());
  const RawAnswer answer = client.Ask("GET /old HTTP/1.0\r\n\r\n");
  EXPECT_EQ(answer.body, "GET /old [] ");
  EXPECT_TRUE(client.Ends());
  RawClient kept(port());
  EXPECT_EQ(kept.Ask("GET /old HTTP/1.0\r\nConnection: keep-alive\r\n\r\n").body, "GET /old [] ");
  kept.Send("GET /wait HTTP/1.0\r\nConnection: keep-alive\r\n\r\n");
  const int64_t id = Next().id;
  server().Begin(id, "text/plain");
  EXPECT_TRUE(server().Send(id, "one"));
  EXPECT_TRUE(server().Send(id, "two"));
  server().Finish(id);
  const std::string all = kept.ReadAll();  // its end is the end of the answer
  EXPECT_THAT(all, HasSubstr("\r\n\r\nonetwo"));
  EXPECT_THAT(all, Not(HasSubstr("Transfer-Encoding")));
}

TEST_F(HttpServerTest, AnswersInParts) {
  Start({.headers = {{"X-Always", "1"}}});
  RawClient client(port());
  for (int i = 0; i < 2; ++i) {
    client.Send(GetText("/wait"));
    const int64_t id = Next().id;
    EXPECT_FALSE(server().Send(id, "before Begin"));
    server().Begin(id, "text/event-stream");
    std::string sent;
    for (int part = 0; part < 100; ++part) {
      EXPECT_TRUE(server().Send(id, ""));  // does not end the answer
      const std::string text = absl::StrCat("part ", part, "\n");
      EXPECT_TRUE(server().Send(id, text));
      sent += text;
    }
    server().Finish(id);
    EXPECT_FALSE(server().Send(id, "after Finish"));
    server().Reply(id, {.body = "after Finish"});
    const RawAnswer answer = client.Read();
    EXPECT_EQ(answer.status, 200);
    EXPECT_EQ(answer.body, sent);
    EXPECT_EQ(answer.headers.at("content-type"), "text/event-stream");
    EXPECT_EQ(answer.headers.at("x-always"), "1");
  }
  EXPECT_EQ(client.Ask(GetText("/next")).body, "GET /next [] ");
  server().Begin(1000, "text/plain");  // no such request
  server().Send(1000, "x");
  server().Finish(1000);
  EXPECT_EQ(Departures(), 0);
}

// A client that does not read its answer holds at most most_unread_bytes and what the kernel holds.
TEST_F(HttpServerTest, BoundsPartsThatAreNotRead) {
  Start({.most_unread_bytes = 100000});
  RawClient client(port());
  client.Send(GetText("/wait"));
  const int64_t id = Next().id;
  server().Begin(id, "text/plain");
  EXPECT_FALSE(server().Send(id, std::string(100001, 'x')));
  std::string sent;
  const std::string part = Pattern(50000);
  int refusals = 0;  // the server may need a moment for each part
  while (refusals < 200) {
    if (server().Send(id, part)) {
      sent += part;
      refusals = 0;
      ASSERT_LT(sent.size(), size_t{256} << 20);
    } else {
      ++refusals;
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
  }
  server().Finish(id);
  const RawAnswer answer = client.Read();
  EXPECT_TRUE(answer.body == sent) << answer.body.size() << " of " << sent.size();
}

TEST_F(HttpServerTest, WritesStatusAndHeaders) {
  Start();
  RawClient client(port());
  const auto answered = [&](Response response) {
    client.Send(GetText("/wait"));
    server().Reply(Next().id, std::move(response));
    return client.Read();
  };
  RawAnswer answer = answered({.status = 204});
  EXPECT_EQ(answer.status, 204);
  EXPECT_EQ(answer.headers.count("content-length"), 0);
  EXPECT_EQ(answer.headers.count("content-type"), 0);
  EXPECT_EQ(answered({.status = 304, .body = "dropped"}).headers.count("content-length"), 0);
  answer = answered({.status = 408, .type = "a\r\nX-Evil: 1", .headers = {{"X-A", "b\r\n\r\nc"}}});
  EXPECT_EQ(answer.headers.at("content-type"), "a  X-Evil: 1");
  EXPECT_EQ(answer.headers.at("x-a"), "b    c");
  EXPECT_EQ(answer.headers.at("content-length"), "0");
  EXPECT_EQ(client.Ask(GetText("/")).status, 200);
}

TEST_F(HttpServerTest, AnswersHeadWithoutABody) {
  Start({.methods = {"GET", "HEAD"}});
  RawClient client(port());
  client.Send("HEAD /x HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n");
  const std::string all = client.ReadAll();
  EXPECT_THAT(all, HasSubstr("Content-Length: 11\r\n"));
  EXPECT_EQ(all.substr(all.size() - 4), "\r\n\r\n");
}

TEST_F(HttpServerTest, TurnsExceptionsIntoAnswers) {
  const std::string words = "it is \"broken\"";
  HttpServer* server = nullptr;
  const auto listened =
      HttpServer::Listen({.check = [&](const Request& request) -> std::optional<Response> {
                            if (request.path == "/check") throw std::runtime_error(words);
                            return std::nullopt;
                          },
                          .handle =
                              [&](const Request& request) {
                                if (request.path == "/handle") throw std::runtime_error(words);
                                server->Reply(request.id, {.body = "fine"});
                              }});
  ASSERT_TRUE(listened.ok());
  server = listened->get();
  for (const char* path : {"/check", "/handle"}) {
    const RawAnswer answer = RawClient(server->port()).Ask(GetText(path));
    EXPECT_EQ(answer.status, 500);
    EXPECT_EQ(DetailOf(answer), words);
  }
  EXPECT_EQ(RawClient(server->port()).Ask(GetText("/")).body, "fine");
}

TEST_F(HttpServerTest, RefusesInWords) {
  Start({.most_body_bytes = 1000, .most_header_bytes = 2000});
  const auto refused = [&](const std::string& request, int status, const std::string& words) {
    RawClient client(port());
    const RawAnswer answer = client.Ask(request);
    EXPECT_EQ(answer.status, status) << request.substr(0, 200);
    EXPECT_THAT(DetailOf(answer), HasSubstr(words)) << request.substr(0, 200);
    EXPECT_EQ(answer.headers.at("connection"), "close");
    EXPECT_TRUE(client.Ends());
    return answer;
  };
  const std::string post = "POST / HTTP/1.1\r\nHost: a\r\n", chunked = "Transfer-Encoding: chunked";
  const std::string get = "GET / HTTP/1.1\r\nHost: a\r\n";
  refused(GetText("/", "X-Long: " + std::string(2000, 'x') + "\r\n"), 431,
          "expected a header of at most 2000 bytes");
  refused(GetText("/" + std::string(100000, 'x')), 431, "expected a header of at most 2000 bytes");
  refused(std::string(3000, 'x'), 431, "expected a header of at most 2000 bytes");
  refused(PostText("/", std::string(1001, 'x')), 413, "expected a body of at most 1000 bytes");
  refused(post + "Content-Length: 18446744073709551615\r\n\r\n", 413, "at most 1000 bytes");
  refused(post + chunked + "\r\n\r\n3e9\r\n", 413, "at most 1000 bytes");
  refused(post + chunked + "\r\n\r\n3e8\r\n" + std::string(1000, 'x') + "\r\n1\r\n", 413,
          "at most 1000 bytes");
  refused(post + chunked + "\r\n\r\nffffffffffffffff\r\n", 413, "at most 1000 bytes");
  refused(post + chunked + "\r\n\r\n1ffffffffffffffff\r\n", 400, "HTTP/1.1");
  refused(post + chunked + "\r\n\r\n1;x=" + std::string(3000, 'x'), 400, "short headers");
  refused(post + chunked + "\r\n\r\n0\r\nX: " + std::string(3000, 'x'), 400, "short headers");
  refused(post + chunked + "\r\n\r\nmoon\r\n", 400, "HTTP/1.1");
  refused(post + "Transfer-Encoding: gzip, chunked\r\n\r\n", 400, "coding chunked, or none");
  refused(post + "Transfer-Encoding: gzip\r\n\r\n", 400, "coding chunked, or none");
  refused(post + chunked + "\r\nContent-Length: 3\r\n\r\n", 400, "HTTP/1.1");
  refused(post + "Content-Length: 3\r\nContent-Length: 4\r\n\r\n", 400, "HTTP/1.1");
  refused(post + "Content-Length: -3\r\n\r\n", 400, "HTTP/1.1");
  refused(post + "Content-Length: moon\r\n\r\n", 400, "HTTP/1.1");
  refused(post + "Expect: tea\r\nContent-Length: 3\r\n\r\n", 417, "100-continue");
  refused(get + "Host: b\r\n\r\n", 400, "expected one Host header");
  refused(get + "X Y: b\r\n\r\n", 400, "HTTP/1.1");
  refused("GET  / HTTP/1.1\r\n\r\n", 400, "HTTP/1.1");
  refused("GET / HTTP/2.0\r\n\r\n", 400, "HTTP/1.1");
  refused("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", 400, "HTTP/1.1");
  refused("GET moon HTTP/1.1\r\n\r\n", 400, "begins with '/'");
  refused("GET /a%00b HTTP/1.1\r\n\r\n", 400, "without control characters");
  refused("\x16\x03\x01\x02", 400, "HTTP/1.1");  // a client that expects https
  refused("GET / HTTP/1.1\nHost: a\n\n", 400, "HTTP/1.1");
  const RawAnswer answer =
      refused("PATCH / HTTP/1.1\r\n\r\n", 405, "expected GET, POST, PUT or DELETE");
  EXPECT_EQ(answer.headers.at("allow"), "GET, POST, PUT, DELETE");
  refused("OPTIONS * HTTP/1.1\r\n\r\n", 400, "begins with '/'");
  EXPECT_EQ(Ask(PostText("/", std::string(1000, 'x'))).status, 200);
}

// A header may come line by line.
TEST_F(HttpServerTest, BoundsAHeaderInPieces) {
  Start({.most_header_bytes = 2000});
  RawClient client(port());
  client.Send("GET / HTTP/1.1\r\n");
  for (int i = 0; i < 100; ++i) client.Send("X-Name: twenty bytes\r\n");
  EXPECT_EQ(client.Read().status, 431);
  RawClient other(port());
  other.Send("GET / HTTP/1.1\r\n");
  for (int i = 0; i < 50; ++i) {
    other.Send("X-Name: twenty bytes\r\n");
    if (i % 10 != 0) continue;
    EXPECT_EQ(Ask(GetText("/")).status, 200);  // the line has come alone
  }
  EXPECT_EQ(other.Ask("\r\n").status, 200);
}

TEST_F(HttpServerTest, FormatsRefusalsAsItsOwnerWants) {
  Start({.refuse = [](int status, const std::string& why) -> std::optional<Response> {
    if (status == 400) return std::nullopt;
    return Response{.status = status, .type = "text/plain", .body = why + "!"};
  }});
  EXPECT_EQ(Ask("PATCH / HTTP/1.1\r\n\r\n").body, "expected GET, POST, PUT or DELETE!");
  RawClient client(port());
  client.Send("moon\r\n\r\n");
  EXPECT_TRUE(client.Ends());
}

TEST_F(HttpServerTest, ListensOrSaysWhyNot) {
  const BusyPort busy;
  const auto handle = [](const Request&) {};
  const auto why = [&](Options options) {
    options.handle = handle;
    return HttpServer::Listen(std::move(options)).status();
  };
  EXPECT_EQ(why({.port = std::stoi(busy.port())}).code(), absl::StatusCode::kUnavailable);
  EXPECT_THAT(why({.port = std::stoi(busy.port())}).message(), HasSubstr("port " + busy.port()));
  EXPECT_THAT(why({.host = "moon"}).message(), HasSubstr("an IP address or localhost, got 'moon'"));
  EXPECT_THAT(why({.port = 70000}).message(), HasSubstr("expected 0 to 65535, got 70000"));
  EXPECT_THAT(why({.most_body_bytes = 10, .most_waiting_bytes = 9}).message(),
              HasSubstr("at least most_body_bytes, 10, got 9"));
  EXPECT_TRUE(why({.host = "localhost"}).ok());
  EXPECT_TRUE(why({.host = "0.0.0.0"}).ok());
  EXPECT_THAT(HttpServer::Listen({}).status().message(), HasSubstr("handle"));
}

}  // namespace
}  // namespace moonring::testing
