#ifndef MOONRING_MODEL_BLOCKS_GIVEN_WEIGHTS_H_
#define MOONRING_MODEL_BLOCKS_GIVEN_WEIGHTS_H_

// Blocks as part of the caller's autograd graph, with weights that the caller gives, as
// torch.func.functional_call does. Everything is composed of LibTorch's operators
// (composed_scope.h), so the results can be differentiated any number of times, in
// the weights too. Nothing is recomputed, and all intermediate values are kept for the backward.

#include <map>
#include <memory>
#include <string>
#include <vector>

#include <ATen/core/Tensor.h>

#include "base/autograd/parameter.h"
#include "model/blocks/block_runner.h"

namespace moonring::model {

// By Hugging Face name. A weight that is not given is borrowed from its Parameter and is a
// constant.
using GivenWeights = std::map<std::string, at::Tensor>;

// As RunBlock (block_runner.h).
std::vector<at::Tensor> ComposeBlock(const BlockFunction& function, const std::vector<Loan>& loans,
                                     const BlockInputs& inputs, const GivenWeights& given);

// As LookUp (block_runner.h).
at::Tensor ComposedLookUp(const std::shared_ptr<base::Parameter>& embedding_VD,
                          const at::Tensor& ids_T, const LookUpOptions& options,
                          const GivenWeights& given);

// Throws a c10::ValueError for a name that none of `parameters` has, and for a weight of another
// shape or kind of device.
void CheckGiven(const GivenWeights& given, const base::Parameters& parameters);

}  // namespace moonring::model

#endif  // MOONRING_MODEL_BLOCKS_GIVEN_WEIGHTS_H_
