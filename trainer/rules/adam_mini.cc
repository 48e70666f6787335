#include "trainer/rules/adam_mini.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <string>

#include <ATen/ATen.h>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "base/status/status_macros.h"

namespace moonring::trainer {
namespace {

enum class Blocks { kNumbers, kHeads, kRows, kOne };

Blocks BlocksOf(const base::Parameter& parameter) {
  constexpr std::array kHeads = {"k_proj", "q_proj", "wq", "wk", "query", "key"};
  constexpr std::array kRows = {"embed",       "embd",   "wte",    "lm_head", "output",
                                "final_layer", "v_proj", "wv",     "value",   "feed_forward",
                                "linear",      "mlp",    "o_proj", "wo",      "attn.proj"};
  const std::string name = absl::AsciiStrToLower(parameter.name());
  const auto in_name = [&](absl::string_view word) { return absl::StrContains(name, word); };
  if (in_name("bias")) return Blocks::kNumbers;
  if (std::any_of(kHeads.begin(), kHeads.end(), in_name)) return Blocks::kHeads;
  const bool rows = std::any_of(kRows.begin(), kRows.end(), in_name);
  return rows && parameter.shape().size() > 1 ? Blocks::kRows : Blocks::kOne;
}

// The tensor as [blocks, elements of each]; a block's elements are contiguous.
at::Tensor InBlocks(const at::Tensor& tensor, Blocks blocks, int64_t head) {
  switch (blocks) {
    case Blocks::kNumbers:
      return tensor.reshape({-1, 1});
    case Blocks::kHeads:
      return tensor.reshape({-1, head});
    case Blocks::kRows:
      return tensor.reshape({-1, tensor.size(-1)});
    case Blocks::kOne:
      return tensor.reshape({1, -1});
  }
  TORCH_INTERNAL_ASSERT(false);
}

}  // namespace

absl::StatusOr<NativeRule> AdamMiniRule(const AdamMiniOptions& options,
                                        const base::Parameters& parameters) {
  RETURN_IF_ERROR(CheckFields("adam_mini", options));
  const int64_t hidden = options.hidden_size;
  const int64_t head = hidden * hidden / options.heads;
  NativeRule native;
  std::vector<Blocks> blocks;
  for (const auto& parameter : parameters) {
    blocks.push_back(BlocksOf(*parameter));
    native.whole.push_back(blocks.back() != Blocks::kNumbers);
    if (blocks.back() == Blocks::kHeads && parameter->numel() % head != 0) {
      return absl::InvalidArgumentError(absl::StrCat(
          "trainer.adam_mini: ", parameter->name(), " has ", parameter->numel(),
          " numbers, expected some heads of ", hidden, " x ", hidden, " / ", options.heads));
    }
  }
  native.rule.state = [blocks, head](size_t index, const at::Tensor& weight) -> UpdateRule::State {
    const int64_t count = blocks[index] == Blocks::kOne     ? 1
                          : blocks[index] == Blocks::kHeads ? weight.numel() / head
                          : blocks[index] == Blocks::kRows  ? weight.numel() / weight.size(-1)
                                                            : weight.numel();
    return {{"exp_avg", at::zeros_like(weight)},
            {"exp_avg_sq", at::zeros({count}, weight.options())}};
  };
  native.rule.update = [options, blocks, head,
                        decays = DecayOfEach(parameters, options.weight_decay)](
                           size_t index, const at::Tensor& weight, const at::Tensor& gradient,
                           UpdateRule::State state, double lr, int64_t step) {
    const AdamOptions& adam = options.adam;
    at::Tensor &mean = state.at("exp_avg"), &square = state.at("exp_avg_sq");
    Decay(weight, lr, decays[index]);
    const at::Tensor g = InBlocks(gradient, blocks[index], head);
    square.mul_(adam.beta2).add_((g * g).mean(1), 1.0 - adam.beta2);
    mean.lerp_(gradient, 1.0 - adam.beta1);
    const double t = static_cast<double>(step);
    const at::Tensor root =
        square.sqrt().div_(std::sqrt(1.0 - std::pow(adam.beta2, t))).add_(adam.epsilon);
    const at::Tensor update = InBlocks(mean, blocks[index], head) / root.unsqueeze(1);
    weight.sub_(update.reshape(weight.sizes()), lr / (1.0 - std::pow(adam.beta1, t)));
    return state;
  };
  return native;
}

}  // namespace moonring::trainer
