#ifndef MOONRING_TRAINER_RULES_MATRICES_H_
#define MOONRING_TRAINER_RULES_MATRICES_H_

// Selects, by name and shape, the weights to which matrix optimizers apply.

#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "base/autograd/parameter.h"

namespace moonring::trainer {

// Whether the name is that of an embedding (contains "embed") or a head ("lm_head"; InternLM2's
// "output.weight").
bool IsEmbeddingOrHead(absl::string_view name);

// For each parameter, whether it is a matrix [O, I] or a stack of matrices [E, O, I] (a layer's
// experts), but not an embedding, head, bias, norm or convolution filter.
std::vector<bool> MatricesAndStacks(const base::Parameters& parameters);

// For each parameter, whether it is the matrix of a linear map selected by `targets`, by
// LLaMA-Factory's rule for GaLore and APOLLO. A target is a substring of a module's name ("q_proj",
// "layers.0.mlp"). Without targets ("all"): every linear map but the head. Stacks of experts'
// matrices are never selected.
std::vector<bool> LinearMaps(const base::Parameters& parameters,
                             const std::vector<std::string>& targets);

// What the option `targets` means (base/text/fields.h).
inline constexpr char kTargetsMeaning[] =
    "substrings of the names of the linear layers that are projected; default: all except the head";

}  // namespace moonring::trainer

#endif  // MOONRING_TRAINER_RULES_MATRICES_H_
