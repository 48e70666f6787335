#ifndef MOONRING_TRAINER_RULES_MATRICES_H_
#define MOONRING_TRAINER_RULES_MATRICES_H_

// Which weights an optimizer of matrices is for, told by name and shape.

#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "base/autograd/parameter.h"

namespace moonring::trainer {

// Embeddings (a name with "embed") and heads ("lm_head"; InternLM2's "output.weight").
bool IsEmbeddingOrHead(absl::string_view name);

// Of each parameter, whether it is a matrix [O, I] or a stack of them [E, O, I], as a layer's
// experts may lie: no embedding, no head, no bias, no norm, no filters of a convolution.
std::vector<bool> MatricesAndStacks(const base::Parameters& parameters);

// Of each parameter, whether it is the matrix of a linear map that `targets` name: LLaMA-Factory's
// rule for GaLore and APOLLO. A target is a part of a module's name ("q_proj", "layers.0.mlp").
// Without targets ("all"): every linear map but the head. A stack of experts is none.
std::vector<bool> LinearMaps(const base::Parameters& parameters,
                             const std::vector<std::string>& targets);

}  // namespace moonring::trainer

#endif  // MOONRING_TRAINER_RULES_MATRICES_H_
