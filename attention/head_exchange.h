#ifndef MOONRING_ATTENTION_HEAD_EXCHANGE_H_
#define MOONRING_ATTENTION_HEAD_EXCHANGE_H_

// ulysses: an all-to-all turns a rank's tokens with all heads into all its context place's tokens
// with the rank's heads (head_split.h), and the inverse brings results home (DeepSpeed Ulysses,
// arXiv:2309.14509). Between the two, attention is that of fewer heads: over one context place
// dense attention, over several what the context axis does.
//
// Any number of heads and ranks, heads in groups or not: a kv head goes once to each rank that
// computes one of its query heads, and is never repeated in memory. q, k and v go in one exchange,
// each rank's part in one piece. The adjoint of an exchange is its inverse, with no scaling; that
// of sending a kv head to several ranks is the sum of what they send back.
//
// Cost for T tokens of a context place, Pu ranks, heads that split evenly: 2 exchanges of Pu - 1
// steps each way, (Pu-1)/Pu^2 T (D + Dv) e (H + Hk') bytes sent per rank forward, Hk' = max(Hk,
// Pu); backward the same, kv heads that are shared with their gradients in AccumulateType. Balance:
// perfect where Pu divides H, else ceil(H / Pu) Pu / H. Bit-equal to dense attention forward.
// Memory, per rank: its heads of q, k, v for the place's tokens, kept for the backward, and as much
// again while they travel.

#include <memory>
#include <vector>

#include <ATen/core/Tensor.h>

#include "attention/block_attention.h"
#include "attention/head_split.h"
#include "comm/communicator.h"
#include "comm/layout.h"

namespace moonring::attention {

// What a rank holds of the heads between the two exchanges: views of one buffer [T, E], whose rows
// are the q heads, the k heads and the v heads, each of its own size (RankHeads::packed).
QueryKeyValue Unpacked(const at::Tensor& packed_TE, const RankHeads& rank, const HeadDims& dims);

class HeadExchange {
 public:
  // The ranks of `rank`'s context place.
  HeadExchange(const comm::Layout& layout, int rank, std::shared_ptr<comm::Communicator> group);

  int ranks() const { return static_cast<int>(peers_.size()); }
  int head_place() const { return own_; }

  // All ranks' local rows of this rank's heads of q, k and v, packed: [T, E].
  at::Tensor ToHeads(const QueryKeyValue& local, const std::vector<RankHeads>& split) const;
  // The same of rows with query heads alone: [T_local, H, D] -> [T, query heads, D].
  at::Tensor ToHeads(const at::Tensor& local_THD, const std::vector<RankHeads>& split) const;

  // Rows of this rank's query heads, [T, query heads, D] -> the local rows of all heads [T_local,
  // H, D].
  at::Tensor ToTokens(const at::Tensor& rows_THD, const std::vector<RankHeads>& split) const;
  // Gradients, packed as by ToHeads -> those of the local rows, summed over the ranks that had a kv
  // head.
  QueryKeyValue PackedToTokens(const at::Tensor& packed_TE, const std::vector<RankHeads>& split,
                               const HeadDims& dims) const;

 private:
  // parts[p]: what head place p gets, [T_local, heads, D] each; in all `elements_of[p]` of a row.
  at::Tensor Gather(const std::vector<std::vector<at::Tensor>>& parts,
                    const std::vector<int64_t>& elements_of) const;
  // The inverse: by head place [T_local, elements_of[p]].
  std::vector<at::Tensor> Scatter(const at::Tensor& rows_TE,
                                  const std::vector<int64_t>& elements_of) const;

  std::shared_ptr<comm::Communicator> group_;
  std::vector<int> peers_;          // by head place
  std::vector<int64_t> tokens_;     // by head place
  std::vector<int64_t> first_row_;  // of their tokens among the place's
  int own_ = 0;
};

}  // namespace moonring::attention

#endif  // MOONRING_ATTENTION_HEAD_EXCHANGE_H_
