#include "model/weights.h"

#include "absl/strings/match.h"
#include "c10/util/Exception.h"
#include "model/families/llama.h"

namespace moonring::model {

std::vector<WeightShape> WantedWeights(const ModelConfig& config) {
  // A Mistral differs in its attention's window alone.
  TORCH_INTERNAL_ASSERT(config.architecture == llama::kArchitecture || config.architecture == "MistralForCausalLM", "no weights known for ",
                        config.architecture);
  return llama::Weights(config);
}

bool IsStoredBuffer(absl::string_view name) { return absl::EndsWith(name, ".rotary_emb.inv_freq"); }

}  // namespace moonring::model
