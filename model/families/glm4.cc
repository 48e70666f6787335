// GLM-4-0414: GLM-4 with additional norms of the outputs of attention and MLP.

#include "model/families/families.h"

namespace moonring::model {

namespace {

WeightNames NamesOfGlm4() {
  WeightNames names = GlmNames();
  names.in_block[kAttentionNorm] = "post_self_attn_layernorm";
  names.in_block[kMlpNorm] = "post_mlp_layernorm";
  return names;
}

}  // namespace

Family Glm4() {
  Family family = Glm();
  family.title = "GLM-4-0414";
  family.architecture = "Glm4ForCausalLM";
  family.model_type = "glm4";
  family.names = NamesOfGlm4();
  family.gguf = {.architecture = "glm4"};
  return family;
}

}  // namespace moonring::model
