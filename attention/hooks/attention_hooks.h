#ifndef MOONRING_ATTENTION_HOOKS_ATTENTION_HOOKS_H_
#define MOONRING_ATTENTION_HOOKS_ATTENTION_HOOKS_H_

// Functions of a script inside one layer's attention. They read or replace q, k and v, add a bias
// to the scores, or choose blocks of keys:
//
//   out_t = sum_s softmax_s(score(q_t . k_s) + bias_hts) v_s   over the tokens s that the layer's
//                                                              mask allows and that lie in a block
//                                                              which `blocks` chose for t and h
//
// With `bias` or `blocks` attention is composed of PyTorch operators, tile by tile of queries
// (composed_attention.h), instead of a fused kernel.
//
// Functions run in the forward and again in the backward, where activations are recomputed, so they
// must be pure: the same inputs give the same results. HookRecord detects most that are not.

#include <cstdint>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include <ATen/core/Tensor.h>

#include "attention/kernels/block_attention.h"

namespace moonring::attention {

using NamedTensors = std::vector<std::pair<std::string, at::Tensor>>;

// A tile: some queries of one document, and the keys of this document that any of them may attend
// to. A key's place is its index among the document's keys, tokens of its parents (mask.h) first.
// The keys of a tile are those at the places 0 .. N - 1; N is larger for later queries.
struct HookTile {
  int64_t layer = 0;     // from 0
  int64_t document = 0;  // index in the stream, from 0
  QueryKeyValue keys;    // q [M, H, D], k [N, Hk, D], v [N, Hk, Dv], in AccumulateType
  at::Tensor places_M;   // int64: the place of each query
  NamedTensors rows;     // of AttentionHooks::rows, for the N keys
  NamedTensors given;
};

struct AttentionHooks {
  // Returns q, k and v of the same shapes and dtypes. Gets this rank's tokens, perhaps none.
  std::function<QueryKeyValue(const QueryKeyValue& rows, const NamedTensors& given)> qkv;
  // Returns tensors [T_local, ...] of this rank's tokens, computed from the layer's input hidden_TD
  // [T_local, D]. They are gathered like the keys, for `bias` and `blocks`. Every rank must return
  // the same names, also for no tokens.
  std::function<NamedTensors(const at::Tensor& hidden_TD, const NamedTensors& given)> rows;
  // Returns a tensor that broadcasts to [H, M, N], added to the scores after scale and softcap.
  std::function<at::Tensor(const HookTile& tile)> bias;
  // Returns bool [M or 1, H or Hk or 1, ceil(N / block_size)]: whether a query attends to the keys
  // of a block. Runs without autograd. Each query needs one key at least that it may attend to.
  std::function<at::Tensor(const HookTile& tile)> blocks;
  int64_t block_size = 0;

  bool composes() const { return bias != nullptr || blocks != nullptr; }
};

}  // namespace moonring::attention

#endif  // MOONRING_ATTENTION_HOOKS_ATTENTION_HOOKS_H_
