// Other programs on the same machine try to connect to a run's ranks: which sockets they can reach,
// and that the run is not affected.

#include <arpa/inet.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <chrono>
#include <filesystem>
#include <fstream>
#include <map>
#include <memory>
#include <set>
#include <sstream>
#include <string>
#include <thread>
#include <vector>

#include <torch/csrc/distributed/c10d/TCPStore.hpp>

#include "comm/listening_sockets.h"
#include "tests/scripts/workplace.h"
#include "tests/testing/busy_port.h"

namespace moonring::testing {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Ne;
using ::testing::Not;

// Connects the ranks, works until a file "go" exists, and prints the sum over all ranks.
constexpr char kMeet[] = R"lua(
  local moonring = require "moonring"
  local mesh = moonring.comm.mesh { deadline = 120 }
  local rounds = 0
  io.stderr:write(("rank %d has met\n"):format(mesh:rank()))
  repeat
    local file = io.open "go"
    rounds = rounds + 1
  until mesh:sum(file and 1 or 0) > 0
  io.stderr:write(("sum %d\n"):format(mesh:sum(mesh:rank() + 1)))
)lua";

struct Listener {
  uint32_t address;  // as the network has it
  int port;
};

// Returns the listening TCP sockets of a process, on IPv4 and (with address 0) on IPv6.
std::vector<Listener> ListenersOf(pid_t pid) {
  const std::string process = "/proc/" + std::to_string(pid);
  std::set<std::string> own;
  for (const auto& entry : std::filesystem::directory_iterator(process + "/fd")) {
    std::error_code gone;
    const std::string target = std::filesystem::read_symlink(entry.path(), gone).string();
    if (target.rfind("socket:[", 0) == 0) own.insert(target.substr(8, target.size() - 9));
  }
  std::vector<Listener> listeners;
  for (const char* table : {"/net/tcp", "/net/tcp6"}) {
    std::ifstream lines(process + table);
    for (std::string line; std::getline(lines, line);) {
      std::istringstream fields(line);
      std::string number, local, remote, state, skip, inode;
      fields >> number >> local >> remote >> state >> skip >> skip >> skip >> skip >> skip >> inode;
      if (state != "0A" || !own.contains(inode)) continue;
      const bool narrow = local.size() == 13;
      listeners.push_back(
          {narrow ? static_cast<uint32_t>(std::stoul(local.substr(0, 8), nullptr, 16)) : 0,
           std::stoi(local.substr(local.rfind(':') + 1), nullptr, 16)});
    }
  }
  return listeners;
}

// Returns whether a connection is accepted within a moment. (On loopback that happens immediately
// or never.)
bool LetsIn(const Listener& listener) {
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(static_cast<uint16_t>(listener.port));
  address.sin_addr.s_addr = listener.address;
  const int caller = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
  const int begun = connect(caller, reinterpret_cast<sockaddr*>(&address), sizeof address);
  pollfd made{caller, POLLOUT, 0};
  const bool in = begun == 0 || (poll(&made, 1, 300) == 1 && (made.revents & POLLERR) == 0);
  close(caller);
  return in;
}

// Returns whether the socket finally rejects connections. (It is open for a moment while a group is
// created.)
bool Shuts(const Listener& listener) {
  for (int tries = 0; tries < 1000; ++tries) {
    if (!LetsIn(listener)) return true;
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
  }
  return false;
}

// Returns the address of the first interface that is up and not loopback, or "".
std::string FirstInterface() {
  ifaddrs* all = nullptr;
  EXPECT_EQ(getifaddrs(&all), 0);
  char text[INET_ADDRSTRLEN] = "";
  for (const ifaddrs* each = all; each != nullptr && *text == '\0'; each = each->ifa_next) {
    constexpr unsigned kUp = IFF_UP | IFF_RUNNING;
    if (each->ifa_addr == nullptr || each->ifa_addr->sa_family != AF_INET ||
        (each->ifa_flags & (kUp | IFF_LOOPBACK)) != kUp) {
      continue;
    }
    inet_ntop(AF_INET, &reinterpret_cast<const sockaddr_in*>(each->ifa_addr)->sin_addr, text,
              sizeof text);
  }
  freeifaddrs(all);
  return text;
}

class RendezvousTest : public Workplace {
 protected:
  RendezvousTest() { Write("meet.lua", kMeet); }

  using Environment = std::map<std::string, std::string>;

  // Starts ranks without a launcher; a rank's variables in `of_rank` take precedence.
  std::vector<std::unique_ptr<Command>> Start(const std::string& address,
                                              const std::vector<Environment>& of_rank) const {
    std::vector<std::unique_ptr<Command>> ranks;
    for (size_t rank = 0; rank < of_rank.size(); ++rank) {
      CommandOptions options = Options({"meet.lua"});
      options.environment.merge(Environment(of_rank[rank]));
      options.environment.merge(Environment{{"RANK", std::to_string(rank)},
                                            {"WORLD_SIZE", std::to_string(of_rank.size())},
                                            {"MASTER_ADDR", address},
                                            {"MASTER_PORT", port_}});
      ranks.push_back(std::make_unique<Command>(options));
    }
    return ranks;
  }
  void Go() const { Write("go", ""); }
  void ExpectTheyEndWell(const std::vector<std::unique_ptr<Command>>& ranks) const {
    Go();
    for (const auto& rank : ranks) {
      const CommandResult result = rank->Wait();
      EXPECT_THAT(result, Succeeds());
      EXPECT_THAT(result.err, HasSubstr("sum 3"));
    }
  }
  // Checks that connected ranks are not affected by what the test has done.
  void ExpectTheyResume(const std::vector<std::unique_ptr<Command>>& ranks) const {
    std::this_thread::sleep_for(std::chrono::seconds(1));  // some beats, at each of which they look
    ExpectTheyEndWell(ranks);
  }

  // Serves the store as torchrun does, for ranks with TORCHELASTIC_USE_AGENT_STORE=True. (The ranks
  // retry until they reach it.)
  c10::intrusive_ptr<c10d::TCPStore> ServeStore() const {
    c10d::TCPStoreOptions options;
    options.port = static_cast<uint16_t>(std::stoi(port_));
    options.isServer = true;
    options.waitWorkers = false;
    return c10::make_intrusive<c10d::TCPStore>("127.0.0.1", options);
  }

  // The addresses on which rank 0 listens, after two ranks have connected, for the store and for
  // Gloo.
  struct Places {
    std::vector<uint32_t> store, ranks;
  };
  Places MeetAndEnd(const std::string& address, const std::vector<Environment>& of_rank) const {
    std::filesystem::remove(Path("go"));
    const auto ranks = Start(address, of_rank);
    Places places;
    for (const auto& rank : ranks) {
      if (rank->WaitForOutput("has met")) continue;
      ADD_FAILURE() << rank->Wait().Describe();
      return places;
    }
    for (const Listener& listener : ListenersOf(ranks[0]->pid())) {
      const bool of_store = std::to_string(listener.port) == port_;
      (of_store ? places.store : places.ranks).push_back(listener.address);
    }
    ExpectTheyEndWell(ranks);
    return places;
  }

  const std::string port_ = FreePort();
};

TEST_F(RendezvousTest, TheLaunchersRanksHaveNoPortThatAnybodyGetsInto) {
  const BusyPort busy;
  CommandOptions options = Options({"-n", "3", "meet.lua"});
  // These variables are another run's; the launcher must ignore them.
  options.environment.merge(Environment{{"MASTER_ADDR", "0.0.0.0"}, {"MASTER_PORT", busy.port()}});
  Command command(options);
  ASSERT_TRUE(command.WaitForOutput("rank 0 has met"));
  const std::vector<pid_t> ranks = command.Children();
  ASSERT_EQ(ranks.size(), 3u);
  const int any = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  const bool shuts = comm::ShutDoor(any);  // else this kernel cannot
  close(any);
  for (const pid_t rank : ranks) {
    for (const Listener& listener : ListenersOf(rank)) {
      EXPECT_EQ(listener.address, htonl(INADDR_LOOPBACK)) << listener.port;
      if (shuts) {
        EXPECT_TRUE(Shuts(listener)) << listener.port;
      }
    }
  }
  Go();
  const CommandResult result = command.Wait();
  EXPECT_THAT(result, Succeeds());
  EXPECT_THAT(result.err, HasSubstr("[rank 2] sum 6"));
}

// Another program connects to the store: it can read and write there, but ranks ignore its values,
// which are not signed.
TEST_F(RendezvousTest, WhatIsNotSignedDoesNotCount) {
  const Environment token = {{"MOONRING_TOKEN", "0123456789abcdef"}};
  const auto ranks = Start("127.0.0.1", {token, token});
  for (const auto& rank : ranks) ASSERT_TRUE(rank->WaitForOutput("has met"));
  c10d::TCPStoreOptions to_store;
  to_store.port = static_cast<uint16_t>(std::stoi(port_));
  const auto store = c10::make_intrusive<c10d::TCPStore>("127.0.0.1", to_store);
  const auto set = [&](const std::string& key, const std::string& value) {
    ASSERT_TRUE(store->check({key}) || key == "moonring/live/failed" ||
                key == "moonring/live/left/1")
        << key;
    store->c10d::Store::set(key, value);
  };
  set("moonring/process of rank 0", "another");
  set("moonring/join the world/1", "127.0.0.1");
  set("moonring/live/left/1", "1");
  set("moonring/live/failed", "rank 1 has failed: says another");
  ExpectTheyResume(ranks);
}

// The store exists longer than the ranks, so each rank finds what the other has written, however
// late it reads.
TEST_F(RendezvousTest, ARankWithoutTheTokenIsRefused) {
  Environment one = {{"TORCHELASTIC_USE_AGENT_STORE", "True"}}, two = one;
  one["MOONRING_TOKEN"] = "one";
  two["MOONRING_TOKEN"] = "two";
  const auto ranks = Start("127.0.0.1", {one, two});
  const auto store = ServeStore();
  for (const auto& rank : ranks) {
    const CommandResult result = rank->Wait();
    EXPECT_EQ(result.exit_code, 2) << result.Describe();
    EXPECT_THAT(result.err, Not(HasSubstr("has met")));
    EXPECT_THAT(result.err, HasSubstr("is not signed with this rank's MOONRING_TOKEN"));
  }
  CommandOptions options = Options({"meet.lua"});
  options.environment.merge(Environment{{"RANK", "0"},
                                        {"WORLD_SIZE", "2"},
                                        {"MASTER_ADDR", "127.0.0.1"},
                                        {"MASTER_PORT", port_},
                                        {"MOONRING_TOKEN", ""}});
  EXPECT_THAT(RunMoonring(options), FailsWith(2, HasSubstr("MOONRING_TOKEN is set, but empty")));
}

// With torchrun's own store every rank is a client, and signs what it writes.
TEST_F(RendezvousTest, TheStoreOfTorchrunCanHaveAToken) {
  const Environment environment = {{"TORCHELASTIC_USE_AGENT_STORE", "True"},
                                   {"MOONRING_TOKEN", "0123456789abcdef"}};
  const auto ranks = Start("127.0.0.1", {environment, environment});
  const auto store = ServeStore();
  for (const auto& rank : ranks)
    ASSERT_TRUE(rank->WaitForOutput("has met")) << rank->Wait().Describe();
  for (const auto& rank : ranks) {
    for (const Listener& listener : ListenersOf(rank->pid()))
      EXPECT_NE(std::to_string(listener.port), port_);
  }
  for (const char* key : {"moonring/join the world/0", "moonring/join the world/1"})
    EXPECT_THAT(store->get_to_str(key), HasSubstr(" [signed "));
  store->c10d::Store::set("moonring/live/failed", "rank 1 has failed: says another");
  ExpectTheyResume(ranks);
}

// A script starts other processes before its ranks are connected; they inherit no sockets.
TEST_F(RendezvousTest, TheLaunchersSocketsAreNotInherited) {
  Write("starts.lua", R"lua(
    for number in os.getenv "MOONRING_STORE":gmatch "%d+" do
      local shell = io.popen("readlink /proc/self/fd/" .. number)
      io.stderr:write(("inherits '%s'\n"):format(shell:read "*a"))
      shell:close()
    end
    require "moonring".comm.mesh { deadline = 120 }:barrier()
  )lua");
  const CommandResult result = Run({"-n", "2", "starts.lua"});
  EXPECT_THAT(result, Succeeds());
  EXPECT_THAT(result.err, HasSubstr("[rank 1] inherits ''"));
  EXPECT_THAT(result.err, Not(HasSubstr("socket:")));
}

// The store listens only on the given address.
TEST_F(RendezvousTest, ListensOnTheAddressThatIsGiven) {
  std::vector<std::string> addresses = {"127.0.0.1", "127.0.0.2"};
  if (!FirstInterface().empty()) addresses.push_back(FirstInterface());
  for (const std::string& address : addresses) {
    SCOPED_TRACE(address);
    const Places places = MeetAndEnd(address, {{}, {}});
    EXPECT_THAT(places.store, ElementsAre(inet_addr(address.c_str())));
    EXPECT_THAT(places.ranks, ElementsAre(Ne(0u)));
  }
}

TEST_F(RendezvousTest, AWildcardIsEveryInterfaceForTheStoreAndTheFirstForGloo) {
  const Places places = MeetAndEnd("0.0.0.0", {{}, {}});
  EXPECT_THAT(places.store, ElementsAre(0u));
  if (FirstInterface().empty()) GTEST_SKIP() << "this machine has loopback alone";
  EXPECT_THAT(places.ranks, ElementsAre(inet_addr(FirstInterface().c_str())));
}

// MASTER_ADDR may be an address that no interface of rank 0's machine has, such as that of a
// Kubernetes Service: rank 0 then listens on all interfaces. (The address is not routed here, so
// the other rank connects to another one.)
TEST_F(RendezvousTest, AnAddressThatIsNoInterfacesIsEveryInterface) {
  const Environment here = {{"GLOO_SOCKET_IFNAME", "lo"}};
  Environment service = here;
  service["MASTER_ADDR"] = "203.0.113.1";  // for documents: nobody's
  const Places places = MeetAndEnd("0.0.0.0", {service, here});
  EXPECT_THAT(places.store, ElementsAre(0u));
  EXPECT_THAT(places.ranks, ElementsAre(htonl(INADDR_LOOPBACK)));
}

// A machine's name may resolve to loopback without looking like it, as with Debian's /etc/hosts.
TEST_F(RendezvousTest, ANameThatIsLoopbackHereIsEveryInterfaceForSeveralMachinesAlone) {
  const std::string name = "2130706433";  // 127.0.0.1
  EXPECT_THAT(MeetAndEnd(name, {{}, {}}).store, ElementsAre(0u));
  const Environment several = {{"LOCAL_WORLD_SIZE", "1"}}, one = {{"LOCAL_WORLD_SIZE", "2"}};
  EXPECT_THAT(MeetAndEnd(name, {several, several}).store, ElementsAre(0u));
  EXPECT_THAT(MeetAndEnd(name, {one, one}).store, ElementsAre(htonl(INADDR_LOOPBACK)));
}

}  // namespace
}  // namespace moonring::testing
