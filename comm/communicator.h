#ifndef MOONRING_COMM_COMMUNICATOR_H_
#define MOONRING_COMM_COMMUNICATOR_H_

// One interface over c10d for a group of P ranks: Gloo for tensors on the host, NCCL for tensors on
// a GPU.
//
// With MOONRING_EXCHANGE=host tensors on a GPU go by Gloo too, through pinned memory of the host:
// ranks may then share a GPU. Each call then also waits until the GPU has made what is sent, and
// costs a copy each way.
//
// Every rank of a group makes the same calls in the same order (Exchange: matching ones). A call
// blocks until it is done (on a GPU: is enqueued on the current stream), unless it says otherwise.
// A group of one does nothing.
//
//   call              steps          bytes_sent by a rank, for n bytes of tensor
//   AllReduceSum/Max  2 (P-1)        2 (P-1)/P n            ring
//   Broadcast         ceil(log2 P)   n for each child       binomial tree: P-1 sends in all
//   AllToAll          P-1            its rows for others
//   AllGather         P-1            (P-1) times its rows   directly, so uneven rows cost nothing
//   ReduceScatterSum  P-1            its rows for others    directly too; memory: its own rows P-1
//                                    times more
//   Exchange          peers          what it sends to others. Peers: the ranks it sends to, or
//                                    those it receives from if more
//   Barrier           ceil(log2 P)   0
//   Agree             2 (P-1)        as an AllReduceSum of P int64; where a rank failed also a
//                                    Broadcast of 1 KiB
// Counted from this table, not measured; an empty tensor costs nothing.
//
// On a GPU, parts that are equal on all ranks are gathered and reduced by NCCL's own collectives,
// on the group's stream, which the current one waits for in Wait() alone; others by sends and
// receives. NCCL adds in an order of its own.
//
// Failures. Each wait has the group's deadline. A call that fails gives UNAVAILABLE (a peer died,
// left, or announced a failure) or DEADLINE_EXCEEDED, naming operation, group, rank and cause; the
// group is then broken, and every later call gives the same error at once. See liveness.h for how
// the other ranks learn of it. Wrong shapes and dtypes are the caller's mistake and throw
// c10::Error before anything is sent.

#include <cstdint>
#include <functional>
#include <memory>
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

  // In place, on every rank the same shape: fp32, fp64, bf16, fp16 (added in that dtype), int64,
  // int32, uint8. The result is bit-equal on all ranks.
  absl::Status AllReduceSum(at::Tensor& t);
  absl::Status AllReduceMax(at::Tensor& t);
  absl::Status Broadcast(at::Tensor& t, int root);

  // Rows of dim 0: the first send_rows[0] go to rank 0, and so on; returned are receive_rows[r]
  // rows from each rank r, in the order of ranks. send_rows[b] on rank a equals receive_rows[a] on
  // rank b. Zero rows are fine.
  absl::StatusOr<at::Tensor> AllToAll(const at::Tensor& rows, absl::Span<const int64_t> send_rows,
                                      absl::Span<const int64_t> receive_rows);

  // Everybody's rows: [rows_of_rank[r], ...] from each rank r. Views of one buffer.
  absl::StatusOr<std::vector<at::Tensor>> AllGather(const at::Tensor& rows,
                                                    absl::Span<const int64_t> rows_of_rank);

  // Adds up everybody's tensor and parts the sum: rank r is given rows_of_rank[r] rows of it, in
  // order. Added in the tensor's dtype, by Gloo in the order of ranks: the same to the bit at each
  // run.
  absl::StatusOr<at::Tensor> ReduceScatterSum(const at::Tensor& rows,
                                              absl::Span<const int64_t> rows_of_rank);

  // A transfer under way. It keeps its tensors alive. Wait() ends it; so does the destructor,
  // leaving a failure to the group's next call.
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
    std::unique_ptr<Pending> pending_;  // null once waited for
  };

  struct Message {
    at::Tensor tensor;
    int peer;
  };

  // Starts sending to any ranks and receiving (into contiguous tensors) from any, receives posted
  // first. The i-th tensor sent to a rank arrives in the i-th that it receives from this one, of
  // the same size; empty ones are skipped on both sides. Until Wait() the sent must not be written
  // and the received not be read. Messages to this rank itself are copied at once. Several
  // transfers may be under way; between any two ranks they must be started in the same order on
  // both.
  absl::StatusOr<Transfer> Exchange(std::vector<Message> send, std::vector<Message> receive);

  // Starts an AllGather into `whole`, which is contiguous and holds this rank's rows in their
  // place: when Wait() is done it holds everybody's. Of several tensors in one transfer: P-1 steps
  // in all. Until then none of their rows may be written or others' read.
  struct Gathered {
    at::Tensor whole;
    std::vector<int64_t> rows_of_rank;
  };
  absl::StatusOr<Transfer> StartAllGather(const std::vector<Gathered>& tensors);

  // Starts a ReduceScatterSum: `sum` is this rank's when the transfer's Wait() is done. Until then
  // the rows must not be written.
  struct Reduction;
  absl::StatusOr<Reduction> StartReduceScatterSum(const at::Tensor& rows,
                                                  absl::Span<const int64_t> rows_of_rank);

  // Starts an AllReduceSum of a contiguous tensor: done when the transfer's Wait() is. Until then
  // nobody may read or write it. By Gloo the group's other calls wait behind it.
  absl::StatusOr<Transfer> StartAllReduceSum(at::Tensor& t);

  // Whether equal parts of tensors on that device go by collectives of the backend: then gathering
  // all from all is better than what each needs by itself.
  bool HasCollectives(const at::Device& device) const;

  absl::Status Barrier();

  // All ranks learn whether any has failed: OK where none has; `mine` where it is bad; else the
  // first failed rank's error, naming it. Every rank must call it, wherever it failed.
  absl::Status Agree(const absl::Status& mine);

  struct Counters {
    int64_t steps = 0, bytes_sent = 0;
  };
  Counters counters() const { return counters_; }

 private:
  // The error of a broken group.
  absl::Status Ready(absl::string_view operation) const;
  // Runs `call`, whose exceptions break the group.
  absl::Status Run(absl::string_view operation, const std::function<void()>& call);
  absl::Status AllReduce(absl::string_view operation, at::Tensor& t, bool max);
  // Throws where a group's ranks do not part the rows of `t`.
  void CheckRows(absl::string_view operation, const at::Tensor& t,
                 absl::Span<const int64_t> rows_of_rank) const;
  void Count(int64_t steps, int64_t bytes);
  // Whether all ranks' parts of `t` are equal, and a collective takes them.
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
