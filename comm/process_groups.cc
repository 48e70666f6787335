#include "comm/process_groups.h"

#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <cstdlib>
#include <cstring>
#include <set>
#include <thread>
#include <utility>

#include <ATen/ops/empty.h>
#include <ATen/ops/zeros_like.h>
#include <c10/core/impl/VirtualGuardImpl.h>
#include <c10/util/Logging.h>
#include <torch/csrc/distributed/c10d/PrefixStore.hpp>
#include <torch/csrc/distributed/c10d/ProcessGroupGloo.hpp>

#include "absl/cleanup/cleanup.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "absl/time/clock.h"
#include "base/status/status_macros.h"
#include "base/status/torch_status.h"
#include "base/threads/batch_threads.h"
#include "comm/group.h"
#include "comm/listening_sockets.h"
#include "comm/liveness.h"
#include "comm/nccl_group.h"
#include "comm/rank_notes.h"
#include "comm/store/bounded_store.h"
#include "comm/store/loopback.h"
#include "comm/store/signed_store.h"

namespace moonring::comm {
namespace {

// The longest time that live ranks need to connect; after it, the missing ranks are checked for
// life.
constexpr absl::Duration kMeetingPatience = absl::Seconds(3);
// The longest time that Gloo may take to connect live ranks. Gloo itself tries five times, each for
// as long as a call may take.
constexpr absl::Duration kConnectingPatience = absl::Minutes(5);

// Advice for ranks that reach the store and not each other.
constexpr char kUnreachable[] =
    "; every rank must be able to connect to every other one, at any port, and not only to "
    "MASTER_PORT: is there a firewall, or does GLOO_SOCKET_IFNAME name the wrong interface?";

// Advice for a machine with more ranks than GPUs.
constexpr char kSharing[] =
    "; with MOONRING_EXCHANGE=host ranks share a GPU, for a trial: it is slow";

using Device = std::shared_ptr<gloo::transport::Device>;

// Gloo's group, with a way to end the calls that wait on it. Closing a connection wakes the other
// end only. A receive that times out wakes both ends of all connections of a context, so HangUp
// starts a receive that nobody answers. (It uses only Gloo's functions, because the fields of
// gloo::Context have other offsets in LibTorch's build than in the headers.)
class GlooGroup : public c10d::ProcessGroupGloo {
 public:
  using c10d::ProcessGroupGloo::ProcessGroupGloo;
  void HangUp() {
    constexpr uint64_t kUnansweredSlot = ~uint64_t{0} >> 1;
    for (const auto& context : contexts_) {
      for (int peer = 0; peer < getSize(); ++peer) {
        if (peer == getRank()) continue;
        char nothing = 0;
        const auto buffer = context->createUnboundBuffer(&nothing, 1);
        try {
          buffer->recv(
              peer,
              kUnansweredSlot);  // throws if this connection is already broken: try the next
          buffer->waitRecv(std::chrono::milliseconds(1));
        } catch (const std::exception&) {
        }
      }
    }
  }
};

absl::StatusOr<std::vector<Device>> MakeDevices(const RendezvousOptions& options,
                                                std::string* address) {
  const base::BatchThreads batch;  // for Gloo's loop threads
  std::vector<Device> devices;
  const char* interfaces = std::getenv("GLOO_SOCKET_IFNAME");
  if (!IsLoopback(options.address) && interfaces != nullptr && *interfaces != '\0') {
    for (const absl::string_view name : absl::StrSplit(interfaces, ',', absl::SkipEmpty())) {
      RETURN_IF_ERROR(
          base::TryTorch([&] {
            devices.push_back(c10d::ProcessGroupGloo::createDeviceForInterface(std::string(name)));
          }),
          "GLOO_SOCKET_IFNAME=", interfaces);
    }
    *address = interfaces;
    return devices;
  }
  *address = "127.0.0.1";
  if (!IsLoopback(options.address)) {
    ASSIGN_OR_RETURN(*address, LocalAddressTowards(options.address, options.port));
  }
  RETURN_IF_ERROR(base::TryTorch([&] {
                    devices.push_back(c10d::ProcessGroupGloo::createDeviceForHostname(*address));
                  }),
                  "Gloo on ", *address);
  return devices;
}

// Stores in `listening` the sockets on which the devices listen, if this is a process of Moonring
// itself; if Moonring is embedded in another program, that program's sockets are not inspected.
absl::StatusOr<std::vector<Device>> OpenDevices(const RendezvousOptions& options,
                                                std::string* address, std::set<int>* listening) {
  static std::mutex one_at_a_time;  // ranks may be threads: only this rank's sockets are new
  const std::lock_guard<std::mutex> lock(one_at_a_time);
  std::set<int> before;
  if (options.own_process) before = ListeningSockets();
  ASSIGN_OR_RETURN(std::vector<Device> devices, MakeDevices(options, address));
  if (options.own_process) *listening = ListeningSockets();
  std::erase_if(*listening, [&](int socket) { return before.contains(socket); });
  return devices;
}

// Each rank of a new group proves to each other rank that it has the run's key: over their
// connection it sends a signature of both ranks' numbers. This detects an impostor, who connects in
// place of a rank. (An impostor cannot forward the real rank's signature: that signature is sent
// over another connection.) `connections`: the number of connections between two ranks, one per
// device. Gloo's calls use them in turn, so there is one round for each.
void Prove(const Group& group, const Secret& key, size_t connections) {
  for (size_t connection = 0; connection < connections; ++connection) {
    const auto proof = [&](int from, int to) {
      return key.Sign(absl::StrCat("group ", group.id, ", connection ", connection, ", rank ", from,
                                   " to rank ", to, " of ", group.size));
    };
    const auto bytes = static_cast<int64_t>(Secret::kBytes);
    at::Tensor mine = at::empty({group.size * bytes}, at::kByte), theirs = at::zeros_like(mine);
    auto* row = reinterpret_cast<char*>(mine.mutable_data_ptr<uint8_t>());
    for (int r = 0; r < group.size; ++r, row += bytes)
      std::memcpy(row, proof(group.rank, r).data(), bytes);
    std::vector<int64_t> evenly;
    group.cpu->alltoall_base(theirs, mine, evenly, evenly)->wait();
    row = reinterpret_cast<char*>(theirs.mutable_data_ptr<uint8_t>());
    for (int r = 0; r < group.size; ++r, row += bytes) {
      if (absl::string_view(row, bytes) == proof(r, group.rank)) continue;
      throw base::StatusError(absl::PermissionDeniedError(
          absl::StrCat("the peer connected as rank ", group.ranks[r],
                       " does not have this run's key: another program has taken its place")));
    }
  }
}

// Silences LibTorch's log, which prints the C++ stack of every attempt at a broken connection. The
// returned statuses contain what matters.
void QuietLibTorchLog() {
  if (std::getenv("TORCH_CPP_LOG_LEVEL") == nullptr) FLAGS_caffe2_log_level = c10::GLOG_FATAL;
}

// Makes this rank's GPU the calling thread's current one, which is what LibTorch's "cuda" and
// NCCL's group use.
absl::Status TakeGpu(const RendezvousOptions& options) {
  int gpus = 0;
  RETURN_IF_ERROR(
      base::TryTorch([&] { gpus = c10::impl::VirtualGuardImpl(c10::kCUDA).deviceCount(); }));
  // An external launcher may make only one GPU visible to each rank. Moonring's launcher shows all
  // ranks the same GPUs.
  const bool own =
      gpus == 1 && std::getenv("CUDA_VISIBLE_DEVICES") != nullptr && options.store_sockets.empty();
  const int shared = options.staged && gpus > 0 ? options.local_rank % gpus : options.local_rank;
  const int mine = own ? 0 : shared;
  if (mine >= gpus) {
    return absl::FailedPreconditionError(
        absl::StrCat("this machine shows ", gpus, gpus == 1 ? " GPU" : " GPUs",
                     ", one per rank, but has a rank ", options.local_rank, " (counted from 0)",
                     gpus > 0 ? kSharing : ""));
  }
  return base::TryTorch([&] {
    c10::impl::VirtualGuardImpl(c10::kCUDA)
        .setDevice(c10::Device(c10::kCUDA, static_cast<c10::DeviceIndex>(mine)));
  });
}

// Adds advice to NCCL's error for launchers that show several ranks the same GPU.
absl::Status WithAdvice(const absl::Status& status) {
  if (!absl::StrContains(status.message(), "Duplicate GPU")) return status;
  return absl::Status(status.code(), absl::StrCat(status.message(), kSharing));
}

// Adds advice to Gloo's error, or to its timeout, if all ranks live and cannot connect.
absl::Status Reachable(const absl::Status& status) {
  if (!absl::IsDeadlineExceeded(status) && !absl::StrContains(status.message(), "connectFullMesh"))
    return status;
  if (absl::StrContains(status.message(), kUnreachable)) return status;  // another rank's error
  return absl::Status(status.code(), absl::StrCat(status.message(), kUnreachable));
}

// Installs an empty SIGPIPE handler. Gloo and the store write to connections whose other end may be
// gone and check the returned error, but by default the signal ends the process first. (Python, for
// which they were written, ignores the signal.) This is a handler instead of SIG_IGN, because child
// processes would inherit SIG_IGN.
void OutliveBrokenPipes() {
  struct sigaction standing {};
  if (sigaction(SIGPIPE, nullptr, &standing) != 0 || standing.sa_handler != SIG_DFL) return;
  struct sigaction nothing {};
  nothing.sa_handler = [](int) {};
  nothing.sa_flags = SA_RESTART;
  sigaction(SIGPIPE, &nothing, nullptr);
}

std::string HostName() {
  char name[256] = "";
  gethostname(name, sizeof name - 1);
  return name;
}

}  // namespace

absl::StatusOr<std::shared_ptr<World>> World::Connect(const RendezvousOptions& options) {
  if (options.world_size < 1 || options.rank < 0 || options.rank >= options.world_size) {
    return absl::InvalidArgumentError(
        absl::StrCat("rank ", options.rank, " of ", options.world_size));
  }
  QuietLibTorchLog();
  if (options.cuda) RETURN_IF_ERROR(TakeGpu(options));
  auto world = std::make_shared<World>(Key(), options);
  if (options.world_size == 1) {
    world->communicator_ = Communicator::Alone();
    return world;
  }
  if (options.own_process) OutliveBrokenPipes();
  c10::intrusive_ptr<c10d::Store> store = options.store;
  if (store == nullptr) {
    ASSIGN_OR_RETURN(store, OpenStore(options));
  }
  std::string address;
  ASSIGN_OR_RETURN(std::vector<Device> devices, OpenDevices(options, &address, &world->listening_));
  RETURN_IF_ERROR(
      world->JoinOrAbort(c10::make_intrusive<c10d::PrefixStore>(
                             absl::StrCat("moonring", options.attempt), std::move(store)),
                         std::move(devices), address));
  return world;
}

absl::StatusOr<std::shared_ptr<World>> World::ConnectThreads(c10::intrusive_ptr<c10d::Store> store,
                                                             int rank, int size,
                                                             absl::Duration deadline,
                                                             const std::string& token) {
  RendezvousOptions options;
  options.token = token;
  options.rank = rank;
  options.world_size = size;
  options.deadline = deadline;
  options.serves_store = false;  // the store lives as long as any thread references it
  ASSIGN_OR_RETURN(options.staged, StagedFrom([](const char* name) { return std::getenv(name); }));
  if (size == 1) return Connect(options);
  auto world = std::make_shared<World>(Key(), options);
  std::string address;
  ASSIGN_OR_RETURN(std::vector<Device> devices, OpenDevices(options, &address, &world->listening_));
  store = c10::make_intrusive<BoundedStore>("the launcher", absl::ToChronoMilliseconds(deadline),
                                            [store] { return store; });
  if (!token.empty()) store = c10::make_intrusive<SignedStore>(std::move(store), Secret(token));
  RETURN_IF_ERROR(world->JoinOrAbort(std::move(store), std::move(devices), address));
  return world;
}

std::shared_ptr<World> World::Alone() {
  auto world = std::make_shared<World>(Key(), RendezvousOptions());
  world->communicator_ = Communicator::Alone();
  return world;
}

World::~World() { Close(); }

absl::Status World::Join(c10::intrusive_ptr<c10d::Store> store, std::vector<Device> devices,
                         const std::string& address) {
  store_ = std::move(store);
  devices_ = std::move(devices);
  for (const int socket : listening_) ShutDoor(socket);
  const std::string me = RandomHex(Secret::kBytes);
  std::string first;
  RETURN_IF_ERROR(base::TryTorch(
      [&] { first = store_->compareSet(absl::StrCat("process of rank ", rank()), "", me); }));
  if (first != me)
    return absl::InvalidArgumentError(absl::StrCat("two processes are rank ", rank(),
                                                   " (this one is process ", getpid(), " on ",
                                                   HostName(), ")"));
  liveness_ =
      std::make_shared<Liveness>(c10::make_intrusive<c10d::PrefixStore>("live", store_),
                                 options_.serves_store, rank(), size(), [this] { HangUp(); });
  RETURN_IF_ERROR(base::TryTorch([&] {
    notes_ = std::make_shared<RankNotes>(c10::make_intrusive<c10d::PrefixStore>("notes", store_));
  }));

  std::vector<int> everyone(size());
  for (int r = 0; r < size(); ++r) everyone[r] = r;
  // Each rank publishes its address and a random number. The run's key is derived from these and
  // the token. In the launcher's store, which nobody else can read, they are secret enough.
  std::vector<std::string> addresses;
  RETURN_IF_ERROR(Gather("join the world", everyone, absl::StrCat(address, " ", me), &addresses));
  joined_ = true;
  if (!options_.token.empty() || !options_.store_sockets.empty()) {
    key_ = Secret(Secret(options_.token).Sign(absl::StrJoin(addresses, "\n")));
  }
  for (std::string& each : addresses) each.resize(std::min(each.size(), each.find(' ')));
  for (int r = 0; r < size(); ++r) {
    if (IsLoopback(addresses[r]) == IsLoopback(address)) continue;
    return absl::FailedPreconditionError(absl::StrCat(
        "rank ", r, " is reached at ", addresses[r], ", rank ", rank(), " at ", address,
        ": set GLOO_SOCKET_IFNAME to the network interface, or MASTER_ADDR to an address instead "
        "of a name"));
  }
  ASSIGN_OR_RETURN(communicator_, Make(everyone, "world"));
  return absl::OkStatus();
}

// Joins the world. If this fails, announces why: otherwise this rank and the others would wait for
// each other.
absl::Status World::JoinOrAbort(c10::intrusive_ptr<c10d::Store> store, std::vector<Device> devices,
                                const std::string& address) {
  absl::Status joined;
  const absl::Status thrown = base::TryTorch([&] {
    joined = Join(std::move(store), std::move(devices), address);
  });  // e.g. no thread could be started
  if (joined.ok()) joined = thrown;
  if (!joined.ok()) Abort(joined.message());
  return joined;
}

// Each of `ranks` writes a text to the store and reads those of the others. It polls, so that an
// announced failure ends it too. It stops waiting for a silent rank once all have joined the world;
// before that a missing rank may still be starting.
absl::Status World::Gather(const std::string& what, const std::vector<int>& ranks,
                           const std::string& mine, std::vector<std::string>* theirs) {
  const auto key = [&](int r) { return absl::StrCat(what, "/", r); };
  std::vector<int> missing = ranks;
  std::string cause;
  const absl::Time end = absl::Now() + options_.deadline,
                   blame_from = joined_ ? absl::Now() + kMeetingPatience : absl::InfiniteFuture();
  absl::Duration pause = absl::Milliseconds(1);
  RETURN_IF_ERROR(base::TryTorch([&] {
                    store_->set(key(rank()), mine);
                    while (true) {
                      std::erase_if(missing, [&](int r) { return store_->check({key(r)}); });
                      if (missing.empty() || absl::Now() > end) break;
                      if (!(cause = WhatIsWrong(blame_from, missing)).empty()) break;
                      absl::SleepFor(pause);
                      pause = std::min(2 * pause, absl::Milliseconds(50));
                    }
                    for (const int r : ranks)
                      theirs->push_back(missing.empty() ? store_->get_to_str(key(r)) : "");
                  }),
                  "rank ", rank(), " to ", what);
  if (missing.empty()) return absl::OkStatus();
  if (!cause.empty())
    return absl::UnavailableError(absl::StrCat("rank ", rank(), " to ", what, ": ", cause));
  const std::string late = absl::StrCat(
      missing.size() == 1 ? "rank " : "ranks ", absl::StrJoin(missing, ", "), " of ", ranks.size(),
      " did not come to ", what, " within ", absl::FormatDuration(options_.deadline));
  liveness_->Announce(late);
  return absl::DeadlineExceededError(late);
}

// The reason to stop waiting for other ranks: the wait was cancelled, a failure was announced, or
// (after the time `blame_from`) a rank gives no sign of life; "" if there is none.
std::string World::WhatIsWrong(absl::Time blame_from, const std::vector<int>& missing) {
  if (options_.called_off) {
    const std::string cause = options_.called_off(missing);
    if (!cause.empty()) return cause;
  }
  return absl::Now() > blame_from ? liveness_->Blame(/*late=*/true) : liveness_->Cause();
}

// Runs `connect`, which connects this rank to the others. That is quick, because all ranks have
// reached this point before. But if a rank dies or stops meanwhile, Gloo waits for it until the
// deadline, and nothing can end that wait. So `connect` runs on a separate thread, which is
// abandoned in that case, and if it takes longer than `limit`.
absl::Status World::Meet(absl::Duration limit, std::function<void()> connect) {
  struct Meeting {
    std::mutex mutex;
    std::condition_variable changed;
    bool over = false;
    absl::Status status;
  };
  const auto meeting = std::make_shared<Meeting>();
  std::thread thread([meeting, connect = std::move(connect)] {
    const absl::Status status = base::TryTorch(connect);
    const std::lock_guard<std::mutex> lock(meeting->mutex);
    meeting->status = status;
    meeting->over = true;
    meeting->changed.notify_all();
  });
  // In every case that does not join the thread, also if WhatIsWrong() throws.
  const auto abandon = absl::MakeCleanup([&] {
    if (thread.joinable()) thread.detach();
  });
  const absl::Time blame_from = absl::Now() + kMeetingPatience, end = absl::Now() + limit;
  std::string cause;
  bool over = false;
  while (!over && cause.empty() && absl::Now() < end) {
    {
      std::unique_lock<std::mutex> lock(meeting->mutex);
      over = meeting->changed.wait_for(lock, std::chrono::milliseconds(100),
                                       [&] { return meeting->over; });
    }
    if (!over) cause = WhatIsWrong(blame_from, {});
  }
  if (!over) {
    if (!cause.empty()) return absl::UnavailableError(cause);
    return absl::DeadlineExceededError(
        absl::StrCat("not connected within ", absl::FormatDuration(limit), ", although all live"));
  }
  thread.join();
  // Success, and errors that concern this rank itself, are returned at once. For other errors the
  // code below finds out which rank is to blame.
  if (meeting->status.ok() || absl::IsPermissionDenied(meeting->status) ||
      absl::IsResourceExhausted(meeting->status)) {
    return meeting->status;
  }
  cause = liveness_->Blame(/*late=*/false);
  return cause.empty() ? meeting->status : absl::UnavailableError(cause);
}

absl::StatusOr<std::shared_ptr<Communicator>> World::Make(const std::vector<int>& ranks,
                                                          const std::string& name) {
  auto group = std::make_shared<Group>();
  group->name = name;
  group->rank = static_cast<int>(std::find(ranks.begin(), ranks.end(), rank()) - ranks.begin());
  group->size = static_cast<int>(ranks.size());
  group->ranks = ranks;
  group->id = absl::StrCat(groups_made_, " ", name);
  group->deadline = options_.deadline;
  group->liveness = liveness_;
  group->staged = options_.staged;
  if (group->size > 1) {
    std::vector<std::string> ready;
    RETURN_IF_ERROR(
        Gather(absl::StrCat("make group ", groups_made_, " '", name, "'"), ranks, "", &ready));
    const auto timeout = absl::ToChronoMilliseconds(options_.deadline);
    const auto prefixed = [&](const char* kind) {
      return c10::make_intrusive<c10d::PrefixStore>(absl::StrCat(kind, "/", groups_made_), store_);
    };
    auto options = c10d::ProcessGroupGloo::Options::create(timeout);
    options->devices = devices_;
    options->threads = static_cast<int>(devices_.size());
    absl::Status met;
    {
      for (const int socket : listening_) OpenDoor(socket);
      // Shuts the sockets in every case, also if Meet() throws because no thread can be started.
      const auto shut = absl::MakeCleanup([this] {
        for (const int socket : listening_) ShutDoor(socket);
      });
      met = Meet(std::min(options_.deadline, kConnectingPatience),
                 [group, options, store = prefixed("gloo"), key = key_] {
                   group->cpu =
                       c10::make_intrusive<GlooGroup>(store, group->rank, group->size, options);
                   if (key.has_value()) Prove(*group, *key, options->devices.size());
                 });
    }
    RETURN_IF_ERROR(Reachable(met), "group '", name, "', rank ", group->rank, " of ", group->size);
    if (options_.cuda && !options_.staged) {
      met = Meet(absl::InfiniteDuration(),
                 [group, timeout, store = prefixed("nccl"),
                  gpu = c10::impl::VirtualGuardImpl(c10::kCUDA).getDevice()] {
                   c10::impl::VirtualGuardImpl(c10::kCUDA).setDevice(gpu);
                   group->cuda = MakeNcclGroup(store, group->rank, group->size, timeout);
                 });
      RETURN_IF_ERROR(WithAdvice(met), "group '", name, "', rank ", group->rank, " of ",
                      group->size);
    }
  }
  const std::lock_guard<std::mutex> lock(mutex_);
  groups_.push_back(group);
  return std::make_shared<Communicator>(group);
}

absl::StatusOr<std::shared_ptr<Communicator>> World::Split(const std::vector<int>& ranks,
                                                           const std::string& name) {
  ++groups_made_;
  std::set<int> seen;
  for (const int r : ranks) {
    if (r < 0 || r >= size())
      return absl::InvalidArgumentError(
          absl::StrCat("group '", name, "': rank ", r, " in a world of ", size()));
    if (!seen.insert(r).second)
      return absl::InvalidArgumentError(absl::StrCat("group '", name, "': rank ", r, " twice"));
  }
  if (closed_)
    return absl::FailedPreconditionError(absl::StrCat("group '", name, "': the world is closed"));
  if (!seen.contains(rank())) return std::shared_ptr<Communicator>();
  return Make(ranks, name);
}

absl::Duration World::waited() {
  const std::lock_guard<std::mutex> lock(mutex_);
  absl::Duration sum = absl::ZeroDuration();
  for (const auto& group : groups_) sum += group->waited;
  return sum;
}

void World::HangUp() {
  const std::lock_guard<std::mutex> lock(mutex_);
  if (std::exchange(hung_up_, true)) return;
  for (const auto& group : groups_) {
    if (group->cpu != nullptr) static_cast<GlooGroup*>(group->cpu.get())->HangUp();
    if (group->cuda != nullptr) group->cuda->abort();
  }
}

void World::Abort(absl::string_view reason) {
  if (closed_ || liveness_ == nullptr) return;
  liveness_->Announce(absl::StrCat("rank ", rank(), " has failed: ", reason));
  HangUp();
}

void World::Break(absl::string_view cause) {
  if (liveness_ == nullptr) return;
  liveness_->Announce(cause);
  HangUp();
}

std::vector<std::string> World::Waits() {
  std::vector<std::string> groups(size());
  for (int r = 0; r < size() && liveness_ != nullptr; ++r) groups[r] = liveness_->WaitsIn(r);
  return groups;
}

// When a run ends without an error, waits until the GPU has finished what this rank queued for
// NCCL. Destroying a group earlier would abort that work, on its peers too. If a peer dies during
// the wait, HangUp or LibTorch's watchdog ends it.
void World::AwaitDevice() {
  const auto has_device = [](const auto& group) { return group->cuda != nullptr; };
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    if (hung_up_ || std::none_of(groups_.begin(), groups_.end(), has_device)) return;
  }
  try {
    const c10::impl::VirtualGuardImpl gpu(c10::kCUDA);
    gpu.synchronizeDevice(gpu.getDevice().index());
  } catch (const std::exception& error) {
    LOG(WARNING) << "a GPU's work failed while its groups were being closed: " << error.what();
  }
}

void World::Close() {
  if (std::exchange(closed_, true)) return;
  AwaitDevice();
  // First this rank publishes that it leaves; if it serves the store, it also waits for the other
  // ranks. The store is destroyed last.
  if (liveness_ != nullptr) liveness_->Leave(/*linger=*/rank() == 0 && options_.serves_store);
  std::vector<std::shared_ptr<Group>> groups;
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    groups.swap(groups_);
  }
  for (auto group = groups.rbegin(); group != groups.rend(); ++group) {
    (*group)->broken =
        absl::FailedPreconditionError(absl::StrCat("group '", (*group)->name, "' is closed"));
    (*group)->cuda.reset();
    (*group)->cpu.reset();
    (*group)->liveness.reset();
  }
  liveness_.reset();
  notes_.reset();
  listening_.clear();
  devices_.clear();
  store_.reset();
}

}  // namespace moonring::comm
