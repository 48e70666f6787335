#include "attention/kernels/cuda_varlen_attention.h"

#include <algorithm>
#include <limits>
#include <memory>
#include <numeric>
#include <optional>
#include <tuple>
#include <vector>

#include <ATen/ops/_efficient_attention_backward.h>
#include <ATen/ops/_efficient_attention_forward.h>
#include <ATen/ops/_flash_attention_backward.h>
#include <ATen/ops/_flash_attention_forward.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/constant_pad_nd.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/full.h>
#include <c10/util/Exception.h>

#include "attention/kernels/cudnn_attention.h"
#include "attention/kernels/explicit_varlen_attention.h"
#include "attention/kernels/strip_varlen_attention.h"
#include "attention/kernels/varlen_parts.h"
#include "base/memory/to_device.h"

namespace moonring::attention {
namespace {

constexpr int64_t kAlignment = 8;      // of head dims and strides, in elements
constexpr int64_t kLseAlignment = 32;  // of memory-efficient attention's lse, in rows

enum class Kernel { kFlash, kEfficient, kStrips, kExplicit };

Kernel KernelFor(at::ScalarType type, int64_t head_dim, const ScoreFunction& score) {
  const bool has_softcap = score.softcap != 0.0;
  if (type == at::kBFloat16 || type == at::kHalf)
    return !has_softcap && head_dim <= 256 ? Kernel::kFlash : Kernel::kStrips;
  return !has_softcap && type == at::kFloat ? Kernel::kEfficient : Kernel::kExplicit;
}
Kernel KernelFor(const VarlenTiles& tiles) {
  return KernelFor(tiles.q_MHD.scalar_type(), GreaterDim(tiles), tiles.score);
}

int64_t RoundUp(int64_t value, int64_t multiple) {
  return (value + multiple - 1) / multiple * multiple;
}

// Whether the kernels can load rows in vectors of 16 bytes (8 elements).
bool IsAligned(const at::Tensor& rows) {
  return rows.stride(2) == 1 && rows.stride(0) % kAlignment == 0 &&
         rows.stride(1) % kAlignment == 0 && rows.storage_offset() % kAlignment == 0;
}

// [rows, heads, D] -> [rows, heads, `head_dim` rounded up], padded with zeros.
at::Tensor PadHeadDim(const at::Tensor& rows, int64_t head_dim) {
  const int64_t missing = RoundUp(head_dim, kAlignment) - rows.size(2);
  if (missing > 0) return at::constant_pad_nd(rows, {0, missing});
  return IsAligned(rows) ? rows : rows.clone(at::MemoryFormat::Contiguous);
}

// Removes the padding of a head dim.
at::Tensor CutHeadDim(const at::Tensor& rows, int64_t head_dim) {
  return rows.narrow(2, 0, head_dim);
}

TileGradients CutGradients(const TileGradients& padded, const VarlenTiles& tiles) {
  return {CutHeadDim(padded.dq_MHD, tiles.q_MHD.size(2)),
          CutHeadDim(padded.dk_NKD, tiles.k_NKD.size(2)),
          CutHeadDim(padded.dv_NKD, tiles.v_NKD.size(2))};
}

int64_t Longest(const std::vector<int64_t>& offsets) {
  int64_t longest = 0;
  for (size_t i = 0; i + 1 < offsets.size(); ++i)
    longest = std::max(longest, offsets[i + 1] - offsets[i]);
  return longest;
}

// A call's offsets as int32 tensors on the device. They are made once and shared by calls with the
// same `on_device`.
std::shared_ptr<DeviceOffsets> OffsetsOf(const VarlenTiles& tiles) {
  const std::shared_ptr<DeviceOffsets> made =
      tiles.on_device != nullptr ? tiles.on_device : std::make_shared<DeviceOffsets>();
  if (made->queries.defined()) return made;
  const auto bring = [&](const std::vector<int64_t>& offsets) {
    return base::ToDevice(std::vector<int32_t>(offsets.begin(), offsets.end()),
                          tiles.q_MHD.device());
  };
  made->longest_queries = Longest(tiles.query_offsets);
  made->longest_keys = Longest(tiles.key_offsets);
  made->queries = bring(tiles.query_offsets);
  made->keys = tiles.key_offsets == tiles.query_offsets ? made->queries : bring(tiles.key_offsets);
  return made;
}

// ---- Flash attention. Tensors are [rows, heads, D], lse is [H, rows]. q, k and v are padded with
// zeros to one head dim: this does not change the scores, and the padded columns of the output are
// 0.

struct FlashCall {
  explicit FlashCall(const VarlenTiles& tiles)
      : head_dim(GreaterDim(tiles)),
        q(PadHeadDim(tiles.q_MHD, head_dim)),
        k(PadHeadDim(tiles.k_NKD, head_dim)),
        v(PadHeadDim(tiles.v_NKD, head_dim)),
        offsets(OffsetsOf(tiles)),
        // If the longest tile had one query, the kernel would take its decoding path, whose lse has
        // another shape. The kernel uses this length only for the size of its grid, so a greater
        // one is harmless.
        longest_queries(std::max<int64_t>(2, offsets->longest_queries)),
        is_causal(tiles.kind == TileKind::kCausal || tiles.kind == TileKind::kBand),
        window_left(tiles.kind == TileKind::kWindowEdge ? 0
                    : tiles.window > 0                  ? tiles.window - 1
                                                        : -1) {}

  int64_t head_dim;
  at::Tensor q, k, v;
  std::shared_ptr<const DeviceOffsets> offsets;
  int64_t longest_queries;
  bool is_causal;
  int64_t window_left;  // keys before the diagonal; -1: unbounded. The right side is always
                        // unbounded
};

PartialAttention VarlenFlashForward(const VarlenTiles& tiles) {
  const FlashCall call(tiles);
  const auto results = at::_flash_attention_forward(
      call.q, call.k, call.v, call.offsets->queries, call.offsets->keys, call.longest_queries,
      call.offsets->longest_keys,
      /*dropout_p=*/0.0, call.is_causal, /*return_debug_mask=*/false, tiles.score.scale,
      call.window_left,
      /*window_size_right=*/-1);
  return {CutHeadDim(std::get<0>(results), tiles.v_NKD.size(2)), std::get<1>(results).t()};
}

TileGradients VarlenFlashBackward(const VarlenTiles& tiles, const at::Tensor& dout_MHD,
                                  const at::Tensor& out_MHD, const at::Tensor& lse_MH) {
  const FlashCall call(tiles);
  const auto as_q = [&](const at::Tensor& rows) {
    return PadHeadDim(rows.to(call.q.scalar_type()), call.head_dim).contiguous();
  };
  const at::Tensor no_dropout = at::empty({0}, call.offsets->queries.options());
  const auto [dq, dk, dv] = at::_flash_attention_backward(
      as_q(dout_MHD), call.q, call.k, call.v, as_q(out_MHD), lse_MH.t().contiguous(),
      call.offsets->queries, call.offsets->keys, call.longest_queries, call.offsets->longest_keys,
      /*dropout_p=*/0.0, call.is_causal,
      /*rng_state=*/no_dropout, /*unused=*/no_dropout, tiles.score.scale, call.window_left,
      /*window_size_right=*/-1);
  return CutGradients({dq, dk, dv}, tiles);
}

// ---- cuDNN for long tiles, and flash attention for each run of other tiles between these

// The tile of a cuDNN call. q, k and v are padded to one head dim, as for flash attention.
Tile CudnnTileOf(const VarlenTiles& call) {
  const int64_t head_dim = GreaterDim(call);
  return {PadHeadDim(call.q_MHD, head_dim), PadHeadDim(call.k_NKD, head_dim),
          PadHeadDim(call.v_NKD, head_dim), call.kind, call.score};
}

PartialAttention VarlenCudnnForward(const VarlenTiles& call) {
  PartialAttention part = CudnnForward(CudnnTileOf(call));
  return {CutHeadDim(part.out_MHD, call.v_NKD.size(2)), std::move(part.lse_MH)};
}

TileGradients VarlenCudnnBackward(const VarlenTiles& call, const at::Tensor& dout_MHD,
                                  const at::Tensor& out_MHD, const at::Tensor& lse_MH) {
  const Tile tile = CudnnTileOf(call);
  const auto as_tile = [&](const at::Tensor& rows) {
    const int64_t missing = tile.v_NKD.size(2) - rows.size(2);
    return missing > 0 ? at::constant_pad_nd(rows, {0, missing}) : rows;
  };
  return CutGradients(CudnnBackward(tile, as_tile(dout_MHD), as_tile(out_MHD), lse_MH), call);
}

at::Tensor JoinedParts(const std::vector<at::Tensor>& of_parts) {
  return of_parts.size() == 1 ? of_parts[0] : at::cat(of_parts);
}

// cuDNN's result, or flash attention's if cuDNN throws because it has no kernel for the call. Only
// the cuDNN library knows which calls it supports.
template <typename Cudnn, typename Flash>
auto CudnnOrFlash(const VarlenTiles& call, bool falls_back, const Cudnn& cudnn,
                  const Flash& flash) {
  try {
    return cudnn();
  } catch (const c10::OutOfMemoryError&) {
    throw;
  } catch (const c10::Error& error) {
    if (!falls_back) throw;
    TORCH_WARN_ONCE("cuDNN does not support attention of ", call.q_MHD.size(0), " queries, ",
                    call.k_NKD.size(0), " keys and heads of ", GreaterDim(call),
                    "; flash attention computes it (", error.what_without_backtrace(), ")");
    return flash();
  }
}

PartialAttention FusedForward(const VarlenTiles& tiles, const KernelChoice& choice,
                              bool falls_back) {
  const std::vector<VarlenPart> parts = PartsOf(tiles, choice);
  if (parts.size() == 1 && !parts[0].is_cudnns) return VarlenFlashForward(tiles);
  std::vector<at::Tensor> out, lse;
  for (size_t i = 0; i < parts.size(); ++i) {
    const VarlenTiles call = CallOfPart(tiles, parts[i], i);
    const auto by_flash = [&] { return VarlenFlashForward(call); };
    const auto by_cudnn = [&] { return VarlenCudnnForward(call); };
    PartialAttention part =
        parts[i].is_cudnns ? CudnnOrFlash(call, falls_back, by_cudnn, by_flash) : by_flash();
    out.push_back(std::move(part.out_MHD));
    lse.push_back(std::move(part.lse_MH));
  }
  return {JoinedParts(out), JoinedParts(lse)};
}

TileGradients FusedBackward(const VarlenTiles& tiles, const KernelChoice& choice, bool falls_back,
                            const at::Tensor& dout_MHD, const at::Tensor& out_MHD,
                            const at::Tensor& lse_MH) {
  const std::vector<VarlenPart> parts = PartsOf(tiles, choice);
  if (parts.size() == 1 && !parts[0].is_cudnns)
    return VarlenFlashBackward(tiles, dout_MHD, out_MHD, lse_MH);
  std::vector<at::Tensor> dq, dk, dv;
  for (size_t i = 0; i < parts.size(); ++i) {
    const VarlenTiles call = CallOfPart(tiles, parts[i], i);
    const auto of_part = [&](const at::Tensor& rows) {
      return RowsOfPart(rows, tiles.query_offsets, parts[i]);
    };
    const at::Tensor dout = of_part(dout_MHD), out = of_part(out_MHD), lse = of_part(lse_MH);
    const auto by_flash = [&] { return VarlenFlashBackward(call, dout, out, lse); };
    const auto by_cudnn = [&] { return VarlenCudnnBackward(call, dout, out, lse); };
    TileGradients part =
        parts[i].is_cudnns ? CudnnOrFlash(call, falls_back, by_cudnn, by_flash) : by_flash();
    dq.push_back(std::move(part.dq_MHD));
    dk.push_back(std::move(part.dk_NKD));
    dv.push_back(std::move(part.dv_NKD));
  }
  return {JoinedParts(dq), JoinedParts(dk), JoinedParts(dv)};
}

// ---- Memory-efficient attention: [1, rows, heads, D] with as many kv heads as query heads, lse
// [tiles, H, longest rounded up]

struct EfficientCall {
  explicit EfficientCall(const VarlenTiles& tiles)
      : heads(tiles.q_MHD.size(1)),
        kv_heads(tiles.k_NKD.size(1)),
        head_dim(tiles.q_MHD.size(2)),
        value_dim(tiles.v_NKD.size(2)),
        offsets(OffsetsWithPlaces(tiles)),
        q(Batch(tiles.q_MHD)),
        k(Batch(Repeated(tiles.k_NKD))),
        v(Batch(Repeated(tiles.v_NKD))),
        lse_rows(RoundUp(offsets->longest_queries, kLseAlignment)),
        mask(tiles.kind == TileKind::kFull ? 0 : 1) {}

  // Converts rows to the kernel's layout, and back.
  at::Tensor Batch(const at::Tensor& rows) const {
    return PadHeadDim(Turned(rows), rows.size(2)).unsqueeze(0);
  }
  at::Tensor RowsOf(const at::Tensor& batch, int64_t dim) const {
    return Turned(CutHeadDim(batch.squeeze(0), dim));
  }
  at::Tensor KeyRowsOf(const at::Tensor& batch, int64_t dim) const {
    return RowsOf(batch, dim).unflatten(1, {kv_heads, heads / kv_heads}).sum(2);
  }

  // The kernel reads lse in groups of 32 rows. An lse of +inf makes the probabilities of padding
  // rows 0.
  at::Tensor PadLse(const at::Tensor& lse_MH) const {
    at::Tensor padded = at::full({tiles() * lse_rows, heads},
                                 std::numeric_limits<double>::infinity(), lse_MH.options());
    padded.index_copy_(0, offsets->lse_places, Turned(lse_MH));
    return padded.view({tiles(), lse_rows, heads}).transpose(1, 2).contiguous();
  }
  at::Tensor CutLse(const at::Tensor& lse) const {
    return Turned(lse.transpose(1, 2)
                      .reshape({tiles() * lse_rows, heads})
                      .index_select(0, offsets->lse_places));
  }

  // An index tensor that reverses the rows of each tile. Applied twice it restores them.
  static at::Tensor Reversal(const VarlenTiles& tiles) {
    const std::vector<int64_t>& offsets = tiles.query_offsets;
    std::vector<int64_t> index(offsets.back());
    std::iota(index.begin(), index.end(), 0);
    for (size_t i = 0; i + 1 < offsets.size(); ++i)
      std::reverse(index.begin() + offsets[i], index.begin() + offsets[i + 1]);
    return base::ToDevice(index, tiles.q_MHD.device());
  }

  // The index of each query row among the padded rows of all tiles.
  static at::Tensor LsePlaces(const VarlenTiles& tiles, int64_t rows_of_tile) {
    const std::vector<int64_t>& offsets = tiles.query_offsets;
    std::vector<int64_t> places(offsets.back());
    for (size_t i = 0; i + 1 < offsets.size(); ++i) {
      std::iota(places.begin() + offsets[i], places.begin() + offsets[i + 1],
                static_cast<int64_t>(i) * rows_of_tile);
    }
    return base::ToDevice(places, tiles.q_MHD.device());
  }

  static std::shared_ptr<const DeviceOffsets> OffsetsWithPlaces(const VarlenTiles& tiles) {
    const std::shared_ptr<DeviceOffsets> made = OffsetsOf(tiles);
    if (made->lse_places.defined()) return made;
    made->lse_places = LsePlaces(tiles, RoundUp(made->longest_queries, kLseAlignment));
    if (tiles.kind == TileKind::kWindowEdge) made->reversal = Reversal(tiles);
    return made;
  }

  at::Tensor Turned(const at::Tensor& rows) const {
    return offsets->reversal.defined() ? rows.index_select(0, offsets->reversal) : rows;
  }
  at::Tensor Repeated(const at::Tensor& rows) const {
    return heads == kv_heads ? rows : rows.repeat_interleave(heads / kv_heads, 1);
  }
  int64_t tiles() const { return offsets->queries.size(0) - 1; }

  int64_t heads, kv_heads, head_dim, value_dim;
  std::shared_ptr<const DeviceOffsets> offsets;
  at::Tensor q, k, v;
  int64_t lse_rows;
  int64_t mask;  // 1: causal, aligned to the top left
};

PartialAttention EfficientForward(const VarlenTiles& tiles) {
  const EfficientCall call(tiles);
  const auto results = at::_efficient_attention_forward(
      call.q, call.k, call.v, /*bias=*/std::nullopt, call.offsets->queries, call.offsets->keys,
      call.offsets->longest_queries, call.offsets->longest_keys, /*dropout_p=*/0.0, call.mask,
      /*compute_log_sumexp=*/true, tiles.score.scale);
  return {call.RowsOf(std::get<0>(results), call.value_dim), call.CutLse(std::get<1>(results))};
}

TileGradients EfficientBackward(const VarlenTiles& tiles, const at::Tensor& dout_MHD,
                                const at::Tensor& out_MHD, const at::Tensor& lse_MH) {
  const EfficientCall call(tiles);
  const at::Tensor no_dropout = at::empty({0}, call.offsets->queries.options());
  // The kernel assumes without a check that the row stride of out is H D.
  const auto results = at::_efficient_attention_backward(
      call.Batch(dout_MHD).contiguous(), call.q, call.k, call.v, /*bias=*/std::nullopt,
      call.Batch(out_MHD).contiguous(), call.offsets->queries, call.offsets->keys,
      call.offsets->longest_queries, call.offsets->longest_keys, call.PadLse(lse_MH),
      /*dropout_p=*/0.0, /*philox_seed=*/no_dropout,
      /*philox_offset=*/no_dropout, call.mask, /*bias_requires_grad=*/false, tiles.score.scale);
  return {call.RowsOf(std::get<0>(results), call.head_dim),
          call.KeyRowsOf(std::get<1>(results), call.head_dim),
          call.KeyRowsOf(std::get<2>(results), call.value_dim)};
}

}  // namespace

CudaVarlenAttention::CudaVarlenAttention(KernelChoice choice, bool falls_back)
    : choice_(choice),
      falls_back_(falls_back),
      strips_(std::make_unique<StripVarlenAttention>()),
      explicit_(std::make_unique<ExplicitVarlenAttention>()) {}

bool CudaVarlenAttention::TakesBands(at::ScalarType type, int64_t head_dim,
                                     const ScoreFunction& score) const {
  const Kernel kernel = KernelFor(type, head_dim, score);
  return kernel == Kernel::kFlash || kernel == Kernel::kStrips;
}

PartialAttention CudaVarlenAttention::RunForward(const VarlenTiles& tiles) const {
  switch (KernelFor(tiles)) {
    case Kernel::kFlash:
      return FusedForward(tiles, choice_, falls_back_);
    case Kernel::kEfficient:
      return EfficientForward(tiles);
    case Kernel::kStrips:
      return strips_->Forward(tiles);
    case Kernel::kExplicit:
      return explicit_->Forward(tiles);
  }
  TORCH_INTERNAL_ASSERT(false, "no kernel");
}

TileGradients CudaVarlenAttention::RunBackward(const VarlenTiles& tiles, const at::Tensor& dout_MHD,
                                               const at::Tensor& out_MHD,
                                               const at::Tensor& lse_MH) const {
  switch (KernelFor(tiles)) {
    case Kernel::kFlash:
      return FusedBackward(tiles, choice_, falls_back_, dout_MHD, out_MHD, lse_MH);
    case Kernel::kEfficient:
      return EfficientBackward(tiles, dout_MHD, out_MHD, lse_MH);
    case Kernel::kStrips:
      return strips_->Backward(tiles, dout_MHD, out_MHD, lse_MH);
    case Kernel::kExplicit:
      return explicit_->Backward(tiles, dout_MHD, out_MHD, lse_MH);
  }
  TORCH_INTERNAL_ASSERT(false, "no kernel");
}

}  // namespace moonring::attention
