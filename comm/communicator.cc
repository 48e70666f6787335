#include "comm/communicator.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <exception>
#include <numeric>
#include <set>
#include <string>
#include <utility>

#include <ATen/core/grad_mode.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/zeros.h>
#include <c10/util/Exception.h>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/time/clock.h"
#include "base/memory/memory_account.h"
#include "base/memory/to_device.h"
#include "base/status/status_macros.h"
#include "base/status/torch_status.h"
#include "base/trace/recorder.h"
#include "comm/group.h"
#include "comm/traced_call.h"

namespace moonring::comm {
namespace {

using c10d::Work;

// The tag of the first round of announcements. Exchange() counts its tags from 0.
constexpr int kAnnouncementTag = 1 << 30;

bool Staged(const Group& group, const at::Tensor& t) { return group.staged && t.is_cuda(); }

const c10::intrusive_ptr<c10d::Backend>& BackendFor(const Group& group, const at::Tensor& t) {
  const auto& backend = t.is_cuda() && !group.staged ? group.cuda : group.cpu;
  TORCH_CHECK(backend != nullptr, "group '", group.name, "' was not made for tensors on ",
              t.device());
  return backend;
}

// The data of `t` as its backend expects it: contiguous (a copy only if `t` is not contiguous). In
// a staged group the result is a copy in host memory, and the host waits for that copy.
at::Tensor ToSend(const Group& group, const at::Tensor& t) {
  if (!Staged(group, t)) return t.detach().contiguous();
  at::Tensor host = base::HostTensorFor(t.device(), t.sizes(), t.scalar_type());
  return host.copy_(t.detach());
}

// A buffer in which the backend of `t` can receive data for `t`.
at::Tensor ToReceive(const Group& group, const at::Tensor& t) {
  if (Staged(group, t)) return base::HostTensorFor(t.device(), t.sizes(), t.scalar_type());
  return t.is_contiguous() ? t.detach() : at::empty(t.sizes(), t.options());
}

// Copies received data to `t`, unless the backend has put it there. A copy to a GPU is queued on
// the current stream; LibTorch keeps the pinned memory until it is done.
void Bring(const at::Tensor& come, const at::Tensor& t) {
  if (!come.is_alias_of(t)) t.detach().copy_(come, /*non_blocking=*/true);
}

void CheckDtype(const at::Tensor& t) {
  switch (t.scalar_type()) {
    case at::kFloat:
    case at::kDouble:
    case at::kBFloat16:
    case at::kHalf:
    case at::kLong:
    case at::kInt:
    case at::kByte:
      return;
    default:
      TORCH_CHECK(false, "a tensor of ", t.scalar_type(), " cannot be communicated");
  }
}

int64_t BytesOf(const std::vector<Communicator::Message>& messages) {
  return std::accumulate(messages.begin(), messages.end(), int64_t{0},
                         [](int64_t sum, const Communicator::Message& message) {
                           return sum + static_cast<int64_t>(message.tensor.nbytes());
                         });
}

// The ranks that this rank sends to or receives from, in order.
std::set<int> Peers(const std::vector<Communicator::Message>& send,
                    const std::vector<Communicator::Message>& receive) {
  std::set<int> peers;
  for (const auto* messages : {&send, &receive}) {
    for (const Communicator::Message& message : *messages) {
      if (message.tensor.numel() > 0) peers.insert(message.peer);
    }
  }
  return peers;
}

int64_t Sum(absl::Span<const int64_t> counts) {
  return std::accumulate(counts.begin(), counts.end(), int64_t{0});
}

int64_t CeilLog2(int size) { return std::bit_width(static_cast<unsigned>(size - 1)); }

// The number of ranks that a rank sends to in a binomial tree. Rank v, counted from the root,
// receives in step floor(log2 v) and sends in later steps.
int64_t Children(int v, int size) {
  int64_t children = 0;
  for (int step = v == 0 ? 1 : static_cast<int>(std::bit_floor(static_cast<unsigned>(v))) * 2;
       v + step < size; step *= 2)
    ++children;
  return children;
}

// An uninitialized tensor [rows, ...] with the dtype, device and other dims of `like`.
at::Tensor EmptyRows(const at::Tensor& like, int64_t rows) {
  std::vector<int64_t> shape = like.sizes().vec();
  shape[0] = rows;
  return at::empty(shape, like.options());
}

// Returns the message for a call that ran out of time, with the ranks that have not entered the
// call.
std::string LateOnes(Group& group) {
  const std::vector<int> late =
      group.liveness == nullptr ? std::vector<int>() : group.liveness->NotIn(group.id, group.ranks);
  const std::string within = absl::StrCat("not done within ", absl::FormatDuration(group.deadline));
  if (late.empty())
    return absl::StrCat(within, ", although all ranks have entered it: a connection may be slow");
  const bool one = late.size() == 1;
  return absl::StrCat(within, ": ", one ? "rank " : "ranks ", absl::StrJoin(late, ", "),
                      one ? " is alive but has" : " are alive but have", " not entered it");
}

// Handles a failed call: finds and announces the cause, and breaks the group. Returns the error.
absl::Status Fail(Group& group, absl::string_view operation, const std::exception& exception) {
  const absl::Status said = base::StatusOfException(exception);
  const std::string where = absl::StrCat(operation, " on group '", group.name, "', rank ",
                                         group.rank, " of ", group.size);
  const std::string words = absl::AsciiStrToLower(said.message());
  const bool late = absl::StrContains(words, "timed out") || absl::StrContains(words, "timeout");
  if (late && group.liveness != nullptr) group.liveness->NoteTimeout();
  std::string cause = group.liveness == nullptr ? "" : group.liveness->Blame(late);
  const bool known = !cause.empty();
  if (!known) {
    cause = late ? LateOnes(group) : std::string(said.message());
    if (group.liveness != nullptr) group.liveness->Announce(absl::StrCat(where, ": ", cause));
  }
  group.broken = absl::Status(
      late && !known ? absl::StatusCode::kDeadlineExceeded : absl::StatusCode::kUnavailable,
      absl::StrCat(where, ": ", cause));
  return group.broken;
}

// Marks this rank as waiting in a call: adds the time to the group's total, and lets other ranks
// ask whether this rank has entered the call.
class InCall {
 public:
  // `number`: of an announced call, else 0.
  InCall(Group& group, absl::string_view call, int64_t number = 0)
      : group_(group), start_(absl::Now()) {
    if (group.liveness != nullptr) group.liveness->WaitIn(group.id, call, number, &group.ranks);
  }
  InCall(const InCall&) = delete;
  ~InCall() {
    group_.waited += absl::Now() - start_;
    if (group_.liveness != nullptr && group_.broken.ok())
      group_.liveness->WaitIn("");  // not after a failure: the entry shows that this rank did enter
  }

 private:
  Group& group_;
  const absl::Time start_;
};

}  // namespace

// A receive buffer, and the tensor that its data is for.
struct Arrival {
  at::Tensor come, wanted;
};

struct Communicator::Transfer::Pending {
  std::shared_ptr<Group> group;
  std::vector<c10::intrusive_ptr<Work>> works;
  std::vector<at::Tensor> tensors;
  std::vector<Arrival> arrivals;
  std::function<void()> finish;  // called when everything has arrived
  std::string operation;
  std::unique_ptr<TracedTransfer> traced;  // null if no trace is recorded
};

Communicator::Communicator(std::shared_ptr<Group> group) : group_(std::move(group)) {}

std::shared_ptr<Communicator> Communicator::Alone() {
  return std::make_shared<Communicator>(std::make_shared<Group>());
}

int Communicator::rank() const { return group_->rank; }
int Communicator::size() const { return group_->size; }
int Communicator::world_rank(int rank) const {
  return group_->ranks.empty() ? rank : group_->ranks[rank];
}

void Communicator::Count(int64_t steps, int64_t bytes) {
  counters_.steps += steps;
  counters_.bytes_sent += bytes;
}

absl::Status Communicator::Ready(absl::string_view operation) const {
  return group_->broken.ok() ? absl::OkStatus() : base::WithContext(group_->broken, operation);
}

absl::Status Communicator::Run(absl::string_view operation, const std::function<void()>& call,
                               const Announcement* announcement) {
  at::NoGradGuard no_grad;
  const bool numbered = announcement != nullptr && announcement->round == 0;
  const InCall in_call(*group_, numbered ? absl::string_view(announcement->published) : operation,
                       numbered ? group_->announced : 0);
  try {
    call();
    return absl::OkStatus();
  } catch (const std::exception& exception) {
    return Fail(*group_, operation, exception);
  }
}

absl::Status Communicator::AllReduce(absl::string_view operation, at::Tensor& t, bool max) {
  CheckDtype(t);
  if (size() == 1 || t.numel() == 0) return absl::OkStatus();
  RETURN_IF_ERROR(Ready(operation));
  const base::MemoryScope memory(base::MemoryPart::kCommunication);
  const auto& backend = BackendFor(*group_, t);
  const int64_t bytes = 2 * (size() - 1) * static_cast<int64_t>(t.nbytes()) / size();
  Count(2 * (size() - 1), bytes);
  const TracedCall traced(*group_, kAllReduceCall, bytes);
  return Run(operation, [&] {
    std::vector<at::Tensor> tensors = {ToSend(*group_, t)};
    c10d::AllreduceOptions options;
    options.reduceOp = max ? c10d::ReduceOp::MAX : c10d::ReduceOp::SUM;
    backend->allreduce(tensors, options)->wait();
    Bring(tensors[0], t);
  });
}

void Communicator::CheckRows(absl::string_view operation, const at::Tensor& t,
                             absl::Span<const int64_t> rows_of_rank) const {
  TORCH_CHECK(static_cast<int>(rows_of_rank.size()) == size(), operation, ": ", rows_of_rank.size(),
              " counts for ", size(), " ranks");
  TORCH_CHECK(t.dim() >= 1 && t.size(0) == Sum(rows_of_rank), operation, ": a tensor of shape ",
              t.sizes(), ", rows of all ranks: ", Sum(rows_of_rank));
}

absl::Status Communicator::AllReduceSum(at::Tensor& t) {
  return AllReduce("all_reduce_sum", t, /*max=*/false);
}
absl::Status Communicator::AllReduceMax(at::Tensor& t) {
  return AllReduce("all_reduce_max", t, /*max=*/true);
}

absl::Status Communicator::Broadcast(at::Tensor& t, int root) {
  CheckDtype(t);
  TORCH_CHECK(root >= 0 && root < size(), "broadcast from rank ", root, " in a group of ", size());
  if (size() == 1 || t.numel() == 0) return absl::OkStatus();
  RETURN_IF_ERROR(Ready("broadcast"));
  const auto& backend = BackendFor(*group_, t);
  const int64_t bytes =
      Children((rank() - root + size()) % size(), size()) * static_cast<int64_t>(t.nbytes());
  Count(CeilLog2(size()), bytes);
  const TracedCall traced(*group_, kBroadcastCall, bytes);
  return Run("broadcast", [&] {
    std::vector<at::Tensor> tensors = {rank() == root ? ToSend(*group_, t) : ToReceive(*group_, t)};
    c10d::BroadcastOptions options;
    options.rootRank = root;
    backend->broadcast(tensors, options)->wait();
    if (rank() != root) Bring(tensors[0], t);
  });
}

absl::StatusOr<at::Tensor> Communicator::AllToAll(const at::Tensor& rows,
                                                  absl::Span<const int64_t> send_rows,
                                                  absl::Span<const int64_t> receive_rows) {
  CheckDtype(rows);
  TORCH_CHECK(static_cast<int>(send_rows.size()) == size() &&
                  static_cast<int>(receive_rows.size()) == size(),
              "all_to_all: ", send_rows.size(), " counts to send and ", receive_rows.size(),
              " to receive for ", size(), " ranks");
  TORCH_CHECK(rows.dim() >= 1 && rows.size(0) == Sum(send_rows), "all_to_all: a tensor of shape ",
              rows.sizes(), ", rows to send: ", Sum(send_rows));
  for (int r = 0; r < size(); ++r)
    TORCH_CHECK(send_rows[r] >= 0 && receive_rows[r] >= 0, "all_to_all: a negative count for rank ",
                r);
  TORCH_CHECK(send_rows[rank()] == receive_rows[rank()], "all_to_all: ", send_rows[rank()],
              " rows to itself, ", receive_rows[rank()], " from itself");
  const base::MemoryScope memory(base::MemoryPart::kCommunication);
  const at::Tensor source = rows.detach().contiguous();
  if (size() == 1) return source;
  at::Tensor received = EmptyRows(source, Sum(receive_rows));
  const int64_t row_numel = c10::multiply_integers(source.sizes().slice(1));
  if (row_numel == 0) return received;
  RETURN_IF_ERROR(Ready("all_to_all"));
  const auto& backend = BackendFor(*group_, source);
  const int64_t bytes = (Sum(send_rows) - send_rows[rank()]) * row_numel * source.element_size();
  Count(size() - 1, bytes);
  const TracedCall traced(*group_, kAllToAllCall, bytes);
  RETURN_IF_ERROR(Run("all_to_all", [&] {
    at::Tensor input = ToSend(*group_, source), output = ToReceive(*group_, received);
    std::vector<int64_t> out(receive_rows.begin(), receive_rows.end()),
        in(send_rows.begin(), send_rows.end());
    backend->alltoall_base(output, input, out, in)->wait();
    Bring(output, received);
  }));
  return received;
}

absl::StatusOr<std::vector<at::Tensor>> Communicator::AllGather(
    const at::Tensor& rows, absl::Span<const int64_t> rows_of_rank) {
  CheckDtype(rows);
  TORCH_CHECK(static_cast<int>(rows_of_rank.size()) == size(), "all_gather: ", rows_of_rank.size(),
              " counts for ", size(), " ranks");
  TORCH_CHECK(rows.dim() >= 1 && rows.size(0) == rows_of_rank[rank()],
              "all_gather: a tensor of shape ", rows.sizes(),
              ", announced rows: ", rows_of_rank[rank()]);
  const base::MemoryScope memory(base::MemoryPart::kCommunication);
  const at::Tensor mine = rows.detach().contiguous();
  if (size() == 1) return std::vector<at::Tensor>{mine};
  const at::Tensor everything = EmptyRows(mine, Sum(rows_of_rank));
  std::vector<at::Tensor> parts;
  int64_t row = 0;
  for (const int64_t count : rows_of_rank) {
    parts.push_back(everything.slice(0, row, row + count));
    row += count;
  }
  parts[rank()].copy_(mine);
  ASSIGN_OR_RETURN(Transfer transfer,
                   StartAllGather({{everything, std::vector<int64_t>(rows_of_rank.begin(),
                                                                     rows_of_rank.end())}}));
  RETURN_IF_ERROR(transfer.Wait());
  return parts;
}

absl::StatusOr<Communicator::Transfer> Communicator::StartAllGather(
    const std::vector<Gathered>& tensors) {
  std::vector<Message> send, receive;
  std::vector<Gathered> even;
  for (const Gathered& gathered : tensors) {
    CheckRows("all_gather", gathered.whole, gathered.rows_of_rank);
    if (IsEven(gathered.whole, gathered.rows_of_rank)) {
      even.push_back({gathered.whole.detach(), gathered.rows_of_rank});
      continue;
    }
    const std::vector<at::Tensor> parts =
        gathered.whole.detach().split_with_sizes(gathered.rows_of_rank);
    // Each rank first sends to the next rank, so that the ranks do not all send to the same rank at
    // the same time.
    for (int step = 1; step < size(); ++step) {
      const int to = (rank() + step) % size(), from = (rank() - step + size()) % size();
      send.push_back({parts[rank()], to});
      receive.push_back({parts[from], from});
    }
  }
  const bool counts_steps = send.empty();
  ASSIGN_OR_RETURN(Transfer transfer, Exchange(std::move(send), std::move(receive)));
  if (even.empty()) return transfer;
  constexpr char kOperation[] = "all_gather";
  RETURN_IF_ERROR(Ready(kOperation));
  Transfer::Pending& pending = *transfer.pending_;
  if (pending.operation.empty()) pending.operation = kOperation;
  if (pending.traced == nullptr) pending.traced = TracedTransfer::Start(*group_);
  const base::TraceSpan span(kStartTransfer, {}, group_->name);
  RETURN_IF_ERROR(Run(kOperation, [&] {
    c10d::Backend& backend = *group_->cuda;
    // Several gathers are coalesced into one launch.
    if (even.size() > 1) backend.startCoalescing();
    for (Gathered& gathered : even) {
      at::Tensor part =
          gathered.whole.narrow(0, rank() * gathered.rows_of_rank[0], gathered.rows_of_rank[0]);
      auto work = backend._allgather_base(gathered.whole, part);
      if (even.size() == 1) pending.works.push_back(std::move(work));
      pending.tensors.push_back(gathered.whole);
    }
    if (even.size() == 1) return;
    if (auto work = backend.endCoalescing()) pending.works.push_back(std::move(work));
  }));
  int64_t bytes = 0;
  for (const Gathered& gathered : even)
    bytes += static_cast<int64_t>(gathered.whole.nbytes()) / size() * (size() - 1);
  Count(counts_steps ? size() - 1 : 0, bytes);
  TracedTransfer::Calls(pending.traced.get(), *group_, kAllGatherCall, bytes);
  return transfer;
}

absl::StatusOr<Communicator::Transfer> Communicator::StartAllReduceSum(at::Tensor& t) {
  constexpr char kOperation[] = "all_reduce_sum";
  CheckDtype(t);
  TORCH_CHECK(t.is_contiguous(), kOperation,
              ": a tensor that is summed meanwhile must be contiguous");
  auto pending = std::make_unique<Transfer::Pending>();
  if (size() == 1 || t.numel() == 0) return Transfer(std::move(pending));
  RETURN_IF_ERROR(Ready(kOperation));
  const base::MemoryScope memory(base::MemoryPart::kCommunication);
  pending->group = group_;
  pending->operation = kOperation;
  const int64_t bytes = 2 * (size() - 1) * static_cast<int64_t>(t.nbytes()) / size();
  Count(2 * (size() - 1), bytes);
  pending->traced = TracedTransfer::Start(*group_);
  TracedTransfer::Calls(pending->traced.get(), *group_, kAllReduceCall, bytes);
  const base::TraceSpan span(kStartTransfer, {}, group_->name);
  RETURN_IF_ERROR(Run(kOperation, [&] {
    pending->tensors = {ToSend(*group_, t)};
    pending->arrivals.push_back({pending->tensors[0], t.detach()});
    pending->works.push_back(
        BackendFor(*group_, t)->allreduce(pending->tensors, c10d::AllreduceOptions()));
  }));
  return Transfer(std::move(pending));
}

bool Communicator::HasCollectives(const at::Device& device) const {
  return size() > 1 && device.is_cuda() && !group_->staged;
}

bool Communicator::IsEven(const at::Tensor& t, absl::Span<const int64_t> rows_of_rank) const {
  return HasCollectives(t.device()) && t.numel() > 0 &&
         std::all_of(rows_of_rank.begin(), rows_of_rank.end(),
                     [&](int64_t rows) { return rows == rows_of_rank[0]; });
}

absl::StatusOr<at::Tensor> Communicator::ReduceScatterSum(const at::Tensor& rows,
                                                          absl::Span<const int64_t> rows_of_rank) {
  ASSIGN_OR_RETURN(Reduction reduction, StartReduceScatterSum(rows, rows_of_rank));
  RETURN_IF_ERROR(reduction.transfer.Wait());
  return reduction.sum;
}

absl::StatusOr<Communicator::Reduction> Communicator::StartReduceScatterSum(
    const at::Tensor& rows, absl::Span<const int64_t> rows_of_rank) {
  constexpr char kOperation[] = "reduce_scatter_sum";
  CheckDtype(rows);
  CheckRows(kOperation, rows, rows_of_rank);
  const at::Tensor source = rows.detach().contiguous();
  if (size() == 1)
    return Reduction{source.clone(), Transfer(std::make_unique<Transfer::Pending>())};
  if (IsEven(source, rows_of_rank)) {
    RETURN_IF_ERROR(Ready(kOperation));
    const base::MemoryScope memory(base::MemoryPart::kCommunication);
    at::Tensor from = source, sum = EmptyRows(source, rows_of_rank[0]);
    auto pending = std::make_unique<Transfer::Pending>();
    pending->group = group_;
    pending->operation = kOperation;
    pending->tensors = {from, sum};
    const int64_t bytes = static_cast<int64_t>(from.nbytes()) / size() * (size() - 1);
    pending->traced = TracedTransfer::Start(*group_);
    TracedTransfer::Calls(pending->traced.get(), *group_, kReduceScatterCall, bytes);
    const base::TraceSpan span(kStartTransfer, {}, group_->name);
    RETURN_IF_ERROR(Run(kOperation, [&] {
      pending->works.push_back(group_->cuda->_reduce_scatter_base(sum, from));
    }));
    Count(size() - 1, bytes);
    return Reduction{sum, Transfer(std::move(pending))};
  }
  const std::vector<at::Tensor> parts =
      source.split_with_sizes(at::IntArrayRef(rows_of_rank.data(), rows_of_rank.size()));
  std::vector<Message> send, receive;
  std::vector<at::Tensor> of_rank(size());
  of_rank[rank()] = parts[rank()];
  for (int step = 1; step < size(); ++step) {
    const int to = (rank() + step) % size(), from = (rank() - step + size()) % size();
    of_rank[from] = EmptyRows(source, rows_of_rank[rank()]);
    send.push_back({parts[to], to});
    receive.push_back({of_rank[from], from});
  }
  ASSIGN_OR_RETURN(Transfer transfer, Exchange(std::move(send), std::move(receive)));
  // Rank 0's own addend is the caller's tensor, which must not be changed.
  const at::Tensor sum = rank() == 0 ? of_rank[0].clone() : of_rank[0];
  const auto add = [sum, of_rank] {
    at::NoGradGuard no_grad;
    for (size_t r = 1; r < of_rank.size(); ++r) sum.add_(of_rank[r]);
  };
  transfer.pending_->finish = add;
  return Reduction{sum, std::move(transfer)};
}

absl::StatusOr<Communicator::Transfer> Communicator::Exchange(std::vector<Message> send,
                                                              std::vector<Message> receive) {
  std::vector<at::Tensor> from_self, to_self;
  const auto check = [&](std::vector<Message>& messages, std::vector<at::Tensor>& own) {
    std::vector<Message> others;
    for (Message& message : messages) {
      TORCH_CHECK(message.peer >= 0 && message.peer < size(), "exchange: rank ", message.peer,
                  " in a group of ", size());
      CheckDtype(message.tensor);
      message.tensor = message.tensor.detach();
      if (message.peer == rank()) {
        own.push_back(std::move(message.tensor));
      } else {
        others.push_back(std::move(message));
      }
    }
    messages = std::move(others);
  };
  check(send, from_self);
  check(receive, to_self);
  TORCH_CHECK(from_self.size() == to_self.size(), "exchange: ", from_self.size(),
              " tensors to itself, ", to_self.size(), " from itself");
  for (size_t i = 0; i < from_self.size(); ++i) to_self[i].copy_(from_self[i]);
  for (const Message& message : receive)
    TORCH_CHECK(message.tensor.is_contiguous(),
                "exchange: a tensor to receive into must be contiguous");

  auto pending = std::make_unique<Transfer::Pending>();
  pending->group = group_;
  for (Message& message : send) message.tensor = ToSend(*group_, message.tensor);
  for (Message& message : receive) {
    if (!Staged(*group_, message.tensor)) continue;
    pending->arrivals.push_back({ToReceive(*group_, message.tensor), message.tensor});
    message.tensor = pending->arrivals.back().come;
  }
  if (send.empty() && receive.empty()) return Transfer(std::move(pending));
  const std::set<int> peers = Peers(send, receive);
  pending->operation = absl::StrCat("exchange with ranks ", absl::StrJoin(peers, ", "));
  RETURN_IF_ERROR(Ready(pending->operation));
  if (peers.empty())
    return Transfer(
        std::move(pending));  // all tensors are empty: an empty batch has no work to wait for
  Count(static_cast<int64_t>(std::max(Peers(send, {}).size(), Peers({}, receive).size())),
        BytesOf(send));
  pending->traced = TracedTransfer::Start(*group_);
  const auto note = [&](const std::vector<Message>& messages, const auto& add) {
    for (const Message& message : messages) {
      if (message.tensor.numel() > 0)
        add(pending->traced.get(), *group_, message.peer,
            static_cast<int64_t>(message.tensor.nbytes()));
    }
  };
  note(send, &TracedTransfer::Sends);
  note(receive, &TracedTransfer::Receives);
  const base::TraceSpan span(kStartTransfer, {}, group_->name);
  RETURN_IF_ERROR(Run(pending->operation, [&] {
    // NCCL needs the sends and receives of one exchange in one batch; otherwise two ranks may each
    // wait for the other's kernel. A batch has one work object; an empty batch has none.
    const auto on_gpu = [](const Message& message) {
      return message.tensor.is_cuda() && message.tensor.numel() > 0;
    };
    const bool batch = std::any_of(send.begin(), send.end(), on_gpu) ||
                       std::any_of(receive.begin(), receive.end(), on_gpu);
    const auto post = [&](const std::vector<Message>& messages, const auto& start) {
      std::vector<int> next_tag(size(), 0);
      for (const Message& message : messages) {
        const int tag = next_tag[message.peer]++;
        if (message.tensor.numel() == 0) continue;
        std::vector<at::Tensor> one = {message.tensor};
        auto work = start(*BackendFor(*group_, message.tensor), one, message.peer, tag);
        if (work != nullptr && !on_gpu(message)) pending->works.push_back(std::move(work));
      }
    };
    if (batch)
      TORCH_CHECK(group_->cuda != nullptr, "group '", group_->name,
                  "' was not made for tensors on a GPU");
    if (batch) group_->cuda->startCoalescing();
    post(receive, [](c10d::Backend& backend, std::vector<at::Tensor>& one, int peer, int tag) {
      return backend.recv(one, peer, tag);
    });
    post(send, [](c10d::Backend& backend, std::vector<at::Tensor>& one, int peer, int tag) {
      return backend.send(one, peer, tag);
    });
    if (!batch) return;
    if (auto work = group_->cuda->endCoalescing()) pending->works.push_back(std::move(work));
  }));
  for (std::vector<Message>* messages : {&send, &receive}) {
    for (Message& message : *messages) pending->tensors.push_back(std::move(message.tensor));
  }
  return Transfer(std::move(pending));
}

Communicator::Transfer::Transfer(std::unique_ptr<Pending> pending) : pending_(std::move(pending)) {}
Communicator::Transfer::Transfer(Transfer&&) noexcept = default;
Communicator::Transfer& Communicator::Transfer::operator=(Transfer&& other) noexcept {
  if (this != &other) {
    Wait().IgnoreError();
    pending_ = std::move(other.pending_);
  }
  return *this;
}
// Waits; the group keeps an error from Wait(), and its next call returns the error.
Communicator::Transfer::~Transfer() { Wait().IgnoreError(); }

absl::Status Communicator::Transfer::Wait() {
  if (pending_ == nullptr) return absl::OkStatus();
  const std::unique_ptr<Pending> pending = std::move(pending_);
  if (pending->group == nullptr) return absl::OkStatus();  // a group of one rank
  const TracedTransfer::Wait waiting(std::move(pending->traced));
  const InCall in_call(*pending->group, pending->operation);
  absl::Status status = absl::OkStatus();
  // Waits for all work objects, also after a failure, because memory must not be freed during a
  // transfer. On a broken group each wait ends at once.
  for (const auto& work : pending->works) {
    try {
      work->wait();
    } catch (const std::exception& exception) {
      Group& group = *pending->group;
      if (status.ok())
        status = group.broken.ok() ? Fail(group, pending->operation, exception) : group.broken;
    }
  }
  if (!status.ok()) return status;
  try {
    for (const auto& [come, wanted] : pending->arrivals) Bring(come, wanted);
    if (pending->finish) pending->finish();
  } catch (const std::exception& exception) {
    return Fail(*pending->group, pending->operation, exception);
  }
  return absl::OkStatus();
}

absl::Status Communicator::Barrier() {
  if (size() == 1) return absl::OkStatus();
  RETURN_IF_ERROR(Ready("barrier"));
  Count(CeilLog2(size()), 0);
  const TracedCall traced(*group_, kBarrierCall, 0);
  return Run("barrier", [&] { group_->cpu->barrier()->wait(); });
}

absl::StatusOr<std::vector<int64_t>> Communicator::Announce(const Announcement& announcement,
                                                            absl::Span<const int64_t> numbers) {
  if (size() == 1) return std::vector<int64_t>(numbers.begin(), numbers.end());
  RETURN_IF_ERROR(Ready(announcement.call));
  if (announcement.round == 0) ++group_->announced;
  const auto each = static_cast<int64_t>(numbers.size());
  at::Tensor everything = at::empty({size(), each}, at::kLong);
  auto* const all = everything.mutable_data_ptr<int64_t>();
  std::copy(numbers.begin(), numbers.end(), all + rank() * each);
  const auto bytes = (size() - 1) * each * static_cast<int64_t>(sizeof(int64_t));
  Count(size() - 1, bytes);
  const TracedCall traced(*group_, kAllGatherCall, bytes);
  const int tag = kAnnouncementTag + announcement.round;
  RETURN_IF_ERROR(Run(
      announcement.call,
      [&] {
        std::vector<c10::intrusive_ptr<Work>> works;
        // All works are waited for, also after a failure, because memory must not be freed during
        // a transfer.
        std::exception_ptr failure;
        const auto attempt = [&](const auto& step) {
          try {
            step();
          } catch (const std::exception&) {
            if (failure == nullptr) failure = std::current_exception();
          }
        };
        std::vector<at::Tensor> mine = {everything[rank()]};
        for (int step = 1; step < size(); ++step) {
          const int to = (rank() + step) % size(), from = (rank() - step + size()) % size();
          attempt([&] {
            std::vector<at::Tensor> theirs = {everything[from]};
            works.push_back(group_->cpu->recv(theirs, from, tag));
          });
          attempt([&] { works.push_back(group_->cpu->send(mine, to, tag)); });
        }
        for (const auto& work : works) attempt([&] { work->wait(); });
        if (failure != nullptr) std::rethrow_exception(failure);
      },
      &announcement));
  return std::vector<int64_t>(all, all + everything.numel());
}

absl::Status Communicator::Agree(const absl::Status& mine) {
  if (size() == 1) return mine;
  at::Tensor code_of_rank = at::zeros({size()}, at::kLong);
  code_of_rank.mutable_data_ptr<int64_t>()[rank()] = mine.raw_code();
  const absl::Status reached = AllReduceSum(code_of_rank);
  if (!reached.ok()) return mine.ok() ? reached : mine;
  const int64_t* codes = code_of_rank.const_data_ptr<int64_t>();
  const int failed = static_cast<int>(
      std::find_if(codes, codes + size(), [](int64_t code) { return code != 0; }) - codes);
  if (failed == size()) return absl::OkStatus();
  // Broadcasts the message of the first failed rank, so that every rank can report it.
  constexpr int64_t kMost = 1024;
  at::Tensor words = at::zeros({kMost}, at::kByte);
  const std::string text(mine.message().substr(0, kMost));
  if (failed == rank()) std::memcpy(words.mutable_data_ptr(), text.data(), text.size());
  const absl::Status heard = Broadcast(words, failed);
  if (!mine.ok()) return mine;
  const auto* begin = static_cast<const char*>(words.const_data_ptr());
  const std::string message =
      heard.ok() ? std::string(begin, strnlen(begin, kMost)) : std::string(heard.message());
  return absl::Status(static_cast<absl::StatusCode>(codes[failed]),
                      absl::StrCat("rank ", failed, ": ", message));
}

}  // namespace moonring::comm
