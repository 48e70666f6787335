// HttpServer: many connections, clients that leave or are slow, limits, and the end of the server.

#include <atomic>
#include <chrono>
#include <future>
#include <memory>
#include <optional>
#include <random>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/lua/http/raw_client.h"
#include "tests/lua/http/served.h"

namespace moonring::testing {
namespace {

using ::testing::HasSubstr;

using Clients = std::vector<std::unique_ptr<RawClient>>;

class HttpServerConnectionsTest : public Served {
 protected:
  Clients Connect(int count) const {
    Clients clients;
    for (int i = 0; i < count; ++i) clients.push_back(std::make_unique<RawClient>(port()));
    return clients;
  }
  // Returns a client whose request waits, and its id.
  std::pair<std::unique_ptr<RawClient>, int64_t> Wait(const std::string& request) {
    auto client = std::make_unique<RawClient>(port());
    client->Send(request);
    return {std::move(client), Next().id};
  }
};

// Requests that wait do not delay others, and several threads answer them.
TEST_F(HttpServerConnectionsTest, AnswersTwoHundredRequestsThatWait) {
  constexpr int kCount = 200, kThreads = 4;
  Start();
  const Clients clients = Connect(kCount);
  for (int i = 0; i < kCount; ++i)
    clients[i]->Send(PostText(absl::StrCat("/wait/", i), absl::StrCat("body ", i)));
  std::vector<Request> requests;
  RawClient quick(port());
  for (int i = 0; i < kCount; ++i) {
    requests.push_back(Next());
    ASSERT_EQ(quick.Ask(GetText("/quick")).body, "GET /quick [] ");
  }
  std::vector<std::thread> threads;
  for (int t = 0; t < kThreads; ++t) {
    threads.emplace_back([&, t] {
      for (int i = t; i < kCount; i += kThreads) {
        server().Reply(requests[i].id, Echo(requests[i]));
        server().Reply(requests[i].id, {.body = "a second answer"});
      }
    });
  }
  for (int i = 0; i < kCount; ++i)
    EXPECT_EQ(clients[i]->Read().body, absl::StrCat("POST /wait/", i, " [] body ", i));
  for (std::thread& thread : threads) thread.join();
  for (int i = 0; i < kCount; ++i)  // nobody got an answer of somebody else
    EXPECT_EQ(clients[i]->Ask(PostText("/", absl::StrCat(i))).body, absl::StrCat("POST / [] ", i));
  EXPECT_EQ(Departures(), 0);
}

TEST_F(HttpServerConnectionsTest, NoticesClientsThatLeave) {
  Start();
  auto [closed, closed_id] = Wait(GetText("/wait/closed"));
  auto [reset, reset_id] = Wait(GetText("/wait/reset"));
  auto [streamed, streamed_id] = Wait(GetText("/wait/streamed"));
  // The bytes of a further request do not hide the end of the connection.
  auto [ahead, ahead_id] = Wait(GetText("/wait/ahead") + GetText("/wait/never"));
  auto [stays, stays_id] = Wait(GetText("/wait/stays"));
  server().Begin(streamed_id, "text/plain");
  EXPECT_TRUE(server().Send(streamed_id, "part"));
  closed->Close();
  reset->Reset();
  streamed->Close();
  ahead->Close();
  EXPECT_THAT(Vanished(4),
              ::testing::UnorderedElementsAre(closed_id, reset_id, streamed_id, ahead_id));
  EXPECT_FALSE(server().Send(streamed_id, "part"));
  server().Finish(streamed_id);
  for (const int64_t id : {closed_id, reset_id, streamed_id})
    server().Reply(id, {.body = std::string(1 << 20, 'x')});
  server().Begin(reset_id, "text/plain");
  server().Reply(stays_id, {.body = "still here"});
  EXPECT_EQ(stays->Read().body, "still here");
  EXPECT_EQ(Departures(), 4);  // once each
}

// A client may leave in the middle of a body or of a large answer; it has no request that waits.
TEST_F(HttpServerConnectionsTest, SurvivesClientsThatLeaveInBetween) {
  Start();
  for (int i = 0; i < 20; ++i) {
    RawClient uploads(port());
    uploads.Send("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 60000000\r\n\r\nbody");
    auto [downloads, id] = Wait(GetText("/wait"));
    server().Reply(id, {.body = std::string(16 << 20, 'x')});
    if (i % 2 == 0) {
      uploads.Reset();
      downloads->Reset();
    }
  }
  EXPECT_EQ(Ask(GetText("/")).status, 200);
  EXPECT_EQ(Departures(), 0);
}

// A client that has shut down its sending side and waits gets the answers that come at once.
TEST_F(HttpServerConnectionsTest, AnswersHalfClosedConnections) {
  Start();
  RawClient client(port());
  client.Send(PostText("/1", "a") + PostText("/2", "b"));
  client.ShutDownOutput();
  EXPECT_EQ(client.Read().body, "POST /1 [] a");
  EXPECT_EQ(client.Read().body, "POST /2 [] b");
  EXPECT_TRUE(client.Ends());
  auto [waits, id] = Wait(GetText("/wait"));
  waits->ShutDownOutput();
  EXPECT_EQ(Vanished(1).count(id), 1);
  server().Reply(id, {.body = "late"});
  const RawAnswer answer = waits->Read();  // none where this machine slept for two seconds
  EXPECT_EQ(answer.body, answer.status == 0 ? "" : "late");
}

// All clients at once, because each one needs more than a second.
TEST_F(HttpServerConnectionsTest, BoundsTheTimeOfSlowClients) {
  Start({.silence = std::chrono::seconds(1)});
  auto [waits, id] = Wait(GetText("/wait"));
  RawClient silent(port()), header(port()), body(port()), chunk(port()), idle(port()), busy(port());
  header.Send("GET / HTTP/1.1\r\nHo");
  body.Send("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 10\r\n\r\n01234");
  chunk.Send("POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n5\r\n01234\r\n");
  EXPECT_EQ(idle.Ask(GetText("/")).status, 200);
  // One byte after another does not extend the time of a header.
  std::atomic<bool> is_over = false;
  std::thread drips([&] {
    busy.Send("GET / HTTP/1.1\r\nX: ");
    while (!is_over && busy.Send("x")) std::this_thread::sleep_for(std::chrono::milliseconds(20));
  });
  EXPECT_EQ(header.Read().status, 408);
  EXPECT_EQ(body.Read().status, 408);
  EXPECT_THAT(chunk.Read().body, HasSubstr("{\"detail\":\"the body of the request did not"));
  const RawAnswer dripped = busy.Read();
  is_over = true;
  drips.join();
  EXPECT_EQ(dripped.status, 408);
  EXPECT_TRUE(silent.Ends());
  EXPECT_TRUE(idle.Ends());
  EXPECT_EQ(Departures(), 0);
  server().Reply(id, {.body = "after more than a second"});
  EXPECT_EQ(waits->Read().body, "after more than a second");
}

TEST_F(HttpServerConnectionsTest, ClosesClientsThatDoNotRead) {
  Start({.silence = std::chrono::seconds(1)});
  auto [parts, parts_id] = Wait(GetText("/wait"));
  auto [whole, whole_id] = Wait(GetText("/wait"));
  server().Reply(whole_id, {.body = std::string(64 << 20, 'x')});
  server().Begin(parts_id, "text/plain");
  const std::string part(500000, 'x');
  while (Departures() == 0) {
    server().Send(parts_id, part);
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  EXPECT_EQ(Vanished(1).count(parts_id), 1);
  EXPECT_FALSE(server().Send(parts_id, "x"));
  EXPECT_EQ(Ask(GetText("/")).status, 200);
}

TEST_F(HttpServerConnectionsTest, ClosesIdleConnectionsForNewOnes) {
  Start({.most_connections = 4, .check = [](const Request& request) -> std::optional<Response> {
           if (request.headers.count("x-key") != 0) return std::nullopt;
           return Response{.status = 401};
         }});
  const std::string key = "X-Key: 1\r\n";
  RawClient known(port()), unknown(port());
  EXPECT_EQ(known.Ask(GetText("/", key)).status, 200);
  EXPECT_EQ(unknown.Ask(GetText("/")).status, 401);
  auto [first, first_id] = Wait(GetText("/wait", key));
  auto [second, second_id] = Wait(GetText("/wait", key));
  // The oldest one that has not shown the key leaves first, then the oldest one that waits.
  RawClient third(port());
  EXPECT_EQ(third.Ask(GetText("/", key)).status, 200);
  EXPECT_TRUE(unknown.Ends());
  EXPECT_EQ(known.Ask(GetText("/", key)).status, 200);
  RawClient fourth(port());
  EXPECT_EQ(fourth.Ask(GetText("/", key)).status, 200);
  EXPECT_TRUE(third.Ends());
  const Clients silent = Connect(100);
  RawClient fifth(port());
  EXPECT_EQ(fifth.Ask(GetText("/", key)).status, 200);
  // Requests that wait are not closed. If all wait, a new request is refused in words.
  for (const auto& client : silent) client->Close();
  fifth.Close();
  auto [sixth, sixth_id] = Wait(GetText("/wait", key));
  auto [seventh, seventh_id] = Wait(GetText("/wait", key));
  RawClient eighth(port());
  const RawAnswer refused = eighth.Ask(GetText("/", key));
  EXPECT_EQ(refused.status, 503);
  EXPECT_EQ(refused.headers.at("retry-after"), "1");
  EXPECT_EQ(refused.body, "{\"detail\":\"too many connections at once\"}");
  EXPECT_EQ(Ask(GetText("/")).status, 401);
  server().Reply(first_id, {.body = "first"});
  server().Reply(second_id, {.body = "second"});
  EXPECT_EQ(first->Read().body, "first");
  EXPECT_EQ(second->Read().body, "second");
  EXPECT_EQ(Ask(GetText("/", key)).status, 200);
  server().Reply(sixth_id, {.body = "sixth"});
  EXPECT_EQ(sixth->Read().body, "sixth");
  EXPECT_EQ(Departures(), 0);
}

TEST_F(HttpServerConnectionsTest, BoundsTheBytesOfAllBodies) {
  Start({.most_body_bytes = 1000, .most_waiting_bytes = 2500});
  const std::string body(1000, 'x');
  auto [first, first_id] = Wait(PostText("/wait", body));
  auto [second, second_id] = Wait(PostText("/wait", body));
  const auto is_refused = [&](const std::string& request) {
    const RawAnswer answer = Ask(request);
    EXPECT_THAT(answer.body, HasSubstr(answer.status == 503 ? "too many bytes" : ""));
    return answer.status == 503 && answer.headers.at("retry-after") == "1";
  };
  const std::string chunked =
      absl::StrCat("POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n3e8\r\n", body,
                   "\r\n0\r\n\r\n");
  EXPECT_TRUE(is_refused(PostText("/", body)));
  EXPECT_TRUE(is_refused("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 501\r\n\r\n"));
  EXPECT_TRUE(is_refused(chunked));
  EXPECT_FALSE(is_refused(PostText("/", body.substr(0, 500))));
  EXPECT_FALSE(is_refused(GetText("/")));
  // An answer, the beginning of one in parts, and the end of a connection make room.
  server().Reply(first_id, {.body = "first"});
  EXPECT_EQ(first->Read().body, "first");
  EXPECT_FALSE(is_refused(PostText("/", body)));
  EXPECT_FALSE(is_refused(chunked));
  auto [third, third_id] = Wait(PostText("/wait", body));
  EXPECT_TRUE(is_refused(PostText("/", body)));
  server().Begin(second_id, "text/plain");
  auto [fourth, fourth_id] = Wait(PostText("/wait", body));
  EXPECT_TRUE(is_refused(PostText("/", body)));
  third->Reset();
  Vanished(1);
  EXPECT_FALSE(is_refused(PostText("/", body)));
}

TEST_F(HttpServerConnectionsTest, CallsFunctionsOnItsThread) {
  Start();
  std::promise<std::string> done;
  std::string order;  // all on one thread
  const auto add = [&](const char* what) { return [&order, what] { order += what; }; };
  server().Post(add("a"));
  server().Post([&] {
    server().Post(add("c"));
    server().After(std::chrono::milliseconds(1), [&] { done.set_value(order + "d"); });
    order += "b";
  });
  EXPECT_EQ(done.get_future().get(), "abcd");
  server().After(std::chrono::hours(1), [] { FAIL() << "called by the destructor"; });
}

// Everything that may be open when a server ends.
TEST_F(HttpServerConnectionsTest, EndsWithOpenConnections) {
  Start();
  const Clients idle = Connect(20);
  RawClient kept(port()), partial(port()), uploads(port());
  EXPECT_EQ(kept.Ask(GetText("/")).status, 200);
  partial.Send("GET / HT");
  uploads.Send("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 1000\r\n\r\nbody");
  auto [waits, waits_id] = Wait(GetText("/wait"));
  auto [parts, parts_id] = Wait(GetText("/wait"));
  auto [unread, unread_id] = Wait(GetText("/wait"));
  auto [answered, answered_id] = Wait(GetText("/wait"));
  server().Begin(parts_id, "text/plain");
  server().Send(parts_id, "part");
  // An answer that is not read delays the end for the second in which the others still answer.
  server().Reply(unread_id, {.body = std::string(64 << 20, 'x')});
  std::atomic<bool> is_over = false;
  std::vector<std::thread> threads;
  for (int t = 0; t < 3; ++t) {
    threads.emplace_back([&] {
      for (int64_t id = 0; !is_over; id = (id + 1) % 10) {
        if (id == answered_id) continue;
        server().Reply(id, {.body = "from another thread"});
        server().Begin(id, "text/plain");
        server().Send(id, "part");
        server().Finish(id);
        server().Post([] {});
        server().After(std::chrono::milliseconds(1), [] {});
        std::this_thread::sleep_for(std::chrono::milliseconds(1));
      }
    });
  }
  threads.emplace_back([&] {
    std::this_thread::sleep_for(std::chrono::milliseconds(300));
    is_over = true;
  });
  server().Reply(answered_id, {.body = "given before the end"});
  Stop();
  EXPECT_EQ(answered->Read().body, "given before the end");
  is_over = true;
  for (std::thread& thread : threads) thread.join();
  for (const auto& client : idle) EXPECT_TRUE(client->Ends());
  EXPECT_TRUE(partial.Ends());
  EXPECT_TRUE(kept.Ends());
  server().Reply(waits_id, {.body = "after the end"});
  server().Post([] { FAIL() << "called after the end"; });
}

TEST_F(HttpServerConnectionsTest, EndsAtOnceIfNothingIsToBeSent) {
  for (int i = 0; i < 50; ++i) {
    Start();
    RawClient client(port());
    if (i % 2 == 0) client.Send(GetText("/wait"));
    Stop();
    EXPECT_TRUE(client.Ends());
  }
}

// Random changes of valid requests: each one is answered or its connection is closed, and the
// server still answers.
TEST_F(HttpServerConnectionsTest, SurvivesBrokenRequests) {
  Start({.most_body_bytes = 1000, .silence = std::chrono::seconds(1)});
  const std::string chunked =
      "POST /x?y=%41 HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\nExpect: "
      "100-continue\r\n\r\n4\r\nmoon\r\n4;a=b\r\nring\r\n0\r\nA: b\r\n\r\n";
  const std::vector<std::string> valid = {chunked, PostText("/", "body", "Connection: close\r\n"),
                                          GetText("/a?b=c&d", "Cookie: a\r\n b\r\n")};
  std::mt19937 random(7);
  const auto below = [&](size_t bound) { return random() % bound; };
  Clients clients;
  for (int i = 0; i < 400; ++i) {
    std::string text = valid[below(valid.size())];
    for (size_t change = 1 + below(4); change > 0; --change) {
      const size_t at = below(text.size());
      switch (below(4)) {
        case 0:
          text[at] = static_cast<char>(random());
          break;
        case 1:
          text.erase(at, 1 + below(8));
          break;
        case 2:
          text.insert(at, text.substr(below(text.size()), 1 + below(20)));
          break;
        default:
          text.insert(at, std::string(1, "\r\n\0:;, %09f"[below(12)]));
          break;
      }
      if (text.empty()) text = "x";
    }
    clients.push_back(std::make_unique<RawClient>(port()));
    clients.back()->Send(text);
    clients.back()->ShutDownOutput();
  }
  int refusals = 0;
  for (const auto& client : clients) {
    const std::string all = client->ReadAll();
    EXPECT_TRUE(all.empty() || absl::StartsWith(all, "HTTP/1.1 ")) << all;
    if (absl::StartsWith(all, "HTTP/1.1 4")) {
      ++refusals;
      EXPECT_THAT(all, HasSubstr("\r\n\r\n{\"detail\":\"expected"));
    }
  }
  EXPECT_GT(refusals, 50);
  EXPECT_EQ(Ask(GetText("/")).status, 200);
}

}  // namespace
}  // namespace moonring::testing
