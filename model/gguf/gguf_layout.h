#ifndef MOONRING_MODEL_GGUF_GGUF_LAYOUT_H_
#define MOONRING_MODEL_GGUF_GGUF_LAYOUT_H_

// The mapping between a Hugging Face model's weights and the tensors of a GGUF file: their names,
// and how a weight is assembled from tensors. The same table serves reading (gguf_model.h) and
// writing (checkpoint/save_gguf.h); gguf_parts.h has the conversions of the numbers. In this list,
// "file" is GGUF's form and "here" is Hugging Face's:
//
//   interleaved heads   in the file rows (2i, 2i + 1) of a head form a rotary pair, here rows
//                       (i, i + head_dim / 2): the rows of q and k are reordered (llama, granite,
//                       internlm2)
//   norms with one      the file has 1 + w (gemma; in qwen3next and qwen35 all norms except that of
//                       the results of a delta rule)
//   taps [C, W] in the file, [C, 1, W] here (lfm2)
//   a delta rule's      the decay's A is -exp(A) in the file; there queries, keys and values of all
//                       heads are in one tensor and gates in another, here all are grouped by key
//                       head (qwen3next)
//   value heads         with G key heads of R value heads each, value head r of key head g has
//                       index r G + g in the file and g R + r here: applies to the rows of the maps
//                       of values, gates, beta and decay, and to the columns of the output map
//                       (qwen35, qwen35moe)
//   experts             all of a layer's experts are stacked: gates, ups and downs in separate
//                       tensors [E, rows, columns], even if one tensor here has gates above ups, or
//                       both interleaved (gpt-oss)
//   one map of three    queries, keys and values are separate in the file (internlm2)
//   latents' map        the rows for keys and for values are separate in newer files, the former as
//                       [heads, rank, rows] (deepseek2)

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "model/config/config.h"

namespace moonring::model {

// How a weight is assembled from tensors.
enum class GgufParts {
  kOne,
  kExpert,      // a slice of the first dim
  kKvHeads,     // for each kv head the queries, the key, the value
  kTransposed,  // [E, rows, columns] transposed
  kHalves,      // two [E, rows, columns], concatenated along the rows
  kTurns,       // two [E, rows, columns] with interleaved rows, then transposed; or two [E, rows]
  kKeyValueUp,  // per head: [H, rank, plain] transposed, then [H, value, rank]
  kRow,         // [D] as [1, D]
  kTaps,        // [C, W] as [C, 1, W]
  kKeyHeads,    // for each key head in turn: query, key, values, their gates
};

// Position of the value heads in a tensor that stores them in another order: along `dim`, from
// index `first` on, with `width` numbers per head.
struct GgufValueHeads {
  int64_t dim = 0, first = 0, width = 1;
};

// The GGUF tensors from which a weight is assembled.
struct GgufSource {
  std::vector<std::string> tensors;
  GgufParts parts = GgufParts::kOne;
  int expert = 0;
  bool norm = false;  // a norm that the file may store as 1 + w
  // Per tensor: number of heads whose rows are interleaved; empty or 0: no rows are reordered.
  std::vector<int64_t> interleaved_heads;
  std::optional<GgufValueHeads> tiled;
  bool negated_exponential = false;  // the file stores -exp(A) of the value A here
};

// Returns the GGUF tensors of all weights that the config may have (including a tied head), by
// Hugging Face name, from the embedding to the head. `has(tensor)` returns whether a file has a
// tensor; it selects the form of files that older converters wrote, so a `has` that always returns
// false selects the newest form, which this project writes. The config's family must have a GGUF
// name.
std::vector<std::pair<std::string, GgufSource>> GgufSources(
    const ModelConfig& config, const std::function<bool(const std::string& tensor)>& has);

// Names of tensors with factors of the rotary embedding. They belong to the config, not to the
// weights.
inline constexpr char kRopeFrequencies[] = "rope_freqs.weight";
inline constexpr char kRopeLongFactors[] = "rope_factors_long.weight";
inline constexpr char kRopeShortFactors[] = "rope_factors_short.weight";

// Whether llama.cpp keeps a tensor in fp32 whatever the file's type is. True for norms, biases and
// other tensors of one dim, routers, and convolution filters.
bool IsWideInGguf(const std::string& tensor, size_t dims);

}  // namespace moonring::model

#endif  // MOONRING_MODEL_GGUF_GGUF_LAYOUT_H_
