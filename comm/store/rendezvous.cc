#include "comm/store/rendezvous.h"

#include <fcntl.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netdb.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <set>
#include <utility>

#include <torch/csrc/distributed/c10d/TCPStore.hpp>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "base/status/status_macros.h"
#include "base/status/torch_status.h"
#include "comm/store/bounded_store.h"
#include "comm/store/loopback.h"
#include "comm/store/private_store.h"
#include "comm/store/secret.h"
#include "comm/store/signed_store.h"

namespace moonring::comm {
namespace {

using Lookup = std::function<const char*(const char*)>;

absl::StatusOr<int> NumberIn(const Lookup& lookup, const char* name, int least, int most) {
  const char* text = lookup(name);
  if (text == nullptr) return absl::InvalidArgumentError(absl::StrCat(name, " is not set"));
  int value = 0;
  if (!absl::SimpleAtoi(text, &value) || value < least || value > most) {
    return absl::InvalidArgumentError(
        absl::StrCat(name, "='", text, "': expected a number from ", least, " to ", most));
  }
  return value;
}

constexpr int kManyRanks = 1 << 20;

// The first host of Slurm's node list: "gpu[007-012,020],login1" -> "gpu007".
std::string FirstHost(absl::string_view hosts) {
  const size_t stop = hosts.find_first_of(",[");
  std::string first(hosts.substr(0, stop));
  if (stop != absl::string_view::npos && hosts[stop] == '[') {
    const absl::string_view numbers = hosts.substr(stop + 1);
    absl::StrAppend(&first, numbers.substr(0, numbers.find_first_of("-,]")));
    const size_t close = numbers.find(']');
    if (close != absl::string_view::npos) {
      const absl::string_view suffix = numbers.substr(close + 1);
      absl::StrAppend(&first, suffix.substr(0, suffix.find_first_of(",[")));
    }
  }
  return first;
}

absl::Status TakeAddress(const Lookup& lookup, RendezvousOptions& options) {
  if (const char* address = lookup("MASTER_ADDR")) options.address = address;
  if (options.address.empty()) return absl::InvalidArgumentError("MASTER_ADDR is empty");
  if (lookup("MASTER_PORT") != nullptr) {
    ASSIGN_OR_RETURN(options.port, NumberIn(lookup, "MASTER_PORT", 1, 65535));
  }
  return absl::OkStatus();
}

// Parses MOONRING_STORE, which Moonring's launcher sets in addition to torchrun's variables: socket
// descriptors instead of an address.
absl::Status TakeStoreSockets(absl::string_view text, RendezvousOptions& options) {
  for (const absl::string_view number : absl::StrSplit(text, ',')) {
    if (!absl::SimpleAtoi(number, &options.store_sockets.emplace_back())) {
      return absl::InvalidArgumentError(
          absl::StrCat("MOONRING_STORE='", text, "': expected the launcher's descriptors"));
    }
  }
  const size_t wanted = options.rank == 0 ? options.world_size - 1 : 1;
  if (options.store_sockets.size() == wanted) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat("MOONRING_STORE='", text, "': expected ", wanted,
                                                 " of the launcher's descriptors"));
}

absl::Status TakeToken(const Lookup& lookup, RendezvousOptions& options) {
  const char* token = lookup("MOONRING_TOKEN");
  if (token != nullptr) options.token = token;
  if (token == nullptr || *token != '\0') return absl::OkStatus();
  return absl::InvalidArgumentError(
      "MOONRING_TOKEN is set, but empty: expected a secret that every rank has, or none");
}

absl::StatusOr<RendezvousOptions> FromTorchrun(const Lookup& lookup) {
  RendezvousOptions options;
  if (lookup("WORLD_SIZE") == nullptr)
    return absl::InvalidArgumentError("RANK is set, but WORLD_SIZE is not");
  ASSIGN_OR_RETURN(options.world_size, NumberIn(lookup, "WORLD_SIZE", 1, kManyRanks));
  ASSIGN_OR_RETURN(options.rank, NumberIn(lookup, "RANK", 0, options.world_size - 1),
                   "WORLD_SIZE is ", options.world_size);
  const char* sockets = lookup("MOONRING_STORE");
  if (options.world_size > 1 && sockets != nullptr) {
    RETURN_IF_ERROR(TakeStoreSockets(sockets, options));
  } else if (options.world_size > 1) {
    for (const char* name : {"MASTER_ADDR", "MASTER_PORT"}) {
      if (lookup(name) == nullptr)
        return absl::InvalidArgumentError(
            absl::StrCat("RANK and WORLD_SIZE are set, but ", name, " is not"));
    }
  }
  if (options.store_sockets.empty()) RETURN_IF_ERROR(TakeAddress(lookup, options));
  if (lookup("LOCAL_RANK") != nullptr) {
    ASSIGN_OR_RETURN(options.local_rank, NumberIn(lookup, "LOCAL_RANK", 0, options.world_size - 1));
  }
  int here = 0;
  if (const char* local = lookup("LOCAL_WORLD_SIZE"))
    options.one_machine = absl::SimpleAtoi(local, &here) && here == options.world_size;
  const char* agent = lookup("TORCHELASTIC_USE_AGENT_STORE");
  options.serves_store = agent == nullptr || !absl::EqualsIgnoreCase(agent, "true");
  for (const char* name : {"TORCHELASTIC_RUN_ID", "TORCHELASTIC_RESTART_COUNT"}) {
    if (const char* value = lookup(name)) absl::StrAppend(&options.attempt, "/", value);
  }
  return options;
}

// Reads Slurm's variables. nullopt if this process is not one of several tasks started by srun.
absl::StatusOr<std::optional<RendezvousOptions>> FromSlurm(const Lookup& lookup) {
  if (lookup("SLURM_PROCID") == nullptr || lookup("SLURM_STEP_NUM_TASKS") == nullptr)
    return std::nullopt;
  RendezvousOptions options;
  ASSIGN_OR_RETURN(options.world_size, NumberIn(lookup, "SLURM_STEP_NUM_TASKS", 1, kManyRanks));
  if (options.world_size == 1) return std::nullopt;
  ASSIGN_OR_RETURN(options.rank, NumberIn(lookup, "SLURM_PROCID", 0, options.world_size - 1),
                   "SLURM_STEP_NUM_TASKS is ", options.world_size);
  if (lookup("SLURM_LOCALID") != nullptr) {
    ASSIGN_OR_RETURN(options.local_rank,
                     NumberIn(lookup, "SLURM_LOCALID", 0, options.world_size - 1));
  }
  int64_t job = 0, step = 0;
  if (const char* id = lookup("SLURM_JOB_ID")) (void)absl::SimpleAtoi(id, &job);
  if (const char* id = lookup("SLURM_STEP_ID")) (void)absl::SimpleAtoi(id, &step);
  options.port = 16000 + static_cast<int>((job * 16 + step) % 16000);  // below the ephemeral ports
  const char* nodes = lookup("SLURM_STEP_NUM_NODES");
  options.one_machine = nodes != nullptr && absl::string_view(nodes) == "1";
  if (!options.one_machine) {
    const char* hosts = lookup("SLURM_STEP_NODELIST");
    if (hosts == nullptr) hosts = lookup("SLURM_JOB_NODELIST");
    if (hosts == nullptr && lookup("MASTER_ADDR") == nullptr) {
      return absl::InvalidArgumentError(
          "SLURM_STEP_NUM_TASKS is set, but neither SLURM_STEP_NODELIST nor MASTER_ADDR says where "
          "rank 0 is");
    }
    if (hosts != nullptr) options.address = FirstHost(hosts);
  }
  RETURN_IF_ERROR(TakeAddress(lookup, options));
  return options;
}

class Socket {
 public:
  explicit Socket(int fd) : fd_(fd) {}
  ~Socket() {
    if (fd_ >= 0) close(fd_);
  }
  Socket(const Socket&) = delete;
  Socket& operator=(const Socket&) = delete;
  int fd() const { return fd_; }
  int Release() { return std::exchange(fd_, -1); }

 private:
  int fd_;
};

struct FreeAddresses {
  void operator()(addrinfo* found) const { freeaddrinfo(found); }
};
using Addresses = std::unique_ptr<addrinfo, FreeAddresses>;

// Resolves the address, with retries for up to 30 seconds: a name may become resolvable a little
// after its machine starts (Kubernetes).
absl::StatusOr<Addresses> Resolve(const RendezvousOptions& options) {
  const absl::Time end = absl::Now() + std::min(options.deadline, absl::Seconds(30));
  addrinfo hints{};
  hints.ai_socktype = SOCK_STREAM;
  while (true) {
    addrinfo* found = nullptr;
    const int error =
        getaddrinfo(options.address.c_str(), std::to_string(options.port).c_str(), &hints, &found);
    if (error == 0) return Addresses(found);
    if (absl::Now() >= end) {
      return absl::UnavailableError(absl::StrCat("rank ", options.rank,
                                                 ": MASTER_ADDR: cannot resolve '", options.address,
                                                 "': ", gai_strerror(error)));
    }
    absl::SleepFor(absl::Milliseconds(500));
  }
}

std::string NumericAddress(const sockaddr* address, socklen_t size) {
  char text[NI_MAXHOST] = "";
  getnameinfo(address, size, text, sizeof text, nullptr, 0, NI_NUMERICHOST);
  return text;
}

bool IsWildcard(const std::string& numeric) { return numeric == "0.0.0.0" || numeric == "::"; }

// The address of the first interface that is up and not loopback; IPv4 is preferred.
std::string OwnAddress() {
  ifaddrs* all = nullptr;
  if (getifaddrs(&all) != 0) return "127.0.0.1";
  const std::unique_ptr<ifaddrs, void (*)(ifaddrs*)> owned(all, freeifaddrs);
  constexpr unsigned kUp = IFF_UP | IFF_RUNNING;
  for (const int family : {AF_INET, AF_INET6}) {
    const socklen_t size = family == AF_INET ? sizeof(sockaddr_in) : sizeof(sockaddr_in6);
    for (const ifaddrs* each = all; each != nullptr; each = each->ifa_next) {
      if (each->ifa_addr == nullptr || each->ifa_addr->sa_family != family) continue;
      if ((each->ifa_flags & (kUp | IFF_LOOPBACK)) != kUp) continue;
      const std::string numeric = NumericAddress(each->ifa_addr, size);
      // (An address with a scope such as "%eth0" is meaningless on other machines.)
      if (!numeric.empty() && !absl::StrContains(numeric, "%")) return numeric;
    }
  }
  return "127.0.0.1";
}

// A socket address to listen on.
struct Place {
  Place(const void* of, socklen_t its_size) : size(its_size) {
    std::memcpy(&address, of, its_size);
  }
  const sockaddr* get() const { return reinterpret_cast<const sockaddr*>(&address); }
  sockaddr_storage address{};
  socklen_t size;
};

Place EveryInterface(int family, int port) {
  sockaddr_in narrow{};
  narrow.sin_family = AF_INET;  // sin_addr 0: all addresses
  narrow.sin_port = htons(static_cast<uint16_t>(port));
  sockaddr_in6 wide{};  // accepts IPv4 too if IPV6_V6ONLY is off
  wide.sin6_family = AF_INET6;
  wide.sin6_port = narrow.sin_port;
  return family == AF_INET6 ? Place(&wide, sizeof wide) : Place(&narrow, sizeof narrow);
}

// The one address on which rank 0 listens; nullopt: on every interface (the table in the header).
std::optional<Place> OnePlace(const addrinfo* addresses, const RendezvousOptions& options) {
  const addrinfo* first = addresses;  // an IPv4 address if there is one
  std::set<std::string> all;
  bool loopback = true;
  for (const addrinfo* each = addresses; each != nullptr; each = each->ai_next) {
    if (first->ai_family != AF_INET && each->ai_family == AF_INET) first = each;
    const std::string numeric = NumericAddress(each->ai_addr, each->ai_addrlen);
    all.insert(numeric);
    loopback = loopback && IsLoopback(numeric);
  }
  const bool one = loopback ? IsLoopback(options.address) || options.one_machine
                            : all.size() == 1 && !IsWildcard(*all.begin());
  if (!one) return std::nullopt;
  return Place(first->ai_addr, first->ai_addrlen);
}

// Returns a socket that listens at `place`, or a negative errno.
int ListenAt(const Place& place) {
  const int family = place.get()->sa_family;
  Socket socket(::socket(family, SOCK_STREAM | SOCK_CLOEXEC, 0));
  const int yes = 1, no = 0;
  if (socket.fd() < 0 || setsockopt(socket.fd(), SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes) != 0 ||
      (family == AF_INET6 &&
       setsockopt(socket.fd(), IPPROTO_IPV6, IPV6_V6ONLY, &no, sizeof no) != 0) ||
      bind(socket.fd(), place.get(), place.size) != 0 || listen(socket.fd(), SOMAXCONN) != 0) {
    return -errno;
  }
  return socket.Release();
}

// Creates the listening socket here instead of leaving it to TCPStore, so that a port in use is
// reported as such, and only the chosen interface is used. Sets `everywhere` to whether the socket
// listens on all interfaces.
absl::StatusOr<int> Listen(const addrinfo* addresses, const RendezvousOptions& options,
                           bool* everywhere) {
  int socket = -EADDRNOTAVAIL;
  if (const std::optional<Place> one = OnePlace(addresses, options)) socket = ListenAt(*one);
  *everywhere = socket == -EADDRNOTAVAIL;  // also if the address does not belong to this machine
  if (*everywhere) {
    bool wide = false;
    for (const addrinfo* each = addresses; each != nullptr; each = each->ai_next)
      wide = wide || each->ai_family == AF_INET6;
    if (wide) socket = ListenAt(EveryInterface(AF_INET6, options.port));
    if (socket == -EADDRNOTAVAIL || socket == -EAFNOSUPPORT)  // or this machine has no IPv6
      socket = ListenAt(EveryInterface(AF_INET, options.port));
  }
  if (socket >= 0) return socket;
  const std::string what =
      absl::StrCat("port ", options.port, " on this machine: ", strerror(-socket));
  if (socket != -EADDRINUSE) return absl::UnavailableError(what);
  return absl::AlreadyExistsError(
      absl::StrCat(what, "; set MASTER_PORT to a free port (the same for every rank)"));
}

// Opens the store over the launcher's sockets. A process has one set of sockets, so it can do this
// once.
absl::StatusOr<c10::intrusive_ptr<c10d::Store>> OpenPrivateStore(
    const RendezvousOptions& options, std::chrono::milliseconds timeout) {
  static std::atomic<bool> taken = false;
  if (taken.exchange(true))
    return absl::FailedPreconditionError(
        "this process has already connected to the other ranks: the launcher's sockets work only "
        "once");
  for (const int socket : options.store_sockets) {
    struct stat status {};
    if (fstat(socket, &status) != 0 || !S_ISSOCK(status.st_mode) ||
        fcntl(socket, F_SETFD, FD_CLOEXEC) != 0) {
      return absl::InvalidArgumentError(
          absl::StrCat("MOONRING_STORE: ", socket, " is not a socket of the launcher"));
    }
  }
  c10::intrusive_ptr<c10d::Store> opened;
  RETURN_IF_ERROR(base::TryTorch([&] {
    opened = c10::make_intrusive<BoundedStore>(
        "rank 0", timeout, [options, timeout]() -> c10::intrusive_ptr<c10d::Store> {
          if (options.rank == 0) return c10::make_intrusive<ServedStore>(options.store_sockets);
          auto store = c10::make_intrusive<SocketStore>(options.store_sockets.front());
          store->setTimeout(timeout);
          return store;
        });
  }));
  return opened;
}

}  // namespace

std::optional<int> TasksHere(const Lookup& lookup) {
  for (const char* name : {"RANK", "WORLD_SIZE"}) {
    if (lookup(name) != nullptr) return std::nullopt;
  }
  for (const char* name : {"SLURM_PROCID", "SLURM_STEP_NUM_TASKS", "SLURM_NODEID"}) {
    if (lookup(name) == nullptr) return std::nullopt;
  }
  if (absl::string_view(lookup("SLURM_STEP_NUM_TASKS")) == "1") return std::nullopt;
  const char* const text = lookup("SLURM_STEP_TASKS_PER_NODE");
  int node = 0;
  if (text == nullptr || !absl::SimpleAtoi(lookup("SLURM_NODEID"), &node)) return std::nullopt;
  // "8(x3),4": 8 tasks on each of the first three nodes, 4 on the last.
  for (const absl::string_view nodes : absl::StrSplit(text, ',')) {
    const std::vector<absl::string_view> parts = absl::StrSplit(nodes, absl::ByAnyChar("(x)"));
    int tasks = 0, times = 1;
    if (!absl::SimpleAtoi(parts[0], &tasks) || tasks < 1 ||
        (parts.size() > 2 && !absl::SimpleAtoi(parts[2], &times))) {
      return std::nullopt;
    }
    if (node < times) return tasks;
    node -= times;
  }
  return std::nullopt;
}

absl::StatusOr<bool> StagedFrom(const Lookup& lookup) {
  const char* const text = lookup("MOONRING_EXCHANGE");
  const absl::string_view word = text == nullptr ? "nccl" : text;
  if (word == "host" || word == "nccl") return word == "host";
  return absl::InvalidArgumentError(
      absl::StrCat("MOONRING_EXCHANGE='", word, "': expected nccl or host"));
}

absl::StatusOr<std::optional<RendezvousOptions>> RendezvousFrom(const Lookup& lookup) {
  std::optional<RendezvousOptions> options;
  if (lookup("RANK") != nullptr || lookup("WORLD_SIZE") != nullptr) {
    if (lookup("RANK") == nullptr)
      return absl::InvalidArgumentError("WORLD_SIZE is set, but RANK is not");
    ASSIGN_OR_RETURN(options, FromTorchrun(lookup));
  } else {
    ASSIGN_OR_RETURN(options, FromSlurm(lookup));
  }
  ASSIGN_OR_RETURN(const bool staged, StagedFrom(lookup));
  if (!options.has_value()) return options;
  options->staged = staged;
  RETURN_IF_ERROR(TakeToken(lookup, *options));
  return options;
}

absl::StatusOr<std::optional<RendezvousOptions>> RendezvousFromEnvironment() {
  return RendezvousFrom([](const char* name) -> const char* { return std::getenv(name); });
}

absl::StatusOr<c10::intrusive_ptr<c10d::Store>> OpenStore(const RendezvousOptions& options) {
  const auto timeout = absl::ToChronoMilliseconds(options.deadline);
  if (!options.store_sockets.empty()) return OpenPrivateStore(options, timeout);
  ASSIGN_OR_RETURN(const Addresses addresses, Resolve(options));
  c10d::TCPStoreOptions store;
  store.port = static_cast<uint16_t>(options.port);
  store.isServer = options.rank == 0 && options.serves_store;
  store.waitWorkers = false;
  store.timeout = timeout;
  std::string address = options.address;
  if (store.isServer) {
    bool everywhere = false;
    ASSIGN_OR_RETURN(store.masterListenFd, Listen(addresses.get(), options, &everywhere),
                     "rank 0 cannot serve the rendezvous");
    if (everywhere) address = "127.0.0.1";  // a forwarded address may not work from here
  }
  c10::intrusive_ptr<c10d::Store> opened;
  const absl::Status status = base::TryTorch([&] {
    opened = c10::make_intrusive<BoundedStore>(
        options.serves_store ? "rank 0" : "the launcher", timeout,
        [address, store] { return c10::make_intrusive<c10d::TCPStore>(address, store); });
    if (!options.token.empty())
      opened = c10::make_intrusive<SignedStore>(std::move(opened), Secret(options.token));
  });
  if (absl::IsResourceExhausted(status)) return status;  // of this process, not of the server
  if (!status.ok()) {
    return absl::UnavailableError(absl::StrCat(
        "rank ", options.rank, ": nobody answers at ", options.address, ":", options.port,
        " within ", absl::FormatDuration(options.deadline),
        "; is rank 0 running, and are MASTER_ADDR and MASTER_PORT its? (", status.message(), ")"));
  }
  return opened;
}

absl::StatusOr<std::string> LocalAddressTowards(const std::string& address, int port) {
  addrinfo hints{}, *found = nullptr;
  hints.ai_socktype = SOCK_DGRAM;
  if (const int error = getaddrinfo(address.c_str(), std::to_string(port).c_str(), &hints, &found);
      error != 0) {
    return absl::UnavailableError(
        absl::StrCat("cannot resolve '", address, "': ", gai_strerror(error)));
  }
  const Addresses owned(found);
  if (IsWildcard(NumericAddress(found->ai_addr, found->ai_addrlen))) return OwnAddress();
  for (const addrinfo* entry = found; entry != nullptr; entry = entry->ai_next) {
    const Socket socket(::socket(entry->ai_family, SOCK_DGRAM | SOCK_CLOEXEC, 0));
    sockaddr_storage local{};
    socklen_t size = sizeof local;
    char text[NI_MAXHOST];
    if (socket.fd() >= 0 && connect(socket.fd(), entry->ai_addr, entry->ai_addrlen) == 0 &&
        getsockname(socket.fd(), reinterpret_cast<sockaddr*>(&local), &size) == 0 &&
        getnameinfo(reinterpret_cast<sockaddr*>(&local), size, text, sizeof text, nullptr, 0,
                    NI_NUMERICHOST) == 0) {
      return std::string(text);
    }
  }
  return absl::UnavailableError(absl::StrCat("no route to '", address, "'"));
}

}  // namespace moonring::comm
