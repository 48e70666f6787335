#ifndef MOONRING_COMM_COMMUNICATOR_H_
#define MOONRING_COMM_COMMUNICATOR_H_

// Collectives of a group of P ranks over c10d backends: Gloo for tensors on the host, NCCL for
// tensors on a GPU.
//
// With MOONRING_EXCHANGE=host tensors on a GPU also use Gloo, through pinned host memory, so that
// ranks may share a GPU. Each call then also waits until the GPU has computed the data to send, and
// costs one copy in each direction.
//
// Every rank of a group makes the same calls in the same order (for Exchange: matching calls). A
// call returns when it is done (on a GPU: when it is enqueued on the current stream), unless stated
// otherwise. A group of one rank communicates nothing.
//
//   call              steps          bytes_sent by a rank, for n bytes of tensor
//   AllReduceSum/Max  2 (P-1)        2 (P-1)/P n            ring
//   Broadcast         ceil(log2 P)   n for each child       binomial tree: P-1 sends in all
//   AllToAll          P-1            its rows for others
//   AllGather         P-1            (P-1) times its rows   direct sends: uneven rows cost no extra
//   ReduceScatterSum  P-1            its rows for others    direct sends too; memory: P-1 more
//                                    copies of its own rows
//   Exchange          peers          what it sends to others. Peers: the ranks it sends to, or
//                                    those it receives from if more
//   Barrier           ceil(log2 P)   0
//   Announce          P-1            (P-1) times its numbers
//   Agree             2 (P-1)        as an AllReduceSum of P int64; if a rank failed also a
//                                    Broadcast of 1 KiB
// The numbers are computed from this table, not measured; an empty tensor costs nothing.
//
// On a GPU, shards of equal size on all ranks are gathered and reduced by NCCL's own collectives,
// on the group's stream; the current stream waits for it only in Wait(). Shards of unequal size use
// sends and receives. NCCL chooses the order of its additions itself.
//
// Failures. Each wait is bounded by the group's deadline. A failed call returns UNAVAILABLE (a peer
// died, left, or announced a failure) or DEADLINE_EXCEEDED; the message names operation, group,
// rank and cause. The group is then broken, and every later call returns the same error at once.
// See liveness.h for how the other ranks are notified. Wrong shapes and dtypes are the caller's
// mistakes and throw c10::Error before anything is sent.

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include <ATen/core/Tensor.h>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"

namespace moonring::comm {

struct Group;

class Communicator {
 public:
  explicit Communicator(std::shared_ptr<Group> group);
  static std::shared_ptr<Communicator> Alone();  // rank 0 of 1

  int rank() const;
  int size() const;
  int world_rank(int rank) const;  // the number in the world of a rank of this group

  // These three calls overwrite `t`, which has the same shape on every rank. Dtypes: fp32, fp64,
  // bf16, fp16 (added in that dtype), int64, int32, uint8. The result is bit-equal on all ranks.
  absl::Status AllReduceSum(at::Tensor& t);
  absl::Status AllReduceMax(at::Tensor& t);
  absl::Status Broadcast(at::Tensor& t, int root);

  // Exchanges rows of dim 0. The first send_rows[0] rows go to rank 0, the next send_rows[1] rows
  // to rank 1, and so on. Returns receive_rows[r] rows from each rank r, in the order of ranks.
  // send_rows[b] on rank a must equal receive_rows[a] on rank b. Counts may be zero.
  absl::StatusOr<at::Tensor> AllToAll(const at::Tensor& rows, absl::Span<const int64_t> send_rows,
                                      absl::Span<const int64_t> receive_rows);

  // The rows of all ranks: [rows_of_rank[r], ...] from each rank r, as views of one buffer.
  absl::StatusOr<std::vector<at::Tensor>> AllGather(const at::Tensor& rows,
                                                    absl::Span<const int64_t> rows_of_rank);

  // Sums the tensors of all ranks and shards the sum: rank r gets rows_of_rank[r] rows of it, in
  // order. Sums are computed in the tensor's dtype; Gloo adds in the order of ranks, so every run
  // gives the same bits.
  absl::StatusOr<at::Tensor> ReduceScatterSum(const at::Tensor& rows,
                                              absl::Span<const int64_t> rows_of_rank);

  // A transfer in progress. It keeps its tensors alive. Wait() completes it. The destructor also
  // completes it; then the group's next call returns the error, if any.
  class Transfer {
   public:
    Transfer(Transfer&&) noexcept;
    Transfer& operator=(Transfer&&) noexcept;
    ~Transfer();
    absl::Status Wait();

   private:
    friend class Communicator;
    struct Pending;
    explicit Transfer(std::unique_ptr<Pending> pending);
    std::unique_ptr<Pending> pending_;  // null after Wait()
  };

  struct Message {
    at::Tensor tensor;
    int peer;
  };

  // Starts sending to and receiving from any ranks; the receives (into contiguous tensors) are
  // posted first. The i-th tensor sent to a rank arrives in the i-th tensor that it receives from
  // this rank, which has the same size; empty tensors are skipped on both sides. Until Wait() the
  // sent tensors must not be written and the received ones must not be read. Messages to this rank
  // itself are copied at once. Several transfers may be in progress; two ranks must start the
  // transfers between them in the same order.
  absl::StatusOr<Transfer> Exchange(std::vector<Message> send, std::vector<Message> receive);

  // Starts an AllGather into `whole`, a contiguous tensor that already contains this rank's rows at
  // their position; after Wait() it contains the rows of all ranks. Several tensors may share one
  // transfer: P-1 steps in all. Until Wait() this rank's rows must not be written and the others'
  // rows must not be read.
  struct Gathered {
    at::Tensor whole;
    std::vector<int64_t> rows_of_rank;
  };
  absl::StatusOr<Transfer> StartAllGather(const std::vector<Gathered>& tensors);

  // Starts a ReduceScatterSum: `sum` is valid after the transfer's Wait(). Until then `rows` must
  // not be written.
  struct Reduction;
  absl::StatusOr<Reduction> StartReduceScatterSum(const at::Tensor& rows,
                                                  absl::Span<const int64_t> rows_of_rank);

  // Starts an AllReduceSum of a contiguous tensor; it is done after the transfer's Wait(). Until
  // then the tensor must not be read or written. With Gloo the group's later calls run after this
  // one is done.
  absl::StatusOr<Transfer> StartAllReduceSum(at::Tensor& t);

  // Whether shards of equal size on `device` use the backend's own collectives. If so, gathering
  // everything from all ranks is better than fetching only what each rank needs.
  bool HasCollectives(const at::Device& device) const;

  absl::Status Barrier();

  // Gathers a few numbers, as many from each rank, in the order of ranks. Its messages have tags of
  // their own, so they never meet those of another call. While round 0 waits, `published` is what
  // other ranks see (liveness.h). For comm/matched_call.h.
  struct Announcement {
    std::string call;       // its name in errors
    std::string published;  // its name for other ranks
    int round = 0;          // 1: a further exchange about the same call
  };
  absl::StatusOr<std::vector<int64_t>> Announce(const Announcement& announcement,
                                                absl::Span<const int64_t> numbers);

  // Reports a failure on any rank to all ranks: returns OK if no rank failed, `mine` if it is an
  // error, and otherwise the error of the first failed rank, naming that rank. Every rank must call
  // it, whether or not it failed.
  absl::Status Agree(const absl::Status& mine);

  struct Counters {
    int64_t steps = 0, bytes_sent = 0;
  };
  Counters counters() const { return counters_; }

 private:
  // Returns OK, or the group's error if the group is broken.
  absl::Status Ready(absl::string_view operation) const;
  // Runs `call`; an exception from it breaks the group.
  absl::Status Run(absl::string_view operation, const std::function<void()>& call,
                   const Announcement* announcement = nullptr);
  absl::Status AllReduce(absl::string_view operation, at::Tensor& t, bool max);
  // Throws unless rows_of_rank has one count per rank and the counts add up to the rows of `t`.
  void CheckRows(absl::string_view operation, const at::Tensor& t,
                 absl::Span<const int64_t> rows_of_rank) const;
  void Count(int64_t steps, int64_t bytes);
  // Whether the shards of `t` have the same size on all ranks and a backend collective handles
  // them.
  bool IsEven(const at::Tensor& t, absl::Span<const int64_t> rows_of_rank) const;

  std::shared_ptr<Group> group_;
  Counters counters_;
};

struct Communicator::Reduction {
  at::Tensor sum;
  Transfer transfer;
};

}  // namespace moonring::comm

#endif  // MOONRING_COMM_COMMUNICATOR_H_
