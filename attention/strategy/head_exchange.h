#ifndef MOONRING_ATTENTION_STRATEGY_HEAD_EXCHANGE_H_
#define MOONRING_ATTENTION_STRATEGY_HEAD_EXCHANGE_H_

// ulysses: an all-to-all exchange gives each rank all tokens of its context rank (its index along
// the context axis) for a share of the heads (head_split.h), in place of its local tokens for all
// heads. The inverse exchange returns the results (DeepSpeed Ulysses, arXiv:2309.14509). Between
// the two exchanges, attention runs on this share of the heads: dense attention where the context
// axis has one rank, else attention along the context axis.
//
// Any number of heads and ranks is supported, with grouped-query attention or without: a kv head is
// sent once to each rank that computes one of its query heads, and is never repeated in memory. q,
// k and v travel in one exchange, with one message per rank. The backward of an exchange is the
// inverse exchange of the gradients, without scaling. Where a kv head was sent to several ranks,
// its gradient is the sum of their gradients.
//
// Cost for T tokens of a context rank and Pu ranks among which heads split evenly: 2 exchanges of
// Pu - 1 steps each in the forward; (Pu-1)/Pu^2 T (D + Dv) e (H + Hk') bytes sent per rank, where H
// and Hk are the query and kv heads, Hk' = max(Hk, Pu), D and Dv the head dims of keys and values,
// and e the bytes of an element. The backward is the same, with the gradients of shared kv heads in
// AccumulateType. Balance of work: perfect where Pu divides H, else ceil(H / Pu) Pu / H. The
// forward is bit-equal to dense attention. Memory per rank: q, k and v of its heads for all tokens
// of the context rank, kept for the backward, and as much again during the exchange.

#include <memory>
#include <vector>

#include <ATen/core/Tensor.h>

#include "attention/kernels/block_attention.h"
#include "attention/kernels/head_split.h"
#include "comm/communicator.h"
#include "comm/layout.h"

namespace moonring::attention {

// Returns q, k and v between the two exchanges, as views of one buffer [T, E]. Each row of the
// buffer has the rank's q heads, then its k heads, then its v heads; E = RankHeads::packed.
QueryKeyValue Unpacked(const at::Tensor& packed_TE, const RankHeads& rank, const HeadDims& dims);

class HeadExchange {
 public:
  // An exchange between the ranks that have the same context rank as `rank`.
  HeadExchange(const comm::Layout& layout, int rank, std::shared_ptr<comm::Communicator> group);

  int ranks() const { return static_cast<int>(peers_.size()); }
  int head_place() const { return own_; }

  // Sends this rank's rows of q, k and v to the ranks of their heads. Returns all ranks' rows for
  // this rank's heads, packed (Unpacked): [T, E].
  at::Tensor ToHeads(const QueryKeyValue& local, const std::vector<RankHeads>& split) const;
  // As above, for q or a tensor of its shape only: [T_local, H, D] -> [T, query heads of this rank,
  // D].
  at::Tensor ToHeads(const at::Tensor& local_THD, const std::vector<RankHeads>& split) const;

  // The inverse exchange: from all rows of this rank's query heads, [T, query heads of this rank,
  // D], to this rank's rows of all heads, [T_local, H, D].
  at::Tensor ToTokens(const at::Tensor& rows_THD, const std::vector<RankHeads>& split) const;
  // Gradients in the packed form of ToHeads -> gradients of the local rows, summed over the ranks
  // that share a kv head.
  QueryKeyValue PackedToTokens(const at::Tensor& packed_TE, const std::vector<RankHeads>& split,
                               const HeadDims& dims) const;

 private:
  // parts[p]: tensors to send to rank p of the heads axis, each [T_local, heads, D]; together they
  // have elements_of[p] elements per row.
  at::Tensor Gather(const std::vector<std::vector<at::Tensor>>& parts,
                    const std::vector<int64_t>& elements_of) const;
  // The inverse of Gather. Returns for each rank p of the heads axis a tensor [T_local,
  // elements_of[p]].
  std::vector<at::Tensor> Scatter(const at::Tensor& rows_TE,
                                  const std::vector<int64_t>& elements_of) const;

  std::shared_ptr<comm::Communicator> group_;
  std::vector<int> peers_;          // by head rank
  std::vector<int64_t> tokens_;     // by head rank
  std::vector<int64_t> first_row_;  // by head rank: index of its first row among the context
                                    // rank's rows
  int own_ = 0;
};

}  // namespace moonring::attention

#endif  // MOONRING_ATTENTION_STRATEGY_HEAD_EXCHANGE_H_
