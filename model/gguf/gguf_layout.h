#ifndef MOONRING_MODEL_GGUF_GGUF_LAYOUT_H_
#define MOONRING_MODEL_GGUF_GGUF_LAYOUT_H_

// How a Hugging Face model lies in a GGUF file: which tensors each of its weights is made of, by
// name, and how. The one table, for files that are read (gguf_model.h) and written (gguf_export.h);
// what the numbers go through on either way is in gguf_parts.h.
//
//   interleaved heads   rows (2i, 2i + 1) of a head turn as a pair there, rows (i, i + head_dim /
//                       2) here: the rows of q and k are put in that order (llama, granite,
//                       internlm2)
//   norms with one      the file has 1 + w (gemma; of qwen3next and qwen35 all but that of a delta
//                       rule's results)
//   taps                [C, W] there, [C, 1, W] here (lfm2)
//   a delta rule's      the decay's A is -exp(A) there; queries, keys and values of all heads lie
//   in
//                       one tensor and gates in another, here by key head (qwen3next)
//   value heads         of G key heads' R value heads each the r-th of all come together there, r G
//                       + g, here those of a key head, g R + r: rows of what makes values, gates,
//                       beta and decay, columns of the output map (qwen35, qwen35moe)
//   experts             all of a layer's lie in one tensor: gates, ups and downs apart, [E, rows,
//                       columns], also where one tensor here has gates above ups, or both by turns
//                       (gpt-oss)
//   one map of three    queries, keys and values lie apart (internlm2)
//   latents' map        what it makes keys of and what values lie apart in newer files, the former
//                       [heads, rank, rows] (deepseek2)

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "model/config/config.h"

namespace moonring::model {

// How a weight is put together.
enum class GgufParts {
  kOne,
  kExpert,      // a slice of the first dim
  kKvHeads,     // of each kv head the queries, the key, the value
  kTransposed,  // [E, rows, columns] turned
  kHalves,      // two [E, rows, columns], one's rows above the other's
  kTurns,       // two [E, rows, columns], their rows by turns, and turned; or two [E, rows]
  kKeyValueUp,  // [H, rank, plain] turned above [H, value, rank], by head
  kRow,         // [D] as [1, D]
  kTaps,        // [C, W] as [C, 1, W]
  kKeyHeads,    // of each key head its query, its key, its values, their gates
};

// The value heads along `dim`, from `first` on, `width` numbers each, in the file's order.
struct GgufValueHeads {
  int64_t dim = 0, first = 0, width = 1;
};

// What a weight is made of.
struct GgufSource {
  std::vector<std::string> tensors;
  GgufParts parts = GgufParts::kOne;
  int expert = 0;
  bool norm = false;                       // of the kind that may have one more in the file
  std::vector<int64_t> interleaved_heads;  // of each tensor; none or 0: its rows are in order
  std::optional<GgufValueHeads> tiled;
  bool negated_exponential = false;  // there, of what is here
};

// By Hugging Face name, from the embedding to the head, of all that the config may have (a head
// where it is tied, too). `has` says which tensors a file has, where older files have another one
// than newer; those that are written are newer: it says no to all. The config's family must have a
// name in GGUF.
std::vector<std::pair<std::string, GgufSource>> GgufSources(
    const ModelConfig& config, const std::function<bool(const std::string& tensor)>& has);

// Tensors that config.json is made of: factors of the rotary embedding.
inline constexpr char kRopeFrequencies[] = "rope_freqs.weight";
inline constexpr char kRopeLongFactors[] = "rope_factors_long.weight";
inline constexpr char kRopeShortFactors[] = "rope_factors_short.weight";

// What llama.cpp keeps in fp32 whatever the others are in: norms, biases and other tensors of one
// dim, routers, taps.
bool IsWideInGguf(const std::string& tensor, size_t dims);

}  // namespace moonring::model

#endif  // MOONRING_MODEL_GGUF_GGUF_LAYOUT_H_
