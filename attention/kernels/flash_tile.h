#ifndef MOONRING_ATTENTION_KERNELS_FLASH_TILE_H_
#define MOONRING_ATTENTION_KERNELS_FLASH_TILE_H_

// A fused kernel for one tile of attention on a CPU (equations: block_attention.h). Scores exist
// for 64 queries and 512 keys at a time (FlashAttention, arXiv 2205.14135 and 2307.08691), in a
// core's second-level cache. Matrix products are those of panels-inl.h, with the widest vectors of
// the CPU, selected at run time.
//
// Rows are fp32, or bf16 where the CPU has bf16 products (HasBf16Tiles). In the latter case both
// factors of each product are bf16 and its sums are fp32; the softmax weights P and the scores'
// gradients dS, which are factors of products, are rounded to bf16, and so is dout, the output's
// gradient. Softmax, delta (for each query and head, the sum of dout times the output) and all
// results are fp32 in both cases.
//
// Masked query-key pairs are skipped, except for about 64 per query. Each element of a result is
// one sum, in an order that depends only on the row's position in the tile and on the key rows, not
// on other heads, strides or threads. NaN in the inputs of a row becomes NaN in its results. Throws
// std::bad_alloc. Memory beyond the results, for the N keys of one kv head (D channels in a key, Dv
// in a value): in the forward N (D + Dv) numbers of the rows' type and about 200 KB for the scores;
// in the backward N (2 D + Dv) numbers of the rows' type, N (D + Dv) floats and about 500 KB for
// the scores.

#include <cstdint>

#include "attention/kernels/bf16.h"
#include "attention/kernels/tile.h"

namespace moonring::attention {

// A view [rows, heads, D or Dv]: the last dim of (row, head) is contiguous and begins at data + row
// * row_stride + head * head_stride. Strides are in elements.
template <typename T>
struct StridedRows {
  const T* data = nullptr;
  int64_t row_stride = 0;
  int64_t head_stride = 0;
  const T* At(int64_t row, int64_t head) const {
    return data + row * row_stride + head * head_stride;
  }
};

// The tile's tensors; shapes and meanings are those of Tile in block_attention.h. They are not
// checked here.
template <typename T>
struct FlashTile {
  StridedRows<T> q, k, v;
  int64_t queries = 0, keys = 0, heads = 0, kv_heads = 0;
  int64_t head_dim = 0, value_dim = 0;  // of q and k; of v and out
  TileKind kind = TileKind::kFull;
  float scale = 1.0f;
  float softcap = 0.0f;  // 0: none
};

// Whether this CPU has AVX-512 BF16. Without it the functions for Bf16 must not be called.
bool HasBf16Tiles();

// Compute the tile. Results must be contiguous tensors; their contents are overwritten.
void FlashForward(const FlashTile<float>& tile, float* out_MHD, float* lse_MH);
void FlashForward(const FlashTile<Bf16>& tile, float* out_MHD, float* lse_MH);
void FlashBackward(const FlashTile<float>& tile, const StridedRows<float>& dout,
                   const StridedRows<float>& out, const StridedRows<float>& lse, float* dq_MHD,
                   float* dk_NKD, float* dv_NKD);
void FlashBackward(const FlashTile<Bf16>& tile, const StridedRows<float>& dout,
                   const StridedRows<float>& out, const StridedRows<float>& lse, float* dq_MHD,
                   float* dk_NKD, float* dv_NKD);

}  // namespace moonring::attention

#endif  // MOONRING_ATTENTION_KERNELS_FLASH_TILE_H_
