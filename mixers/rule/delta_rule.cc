#include "mixers/rule/delta_rule.h"

#include <memory>

#include "base/autograd/custom_function.h"
#include "mixers/rule/delta_pass.h"
#include "mixers/rule/document_chunks.h"
#include "mixers/rule/packed_heads.h"

namespace moonring::mixers {

DeltaResult GatedDeltaRule(const DeltaInputs& inputs, const std::vector<int64_t>& lengths,
                           const DeltaOptions& options) {
  CheckDeltaInputs(inputs, lengths);
  const auto grid =
      std::make_shared<const DocumentChunks>(lengths, kDeltaChunk, inputs.v_THV.device());
  base::Tensors made = base::Apply(
      {.name = "gated delta rule",
       .forward = [&](base::Tensors* saved) -> base::Tensors {
         const DeltaPass pass = DeltaForward(inputs, *grid, options);
         *saved = {inputs.q_THK, inputs.k_THK,   inputs.v_THV,
                   inputs.g,     inputs.beta_TH, pass.states_NHVK};
         return {pass.out_THV, pass.final_DHVK};
       },
       .backward = [grid, options](base::BackwardCall& call) -> base::Tensors {
         const base::Tensors& saved = call.saved;
         const DeltaInputs made =
             DeltaBackward({saved[0], saved[1], saved[2], saved[3], saved[4], {}}, saved[5], *grid,
                           options, call.gradients[0], call.gradients[1]);
         base::Tensors gradients = {made.q_THK, made.k_THK, made.v_THV, made.g, made.beta_TH};
         if (call.wanted[5]) gradients.push_back(made.initial_DHVK);
         return gradients;
       },
       .undefined_gradients = true},
      {inputs.q_THK, inputs.k_THK, inputs.v_THV, inputs.g, inputs.beta_TH, inputs.initial_DHVK});
  return {std::move(made[0]), std::move(made[1])};
}

}  // namespace moonring::mixers
