#include <vector>

#include <ATen/ops/empty.h>

#include "kernels/delta_pack_launch.h"
#include "kernels/run.h"

namespace moonring::kernels::KERNEL_SIDE {
namespace {

void CheckDeltaPack(const char* what, const at::Tensor& tensor, at::IntArrayRef sizes,
                    at::ScalarType dtype) {
  TORCH_CHECK(tensor.sizes() == sizes && tensor.scalar_type() == dtype, "delta_pack: ", what, " ",
              tensor.sizes(), " of ", tensor.scalar_type(), ", expected ", dtype, " ", sizes);
  TORCH_CHECK(
      dtype == at::kFloat || dtype == at::kBFloat16 || dtype == at::kHalf || dtype == at::kLong,
      "delta_pack: ", what, " of ", dtype, ", expected fp32, bf16 or fp16");
}

TokensAndHeads<const void> ReadTokens(const at::Tensor& tensor) {
  return {tensor.const_data_ptr(), tensor.stride(0), tensor.stride(1)};
}

std::vector<at::Tensor> DeltaPack(const Optional& given_q, const at::Tensor& given_k,
                                  const at::Tensor& given_v, const at::Tensor& g,
                                  const at::Tensor& beta, const at::Tensor& token_of_slot,
                                  double scale, bool normalize, double eps) {
  TORCH_CHECK(given_k.dim() == 3 && given_v.dim() == 3 && given_k.size(1) > 0 &&
                  given_v.size(1) % given_k.size(1) == 0 && given_k.size(2) <= 256,
              "delta_pack: k ", given_k.sizes(), " and v ", given_v.sizes(),
              ", expected [T, Hk, at most 256] and [T, H, d_v]");
  const int64_t tokens = given_v.size(0), heads = given_v.size(1), key_heads = given_k.size(1),
                keys = given_k.size(2), width = given_v.size(2);
  const at::ScalarType dtype = given_v.scalar_type();
  CheckDeltaPack("k", given_k, {tokens, key_heads, keys}, dtype);
  if (given_q.has_value()) CheckDeltaPack("q", *given_q, given_k.sizes(), dtype);
  CheckDeltaPack("g", g, {tokens, heads}, at::kFloat);
  CheckDeltaPack("beta", beta, {tokens, heads}, at::kFloat);
  CheckDeltaPack("token_of_slot", token_of_slot, {token_of_slot.numel()}, at::kLong);
  TORCH_CHECK(token_of_slot.is_contiguous() && token_of_slot.numel() % 64 == 0,
              "delta_pack: token_of_slot ", token_of_slot.sizes(), ", expected whole chunks of 64");
  const int64_t chunks = token_of_slot.numel() / 64;
  const at::Tensor k = WithWholeRows(given_k), v = WithWholeRows(given_v),
                   q = given_q.has_value() ? WithWholeRows(*given_q) : at::Tensor();
  const auto made = [&](int64_t of) {
    return at::empty({chunks, heads, 64, of}, v.options().dtype(at::kFloat));
  };
  std::vector<at::Tensor> results = {made(keys), made(keys), made(keys), made(width),
                                     made(1),    made(1),    made(1),    made(1)};
  DeltaPackCall call{};
  call.type = TypeOf(dtype);
  call.chunks = chunks;
  call.heads = heads;
  call.key_heads = key_heads;
  call.keys = keys;
  call.width = width;
  call.token_of_slot = token_of_slot.const_data_ptr<int64_t>();
  call.k = ReadTokens(k);
  call.v = ReadTokens(v);
  call.g = ReadTokens(g);
  call.beta = ReadTokens(beta);
  call.scale = static_cast<float>(scale);
  call.eps = static_cast<float>(eps);
  call.normalize = normalize;
  if (q.defined()) {
    call.q = ReadTokens(q);
    results.push_back(made(keys));
    results.push_back(made(keys));
    call.packed_q = FloatsOf(results[8]);
    call.start_q = FloatsOf(results[9]);
  }
  float** const to[] = {&call.packed_k, &call.start_k,     &call.end_k,      &call.packed_v,
                        &call.packed_g, &call.packed_beta, &call.from_start, &call.to_end};
  for (size_t i = 0; i < 8; ++i) *to[i] = FloatsOf(results[i]);
  if (chunks > 0) LaunchDeltaPack(call, StreamOf(v));
  return results;
}

at::Tensor DeltaPackRows(const at::Tensor& given_rows, const at::Tensor& token_of_slot) {
  TORCH_CHECK(given_rows.dim() == 3, "delta_pack: rows ", given_rows.sizes(),
              ", expected [T, H, X]");
  CheckDeltaPack("rows", given_rows, given_rows.sizes(), given_rows.scalar_type());
  CheckDeltaPack("token_of_slot", token_of_slot, {token_of_slot.numel()}, at::kLong);
  TORCH_CHECK(token_of_slot.is_contiguous() && token_of_slot.numel() % 64 == 0,
              "delta_pack: token_of_slot ", token_of_slot.sizes(), ", expected whole chunks of 64");
  const at::Tensor rows = WithWholeRows(given_rows);
  const int64_t chunks = token_of_slot.numel() / 64, heads = rows.size(1), width = rows.size(2);
  const at::Tensor packed = at::empty({chunks, heads, 64, width}, rows.options().dtype(at::kFloat));
  if (packed.numel() > 0)
    LaunchDeltaPackRows({.type = TypeOf(rows),
                         .chunks = chunks,
                         .heads = heads,
                         .width = width,
                         .token_of_slot = token_of_slot.const_data_ptr<int64_t>(),
                         .rows = ReadTokens(rows),
                         .packed = FloatsOf(packed)},
                        StreamOf(rows));
  return packed;
}

void DeltaUnpack(const at::Tensor& packed, const at::Tensor& token_of_slot, const Optional& given_x,
                 double scale, double eps, at::Tensor rows) {
  TORCH_CHECK(rows.dim() == 3 && (rows.size(2) <= 1 || rows.stride(2) == 1), "delta_unpack: rows ",
              rows.sizes(), " with strides ", rows.strides(),
              ", expected [T, H, X], the last dense");
  const int64_t heads = rows.size(1), width = rows.size(2);
  TORCH_CHECK(packed.dim() == 4 && packed.size(2) == 64 && packed.size(3) == width && heads > 0 &&
                  packed.size(1) % heads == 0 && packed.is_contiguous() &&
                  packed.scalar_type() == at::kFloat,
              "delta_unpack: packed ", packed.sizes(), " of ", packed.scalar_type(), " for rows ",
              rows.sizes());
  CheckDeltaPack("token_of_slot", token_of_slot, {packed.size(0) * 64}, at::kLong);
  TORCH_CHECK(token_of_slot.is_contiguous(), "delta_unpack: token_of_slot with gaps");
  CheckDeltaPack("rows", rows, rows.sizes(), rows.scalar_type());
  at::Tensor x;
  if (given_x.has_value()) {
    CheckDeltaPack("x", *given_x, rows.sizes(), rows.scalar_type());
    TORCH_CHECK(width <= 256, "delta_unpack: normed rows of ", width, ", expected at most 256");
    x = WithWholeRows(*given_x);
  }
  if (packed.numel() == 0) return;
  LaunchDeltaUnpack({.type = TypeOf(rows),
                     .chunks = packed.size(0),
                     .heads = heads,
                     .groups = packed.size(1) / heads,
                     .width = width,
                     .packed = packed.const_data_ptr<float>(),
                     .token_of_slot = token_of_slot.const_data_ptr<int64_t>(),
                     .x = x.defined() ? ReadTokens(x) : TokensAndHeads<const void>{},
                     .scale = static_cast<float>(scale),
                     .eps = static_cast<float>(eps),
                     .rows = {DataOf(rows), rows.stride(0), rows.stride(1)}},
                    StreamOf(rows));
}

KERNEL_OPERATORS(library) {
  library.impl("delta_pack", TORCH_FN(DeltaPack));
  library.impl("delta_pack_rows", TORCH_FN(DeltaPackRows));
  library.impl("delta_unpack", TORCH_FN(DeltaUnpack));
}

}  // namespace
}  // namespace moonring::kernels::KERNEL_SIDE
