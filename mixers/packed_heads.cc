#include "mixers/packed_heads.h"

#include <algorithm>

#include <ATen/TensorOperators.h>

namespace moonring::mixers {
namespace {

at::Tensor InverseNorm(const at::Tensor& x, const DeltaOptions& options) {
  return x.square().sum(-1, /*keepdim=*/true).add_(options.eps).rsqrt_();
}

// Key heads for each value head.
at::Tensor Repeat(const at::Tensor& x_NHCK, int64_t groups) {
  return groups == 1 ? x_NHCK : x_NHCK.repeat_interleave(groups, 1);
}

at::Tensor PackKeys(const at::Tensor& x_THK, const HeadSlice& heads, const DocumentChunks& grid,
                    const DeltaOptions& options, at::ScalarType dtype) {
  at::Tensor x = grid.Pack(heads.OfKeys(x_THK), dtype);
  if (options.normalize) x.mul_(InverseNorm(x, options));
  return Repeat(x, heads.groups);
}

// The gradient of rows of q or k from that of what PackKeys made of them.
at::Tensor KeyGradient(const at::Tensor& packed, const at::Tensor& x_THK, const HeadSlice& heads,
                       const DocumentChunks& grid, const DeltaOptions& options) {
  at::Tensor gradient = packed;
  if (heads.groups > 1) gradient = gradient.unflatten(1, {heads.keys, heads.groups}).sum(2);
  gradient = grid.Unpack(gradient);
  if (!options.normalize) return gradient;
  const at::Tensor x = heads.OfKeys(x_THK).to(gradient.scalar_type());
  const at::Tensor inverse = InverseNorm(x, options);
  const at::Tensor unit = x * inverse;
  return (gradient - unit * (gradient * unit).sum(-1, /*keepdim=*/true)) * inverse;
}

at::Tensor DecayOf(const DeltaInputs& inputs) {
  return inputs.g.dim() == 2 ? inputs.g.unsqueeze(-1) : inputs.g;
}

}  // namespace

int64_t KeysAtOnce(int64_t chunks, int64_t width, int64_t groups, int64_t working_numbers) {
  const int64_t one =
      std::max<int64_t>(1, chunks * kDeltaChunk * std::max(width, int64_t{kDeltaChunk}) * groups);
  return std::max<int64_t>(1, working_numbers / one);
}

std::vector<HeadSlice> SlicesOf(const DeltaInputs& inputs, const DocumentChunks& grid,
                                int64_t working_numbers) {
  const int64_t key_heads = inputs.k_THK.size(1), groups = inputs.v_THV.size(1) / key_heads;
  const int64_t step = KeysAtOnce(
      grid.chunks(), std::max(inputs.k_THK.size(2), inputs.v_THV.size(2)), groups, working_numbers);
  std::vector<HeadSlice> slices;
  for (int64_t begin = 0; begin < key_heads; begin += step)
    slices.push_back({begin, std::min(step, key_heads - begin), groups});
  return slices;
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
  return chunks;
}

void UnpackHeadGradients(const DeltaChunks& packed, const DeltaInputs& inputs,
                         const HeadSlice& heads, const DocumentChunks& grid,
                         const DeltaOptions& options, DeltaInputs& gradients) {
  heads.OfKeys(gradients.q_THK)
      .copy_(KeyGradient(packed.q * options.scale, inputs.q_THK, heads, grid, options));
  heads.OfKeys(gradients.k_THK).copy_(KeyGradient(packed.k, inputs.k_THK, heads, grid, options));
  heads.OfValues(gradients.v_THV).copy_(grid.Unpack(packed.v));
  heads.OfValues(DecayOf(gradients)).copy_(grid.Unpack(packed.g));
  heads.OfValues(gradients.beta_TH).copy_(grid.Unpack(packed.beta).squeeze(-1));
}

}  // namespace moonring::mixers
