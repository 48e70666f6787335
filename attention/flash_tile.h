#ifndef MOONRING_ATTENTION_FLASH_TILE_H_
#define MOONRING_ATTENTION_FLASH_TILE_H_

// One tile of attention on a CPU (block_attention.h has the equations), fused: scores exist for 64
// queries and 512 keys at a time (FlashAttention, arXiv 2205.14135 and 2307.08691), in a core's
// second-level cache. Products are panels-inl.h's, in the widest vectors that the CPU has, chosen
// at run time.
//
// Rows are fp32, or bf16 where the CPU multiplies it (HasBf16Tiles). Then both sides of each
// product are bf16 and its sums fp32; P and dS, which are sides of products, are rounded to bf16,
// and so is dout. Softmax, delta and all results are fp32 for both.
//
// What a masked tile's queries do not see is not computed, but for some 64 keys a query. An element
// of a result is one sum, in an order that depends on its row's place in the tile and on the key
// rows alone: not on the heads beside it, on strides, on threads. NaN among the inputs of a row is
// NaN in its results. Throws std::bad_alloc. Memory beyond the results, for the keys of one kv
// head: N (D + Dv) numbers of the rows' type forward, N (2 D + Dv) and N (D + Dv) floats backward;
// and some 200, 500 KB for the scores.

#include <cstdint>

#include "attention/bf16.h"
#include "attention/tile.h"

namespace moonring::attention {

// Rows of heads: D or Dv neighbours from data + row * row_stride + head * head_stride, in elements.
template <typename T>
struct StridedRows {
  const T* data = nullptr;
  int64_t row_stride = 0;
  int64_t head_stride = 0;
  const T* At(int64_t row, int64_t head) const {
    return data + row * row_stride + head * head_stride;
  }
};

// Shapes and meanings are those of a Tile in block_attention.h, which checks them.
template <typename T>
struct FlashTile {
  StridedRows<T> q, k, v;
  int64_t queries = 0, keys = 0, heads = 0, kv_heads = 0;
  int64_t head_dim = 0, value_dim = 0;  // of q and k; of v and out
  TileKind kind = TileKind::kFull;
  float scale = 1.0f;
  float softcap = 0.0f;  // 0: none
};

// Whether this CPU has AVX-512 BF16, without which the functions for Bf16 must not be called.
bool HasBf16Tiles();

// Results are contiguous, and written over.
void FlashForward(const FlashTile<float>& tile, float* out_MHD, float* lse_MH);
void FlashForward(const FlashTile<Bf16>& tile, float* out_MHD, float* lse_MH);
void FlashBackward(const FlashTile<float>& tile, const StridedRows<float>& dout,
                   const StridedRows<float>& out, const StridedRows<float>& lse, float* dq_MHD,
                   float* dk_NKD, float* dv_NKD);
void FlashBackward(const FlashTile<Bf16>& tile, const StridedRows<float>& dout,
                   const StridedRows<float>& out, const StridedRows<float>& lse, float* dq_MHD,
                   float* dk_NKD, float* dv_NKD);

}  // namespace moonring::attention

#endif  // MOONRING_ATTENTION_FLASH_TILE_H_
