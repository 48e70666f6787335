#ifndef MOONRING_MODEL_GGUF_GGUF_MODEL_H_
#define MOONRING_MODEL_GGUF_GGUF_MODEL_H_

// A GGUF file as a Hugging Face model: its weights under their published names, and with their rows
// in the published order:
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
//                       columns], also where one tensor here has gates and ups by turns (gpt-oss)
//   one map of three    queries, keys and values lie apart (internlm2)
//   latents' map        what it makes keys of and what values lie apart in newer files, the former
//                       [heads, rank, rows] (deepseek2)
//
// Layers that predict further tokens, after the model's own, are left out.
//
// A weight's blocks can stay as they are (CodeOf) where it is made of whole rows of tensors of one
// quantised type: heads' rows in another order, one map of three, and experts are; what is turned,
// or has numbers taken off, is read.

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "comm/packed/weight_code.h"
#include "model/config/config.h"
#include "model/files/weight_store.h"
#include "model/gguf/gguf.h"
#include "model/gguf/gguf_types.h"

namespace moonring::model {

class GgufModel : public WeightStore {
 public:
  // UNIMPLEMENTED for another architecture, rope scaling or element type; INVALID_ARGUMENT where
  // the metadata contradict themselves or the tensors.
  static absl::StatusOr<std::unique_ptr<GgufModel>> Open(std::shared_ptr<const GgufFile> file);

  const ModelConfig& config() const { return config_; }
  const GgufFile& file() const { return *file_; }
  const std::map<std::string, StoredWeight>& weights() const override { return weights_; }
  absl::StatusOr<at::Tensor> Read(const std::string& name) const override;
  std::shared_ptr<const comm::WeightCode> CodeOf(const std::string& name) const override;
  absl::StatusOr<comm::PackedWeight> ReadPacked(const std::string& name) const override;

 private:
  // How a weight is put together.
  enum class Parts {
    kOne,
    kExpert,      // a slice of the first dim
    kKvHeads,     // of each kv head the queries, the key, the value
    kTransposed,  // [E, rows, columns] turned
    kTurns,       // two [E, rows, columns], their rows by turns, and turned; or two [E, rows]
    kKeyValueUp,  // [H, rank, plain] turned above [H, value, rank], by head
    kRow,         // [D] as [1, D]
    kTaps,        // [C, W] as [C, 1, W]
    kKeyHeads,    // of each key head its query, its key, its values, their gates
  };
  // The value heads along `dim`, from `first` on, `width` numbers each, in the file's order.
  struct ValueHeads {
    int64_t dim = 0, first = 0, width = 1;
  };
  struct Source {
    std::vector<std::string> tensors;
    Parts parts = Parts::kOne;
    int expert = 0;
    bool norm = false;
    std::vector<int64_t> interleaved_heads;  // of each tensor; none or 0: its rows are in order
    std::optional<ValueHeads> tiled;
    bool negated_exponential = false;  // there, of what is here
  };

  explicit GgufModel(std::shared_ptr<const GgufFile> file) : file_(std::move(file)) {}
  Source SourceOf(int64_t layer, int place) const;
  std::optional<ValueHeads> TiledIn(int place) const;
  at::Tensor InOrder(const at::Tensor& tensor, const ValueHeads& heads) const;
  // That of the weight; none where the tensors' do not fit one another.
  std::vector<int64_t> ShapeOf(const Source& source) const;
  void Add(const std::string& name, Source source);
  // The type of all the weight's tensors; null where they can only be read.
  const GgufType* BlocksOf(const std::string& name) const;
  absl::StatusOr<const Source*> FindSource(const std::string& name) const;
  // Its tensors, in numbers or `blocks`, and their rows in the published order.
  absl::StatusOr<std::vector<at::Tensor>> ReadTensors(const Source& source, bool blocks) const;
  // Of each kv head the rows of its queries, its key and its value together.
  at::Tensor ByKvHeads(std::vector<at::Tensor> tensors) const;

  std::shared_ptr<const GgufFile> file_;
  ModelConfig config_;
  std::map<std::string, StoredWeight> weights_;
  std::map<std::string, Source> sources_;  // by Hugging Face name
};

}  // namespace moonring::model

#endif  // MOONRING_MODEL_GGUF_GGUF_MODEL_H_
