#include "mixers/rule/packed_heads.h"

#include <algorithm>

#include <ATen/TensorOperators.h>

namespace moonring::mixers {
namespace {

at::Tensor InverseNorm(const at::Tensor& x, const DeltaOptions& options) {
  return x.square().sum(-1, /*keepdim=*/true).add_(options.eps).rsqrt_();
}

// Repeats key heads for each of their value heads.
at::Tensor Repeat(const at::Tensor& x_NHCK, int64_t groups) {
  return groups == 1 ? x_NHCK : x_NHCK.repeat_interleave(groups, 1);
}

at::Tensor PackKeys(const at::Tensor& x_THK, const HeadSlice& heads, const DocumentChunks& grid,
                    const DeltaOptions& options, at::ScalarType dtype) {
  at::Tensor x = grid.Pack(heads.OfKeys(x_THK), dtype);
  if (options.normalize) x.mul_(InverseNorm(x, options));
  return Repeat(x, heads.groups);
}

// Writes the gradient of q or k. `packed`: the gradient of PackKeys' result.
void PutKeyGradient(const at::Tensor& packed, const at::Tensor& x_THK, const HeadSlice& heads,
                    const DocumentChunks& grid, const DeltaOptions& options,
                    const at::Tensor& gradient_THK) {
  at::Tensor gradient = packed;
  if (heads.groups > 1) gradient = gradient.unflatten(1, {heads.keys, heads.groups}).sum(2);
  if (options.normalize) {
    const at::Tensor x = grid.Pack(heads.OfKeys(x_THK), gradient.scalar_type());
    const at::Tensor inverse = InverseNorm(x, options);
    const at::Tensor unit = x * inverse;
    gradient = (gradient - unit * (gradient * unit).sum(-1, /*keepdim=*/true)).mul_(inverse);
  }
  grid.Unpack(gradient, heads.OfKeys(gradient_THK));
}

at::Tensor DecayOf(const DeltaInputs& inputs) {
  return inputs.g.dim() == 2 ? inputs.g.unsqueeze(-1) : inputs.g;
}

}  // namespace

int64_t KeysAtOnce(int64_t numbers, int64_t documents, int64_t width, int64_t groups) {
  const int64_t one =
      std::max<int64_t>(1, documents * kDeltaChunk * std::max(width, kDeltaChunk) * groups);
  return std::max<int64_t>(1, numbers / one);
}

DeltaTiles TilesOf(const DeltaInputs& inputs, const DocumentChunks& grid,
                   const DeltaOptions& options) {
  const int64_t key_heads = inputs.k_THK.size(1), groups = inputs.v_THV.size(1) / key_heads;
  const int64_t width = std::max(inputs.k_THK.size(2), inputs.v_THV.size(2));
  const int64_t numbers = options.working_numbers > 0 ? options.working_numbers
                          : inputs.v_THV.is_cuda()    ? kGpuWorkingNumbers
                                                      : kCpuWorkingNumbers;
  const std::vector<int64_t>& rounds = grid.rounds();
  DeltaTiles tiles;
  const int64_t step =
      std::min(key_heads, KeysAtOnce(numbers, rounds.empty() ? 1 : rounds[0], width, groups));
  for (int64_t begin = 0; begin < key_heads; begin += step)
    tiles.slices.push_back({begin, std::min(step, key_heads - begin), groups});
  const int64_t most = numbers / (kDeltaChunk * std::max(width, kDeltaChunk) * step * groups);
  const auto count = static_cast<int64_t>(rounds.size());
  for (int64_t first = 0; first < count;) {
    int64_t end = first + 1, chunks = rounds[first];
    while (end < count && chunks + rounds[end] <= most) chunks += rounds[end++];
    tiles.parts.push_back(grid.Part(first, end - first));
    first = end;
  }
  return tiles;
}

DeltaChunks PackHeads(const DeltaInputs& inputs, const HeadSlice& heads, const DocumentChunks& grid,
                      const DeltaOptions& options) {
  const at::ScalarType dtype = StateDtype(inputs);
  DeltaChunks chunks;
  if (inputs.q_THK.defined())
    chunks.q = PackKeys(inputs.q_THK, heads, grid, options, dtype) * options.scale;
  chunks.k = PackKeys(inputs.k_THK, heads, grid, options, dtype);
  chunks.v = grid.Pack(heads.OfValues(inputs.v_THV), dtype);
  chunks.g = grid.Pack(heads.OfValues(DecayOf(inputs)), dtype);
  chunks.beta = grid.Pack(heads.OfValues(inputs.beta_TH).unsqueeze(-1), dtype);
  chunks.delta = options.delta;
  return chunks;
}

void UnpackHeadGradients(const DeltaChunks& packed, const DeltaInputs& inputs,
                         const HeadSlice& heads, const DocumentChunks& grid,
                         const DeltaOptions& options, DeltaInputs& gradients) {
  PutKeyGradient(packed.q * options.scale, inputs.q_THK, heads, grid, options, gradients.q_THK);
  PutKeyGradient(packed.k, inputs.k_THK, heads, grid, options, gradients.k_THK);
  grid.Unpack(packed.v, heads.OfValues(gradients.v_THV));
  grid.Unpack(packed.g, heads.OfValues(DecayOf(gradients)));
  grid.Unpack(packed.beta, heads.OfValues(gradients.beta_TH).unsqueeze(-1));
}

}  // namespace moonring::mixers
