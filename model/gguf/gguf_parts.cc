#include "model/gguf/gguf_parts.h"

#include "ATen/TensorOperators.h"
#include "ATen/ops/cat.h"
#include "ATen/ops/empty.h"
#include "ATen/ops/stack.h"
#include "model/config/family.h"

namespace moonring::model {
namespace {

// Reorders the value heads along a dim. With G key heads of R value heads each, the dim is [.., R,
// G, width, ..] in the file and [.., G, R, width, ..] in the Hugging Face model.
at::Tensor Retiled(const at::Tensor& tensor, const GgufValueHeads& heads, int64_t outer,
                   int64_t inner) {
  const at::Tensor values =
      tensor.narrow(heads.dim, heads.first, tensor.size(heads.dim) - heads.first);
  const at::Tensor ordered = values.unflatten(heads.dim, {outer, inner, heads.width})
                                 .transpose(heads.dim, heads.dim + 1)
                                 .flatten(heads.dim, heads.dim + 2);
  return heads.first == 0 ? ordered.contiguous()
                          : at::cat({tensor.narrow(heads.dim, 0, heads.first), ordered}, heads.dim);
}

// Numbers of rows of each key head in qwen3next's fused map: of its query, its key, its values, and
// their gates.
std::vector<int64_t> KeyHeadRows(const DeltaRule& rule) {
  const int64_t values = rule.values() / rule.key_heads;
  return {rule.key_dim, rule.key_dim, values, values};
}

at::Tensor FromKeyHeads(const DeltaRule& rule, const std::vector<at::Tensor>& tensors) {
  std::vector<at::Tensor> parts =
      tensors[0].split_with_sizes({rule.keys(), rule.keys(), rule.values()});
  parts.push_back(tensors[1]);
  for (at::Tensor& part : parts)
    part = part.reshape({rule.key_heads, part.size(0) / rule.key_heads, -1});
  return at::cat(parts, 1);
}

at::Tensor ToKeyHeads(const DeltaRule& rule, size_t which, const at::Tensor& weight) {
  std::vector<at::Tensor> parts =
      weight.reshape({rule.key_heads, -1, weight.size(-1)}).split_with_sizes(KeyHeadRows(rule), 1);
  for (at::Tensor& part : parts) part = part.flatten(0, 1);
  if (which == 1) return parts[3];
  return at::cat({parts[0], parts[1], parts[2]});
}

// Selects the rows of the queries (`which` 0), the key (1) or the value (2) of each kv head.
at::Tensor FromKvHeads(const ModelConfig& config, size_t which, const at::Tensor& weight) {
  const int64_t heads = config.kv_heads, each = config.heads / heads;
  const int64_t first = which == 0 ? 0 : which == 1 ? each : each + 1;
  std::vector<int64_t> shape = weight.sizes().vec();
  const at::Tensor rows = weight.reshape({heads, each + 2, config.head_dim, -1})
                              .narrow(1, first, which == 0 ? each : 1);
  shape[0] = heads * rows.size(1) * config.head_dim;
  return rows.reshape(shape);
}

at::Tensor FromKeyValueUp(const ModelConfig& config, size_t which, const at::Tensor& weight) {
  const LatentRule& latent = config.latent;
  const at::Tensor by_head =
      weight.view({config.heads, latent.plain_dim + latent.value_dim, weight.size(1)});
  if (which == 0) return by_head.narrow(1, 0, latent.plain_dim).transpose(1, 2);
  return by_head.narrow(1, latent.plain_dim, latent.value_dim);
}

// Interleaves the rows of two tensors [E, rows, columns], then transposes; or the rows of two [E,
// rows].
at::Tensor FromTurns(const std::vector<at::Tensor>& tensors) {
  const at::Tensor turns = at::stack(tensors, 2).flatten(1, 2);
  return turns.dim() == 2 ? turns : turns.transpose(1, 2).contiguous();
}

at::Tensor ToTurns(size_t which, const at::Tensor& weight) {
  const at::Tensor turns = weight.dim() == 2 ? weight : weight.transpose(1, 2);
  return turns.slice(1, static_cast<int64_t>(which), turns.size(1), 2);
}

// Converts the numbers of a whole weight from GGUF's form to Hugging Face's: norms without the
// added 1, A instead of -exp(A), value heads in another order.
at::Tensor ValuesFromGguf(const ModelConfig& config, const GgufSource& source, at::Tensor tensor) {
  if (source.norm && config.family->gguf.norms_have_one) tensor = tensor - 1;
  if (source.negated_exponential) tensor = (-tensor).log();
  const int64_t groups = config.delta.key_heads;
  if (source.tiled.has_value())
    tensor = Retiled(tensor, *source.tiled, config.delta.value_heads / groups, groups);
  return tensor;
}

at::Tensor ValuesToGguf(const ModelConfig& config, const GgufSource& source, at::Tensor tensor) {
  const int64_t groups = config.delta.key_heads;
  if (source.tiled.has_value())
    tensor = Retiled(tensor, *source.tiled, groups, config.delta.value_heads / groups);
  if (source.negated_exponential) tensor = -tensor.exp();
  if (source.norm && config.family->gguf.norms_have_one) tensor = tensor + 1;
  return tensor;
}

}  // namespace

at::Tensor RowsAsPublished(const at::Tensor& tensor, int64_t heads) {
  return tensor.reshape({heads, tensor.size(0) / heads / 2, 2, -1})
      .transpose(1, 2)
      .reshape(tensor.sizes());
}

at::Tensor RowsAsInGguf(const at::Tensor& tensor, int64_t heads) {
  return tensor.reshape({heads, 2, tensor.size(0) / heads / 2, -1})
      .transpose(1, 2)
      .reshape(tensor.sizes());
}

at::Tensor ByKvHeads(const ModelConfig& config, std::vector<at::Tensor> tensors) {
  // With K kv heads and g query heads per kv head, the shapes become [K, g head_dim ..], [K,
  // head_dim ..], [K, head_dim ..].
  for (at::Tensor& tensor : tensors)
    tensor = tensor.reshape({config.kv_heads, tensor.size(0) / config.kv_heads, -1});
  return at::cat(tensors, 1);
}

at::Tensor FromGguf(const ModelConfig& config, const GgufSource& source,
                    const std::vector<at::Tensor>& tensors, at::IntArrayRef shape) {
  switch (source.parts) {
    case GgufParts::kKeyHeads:
      return FromKeyHeads(config.delta, tensors).reshape(shape);
    case GgufParts::kKvHeads:
      return ByKvHeads(config, tensors).reshape(shape);
    case GgufParts::kTransposed:
      return tensors[0].transpose(1, 2).contiguous();
    case GgufParts::kHalves:
      return at::cat(tensors, 1);
    case GgufParts::kTurns:
      return FromTurns(tensors);
    case GgufParts::kKeyValueUp:
      return at::cat({tensors[0].transpose(1, 2), tensors[1]}, 1).reshape(shape);
    default:
      return ValuesFromGguf(config, source, tensors[0]).reshape(shape);
  }
}

at::Tensor ToGguf(const ModelConfig& config, const GgufSource& source, size_t which,
                  const at::Tensor& weight) {
  at::Tensor tensor = weight;
  switch (source.parts) {
    case GgufParts::kKeyHeads:
      return ToKeyHeads(config.delta, which, weight);
    case GgufParts::kTransposed:
      return weight.transpose(1, 2);
    case GgufParts::kHalves:
      return weight.chunk(2, 1)[which];
    case GgufParts::kTurns:
      return ToTurns(which, weight);
    case GgufParts::kKeyValueUp:
      return FromKeyValueUp(config, which, weight);
    case GgufParts::kKvHeads:
      tensor = FromKvHeads(config, which, weight);
      break;
    case GgufParts::kRow:
    case GgufParts::kTaps:
      tensor = weight.squeeze(source.parts == GgufParts::kRow ? 0 : 1);
      break;
    default:
      break;
  }
  const auto& interleaved = source.interleaved_heads;
  const int64_t heads = which < interleaved.size() ? interleaved[which] : 0;
  if (heads > 0) tensor = RowsAsInGguf(tensor, heads);
  return ValuesToGguf(config, source, tensor);
}

std::vector<int64_t> ShapeInGguf(const ModelConfig& config, const GgufSource& source, size_t which,
                                 at::IntArrayRef shape) {
  // The shape is computed on the meta device, which allocates no data.
  const at::Tensor weight = at::empty(shape, at::TensorOptions(at::kFloat).device(at::kMeta));
  return ToGguf(config, source, which, weight).sizes().vec();
}

}  // namespace moonring::model
