// Attention of some rows over keys in blocks (paged_attention.h). A block of threads has one task,
// one kv head and kQueries queries. Its warps process the task's blocks of 64 tokens in turn, each
// with its own running softmax (paged_scores.h), so that they synchronize only at the end.

#include "kernels/language.h"
#include "kernels/paged_attention_launch.h"
#include "kernels/paged_scores.h"
#include "kernels/vectors.h"

namespace moonring::kernels::KERNEL_SIDE {
namespace {

constexpr int kWarps = 4, kThreads = kWarps * kWarp;
static_assert(kTokensOfBlock == kPagedTokens);
constexpr int kPadded = 32;  // channels of q in shared memory are padded to a multiple

// How a warp's lanes divide a block's values: `side` lanes share a row, next to each other.
struct ValueLanes {
  int side, column, row, rows_at_once;
};

// Adds the lane's rows of P V: weighted[piece][query * kNext + j] <- weighted * keep + P V.
template <bool kAligned, typename T, int kQueries, int kPieces>
__device__ __forceinline__ void AddValues(const T* values, int value_dim, const ValueLanes& at,
                                          const float* p, const float* keep, int begin, int end,
                                          float (&weighted)[kPieces][Lanes<T, kQueries>::kAll]) {
  constexpr int N = Lanes<T, kQueries>::kNext;
  KERNEL_UNROLL for (int query = 0; query < kQueries; ++query) {
    const float factor = keep[query];
    KERNEL_UNROLL for (int piece = 0; piece < kPieces; ++piece) {
      KERNEL_UNROLL for (int j = 0; j < N; ++j) weighted[piece][query * N + j] *= factor;
    }
  }
  for (int row = begin / at.rows_at_once * at.rows_at_once + at.row; row < end;
       row += at.rows_at_once) {
    KERNEL_UNROLL for (int piece = 0; piece < kPieces; ++piece) {
      const int column = at.column + piece * kWarp * N;
      Vector<T, N> rows[kAhead];
      LoadRows<kAligned>(values + row * value_dim + column, value_dim, begin - row, end - row,
                         value_dim - column, rows);
      KERNEL_UNROLL for (int half = 0; half < kAhead; half += 4) {
        float value[4][N];
        KERNEL_UNROLL for (int i = 0; i < 4; ++i) {
          KERNEL_UNROLL for (int j = 0; j < N; ++j) value[i][j] = Wide(rows[half + i].at[j]);
        }
        KERNEL_UNROLL for (int query = 0; query < kQueries; ++query) {
          const auto word = WordAt<4>(p + query * kTokensOfBlock + row + half);
          KERNEL_UNROLL for (int i = 0; i < 4; ++i) {
            KERNEL_UNROLL for (int j = 0; j < N; ++j) weighted[piece][query * N + j] +=
                word.at[i] * value[i][j];
          }
        }
      }
    }
  }
}

// The layout of shared memory, as offsets in floats.
struct SharedPlaces {
  int q_size, row;  // q, [channel, query]; one query's row of A
  int p, keep;      // [warp, query, token] and [warp, query], after q
  int weighted;     // [warp, query, row]: reuses q, p and keep after their use
  int size;         // total; before all these: the warps' max and sum, [warp, 2, query]
};
template <typename T, int kQueries>
__host__ __device__ __forceinline__ SharedPlaces PlacesOf(const PagedAttentionCall& call) {
  constexpr int N = kAtOnce<T>;
  SharedPlaces at{};
  at.q_size = (static_cast<int>(call.key_dim) + kPadded - 1) / kPadded * kPadded * kQueries;
  at.row = (static_cast<int>(call.value_dim) + N - 1) / N * N;
  at.weighted = kWarps * 2 * kQueries;
  at.p = at.weighted + at.q_size;
  at.keep = at.p + kWarps * kQueries * kTokensOfBlock;
  const int used = at.keep + kWarps * kQueries, merged = at.weighted + kWarps * kQueries * at.row;
  at.size = used > merged ? used : merged;
  return at;
}

// The queries of a block of threads: query i is head head_of(i) of part part_of(i).
struct Queries {
  int heads, first_head;  // per part
  int first_part, end_part;
  __device__ int part_of(int i) const { return first_part + i / heads; }
  __device__ int head_of(int i) const { return first_head + i % heads; }
  __device__ bool is_there(int i) const { return i / heads < end_part - first_part; }
};

__device__ __forceinline__ Queries QueriesOf(const PagedAttentionCall& call, int kv_head,
                                             int group) {
  const int all = static_cast<int>(call.queries), left = all - group * kPagedQueries;
  return {.heads = left < kPagedQueries ? left : kPagedQueries,
          .first_head = kv_head * all + group * kPagedQueries,
          .first_part = call.of_tasks[2 * blockIdx.x + 1],
          .end_part = call.of_tasks[2 * blockIdx.x + 3]};
}

// Loads the queries, multiplied by the scale, as fp32 [channel, query]; zeros for a missing query
// or channel.
template <typename T, int kQueries>
__device__ __forceinline__ void LoadQueries(const PagedAttentionCall& call, const Queries& queries,
                                            int q_size, float* q) {
  const int channels = q_size / kQueries;
  for (int i = static_cast<int>(threadIdx.x); i < q_size; i += kThreads) {
    const int query = i / channels, channel = i % channels;
    float number = 0.0f;
    if (queries.is_there(query) && channel < call.key_dim) {
      const int64_t row = call.of_parts[queries.part_of(query)];
      number = Wide(static_cast<const T*>(
                   call.q)[row * call.q_row_stride + queries.head_of(query) * call.q_head_stride +
                           channel]) *
               call.scale;
    }
    q[channel * kQueries + query] = number;
  }
}

// Adds up the sums of a warp's lanes and stores the warp's result in shared memory.
template <typename T, int kQueries, int kPieces>
__device__ __forceinline__ void PutWarp(const SharedPlaces& at, const ValueLanes& of_values,
                                        Running<Lanes<T, kQueries>::kOwn>& running,
                                        float (&weighted)[kPieces][Lanes<T, kQueries>::kAll],
                                        float* shared) {
  using L = Lanes<T, kQueries>;
  constexpr int N = L::kNext;
  const int lane = Lane(), warp = Warp();
  float* const of_warp = shared + warp * 2 * kQueries;
  KERNEL_UNROLL for (int own = 0; own < L::kOwn; ++own) {
    for (int lanes = 1; lanes < L::kSide; lanes *= 2)
      running.sum[own] += __shfl_xor_sync(kWholeWarp, running.sum[own], lanes);
    if (lane % L::kSharing != 0) continue;
    const int query = lane / L::kSide * L::kScores / N + own;
    of_warp[query] = running.max[own];
    of_warp[kQueries + query] = running.sum[own];
  }
  KERNEL_UNROLL for (int piece = 0; piece < kPieces; ++piece) {
    KERNEL_UNROLL for (int i = 0; i < L::kAll; ++i) {
      for (int lanes = of_values.side; lanes < kWarp; lanes *= 2)
        weighted[piece][i] += __shfl_xor_sync(kWholeWarp, weighted[piece][i], lanes);
    }
    const int column = of_values.column + piece * kWarp * N;
    if (lane >= of_values.side || column >= at.row) continue;
    KERNEL_UNROLL for (int query = 0; query < kQueries; ++query) {
      float* const row = shared + at.weighted + (warp * kQueries + query) * at.row + column;
      KERNEL_UNROLL for (int j = 0; j < N; j += 4) {
        Vector<float, 4> word;
        KERNEL_UNROLL for (int k = 0; k < 4; ++k) word.at[k] = weighted[piece][query * N + j + k];
        WordAt<4>(row + j) = word;
      }
    }
  }
}

// Merges the warps' maxima, sums and A for each query, and writes them as the result of its part.
template <int kQueries>
__device__ __forceinline__ void MergeWarps(const PagedAttentionCall& call, const Queries& queries,
                                           const SharedPlaces& at, const float* shared) {
  const float* const sums = shared;
  const int width = static_cast<int>(call.value_dim);
  for (int i = static_cast<int>(threadIdx.x); i < kQueries * width; i += kThreads) {
    const int query = i / width, channel = i % width;
    if (!queries.is_there(query)) return;  // nor are later ones
    float max = kNoScore, sum = 0.0f, weighted = 0.0f;
    KERNEL_UNROLL for (int warp = 0; warp < kWarps; ++warp) {
      const float other = sums[warp * 2 * kQueries + query];
      max = max > other ? max : other;
    }
    const float base = max > kLowestScore ? max : kLowestScore;
    KERNEL_UNROLL for (int warp = 0; warp < kWarps; ++warp) {
      const float* const of_warp = sums + warp * 2 * kQueries;
      const float factor = Exp(of_warp[query] - base);
      sum += of_warp[kQueries + query] * factor;
      weighted += shared[at.weighted + (warp * kQueries + query) * at.row + channel] * factor;
    }
    const int64_t place =
        queries.part_of(query) * (call.kv_heads * call.queries) + queries.head_of(query);
    call.weighted[place * width + channel] = weighted;
    if (channel > 0) continue;
    call.sums[place * 2] = max;
    call.sums[place * 2 + 1] = sum;
  }
}

// The number of blocks of threads to keep resident on a multiprocessor, within its registers: while
// one waits for its loads another computes.
__host__ __device__ constexpr int Resident(int queries) {
  if (queries == 8) return 2;
  return queries == 4 ? 3 : 4;
}

template <bool kAligned, typename T, int kQueries, int kPieces>
__global__ void __launch_bounds__(kThreads, Resident(kQueries))
    Attend(const PagedAttentionCall call, const int groups, const int side) {
  using L = Lanes<T, kQueries>;
  constexpr int N = L::kNext;
  KERNEL_DYNAMIC_SHARED(float, shared);
  const SharedPlaces at = PlacesOf<T, kQueries>(call);
  const int kv_head = static_cast<int>(blockIdx.y) / groups, lane = Lane(), warp = Warp(),
            key_dim = static_cast<int>(call.key_dim), value_dim = static_cast<int>(call.value_dim);
  const Queries queries = QueriesOf(call, kv_head, static_cast<int>(blockIdx.y) % groups);
  float *const q = shared + at.weighted,
               *const p = shared + at.p + warp * kQueries * kTokensOfBlock,
               *const keep = shared + at.keep + warp * kQueries;
  LoadQueries<T, kQueries>(call, queries, at.q_size, q);
  __syncthreads();

  const ValueLanes of_values = {side, lane % side * N, lane / side * kAhead, kWarp / side * kAhead};
  Running<L::kOwn> running;
  KERNEL_UNROLL for (int own = 0; own < L::kOwn; ++own) {
    running.max[own] = kNoScore;
    running.sum[own] = 0.0f;
  }
  float weighted[kPieces][L::kAll] = {};
  const int end_block = call.of_tasks[2 * blockIdx.x + 2];
  for (int i = call.of_tasks[2 * blockIdx.x] + warp; i < end_block; i += kWarps) {
    const int32_t* const block = call.of_blocks + 3 * static_cast<int64_t>(i);
    const int64_t place = block[0] * call.kv_heads + kv_head;
    float sums[L::kAll];
    Multiply<kAligned, T, kQueries>(
        static_cast<const T*>(call.keys) + place * key_dim * kTokensOfBlock, q, key_dim, sums);
    AddUp<kWarp / 2, L::kSide, L::kAll>(sums);
    __syncwarp();  // p and keep have been read
    Weigh<T, kQueries>(sums, call.softcap, block[1], block[2], p, keep, running);
    __syncwarp();
    AddValues<kAligned, T, kQueries, kPieces>(
        static_cast<const T*>(call.values) + place * kTokensOfBlock * value_dim, value_dim,
        of_values, p, keep, block[1], block[2], weighted);
  }

  __syncthreads();  // q, p and keep have been read
  PutWarp<T, kQueries, kPieces>(at, of_values, running, weighted, shared);
  __syncthreads();
  MergeWarps<kQueries>(call, queries, at, shared);
}

constexpr int kMergeWarps = 8, kMergeNext = 4;

// Merges the partial results of the tasks: one block of threads for each row and head, whose warps
// process the row's parts in turn.
__global__ void Merge(const PagedAttentionCall call, const bool aligned) {
  constexpr int N = kMergeNext;
  KERNEL_SHARED(float, out_of_warp, kMergeWarps* kPagedWidth);
  KERNEL_SHARED(float, sum_of_warp, kMergeWarps);
  const int lane = Lane(), warp = Warp(), width = static_cast<int>(call.value_dim);
  const int64_t heads = call.kv_heads * call.queries, head = blockIdx.x % heads;
  const int32_t* const of_row = call.of_rows + 2 * (blockIdx.x / heads);
  const int64_t place = of_row[0] * heads + head;
  const int begin = of_row[1], end = of_row[3];
  float max = kNoScore;
  for (int i = begin + lane; i < end; i += kWarp) {
    const float other = call.sums[(call.of_links[i] * heads + head) * 2];
    max = max > other ? max : other;
  }
  for (int lanes = 1; lanes < kWarp; lanes *= 2) {
    const float other = __shfl_xor_sync(kWholeWarp, max, lanes);
    max = max > other ? max : other;
  }
  const float base = max > kLowestScore ? max : kLowestScore;
  for (int channel = lane * N; channel < width; channel += kWarp * N) {
    const int left = width - channel;
    float out[N] = {}, sum = 0.0f;
    for (int i = begin + warp; i < end; i += kMergeWarps) {
      const int64_t part = call.of_links[i] * heads + head;
      const float factor = Exp(call.sums[part * 2] - base);
      float weighted[N];
      Load<N>(call.weighted + part * width + channel, left, aligned && left >= N, weighted);
      sum += call.sums[part * 2 + 1] * factor;
      KERNEL_UNROLL for (int j = 0; j < N; ++j) out[j] += weighted[j] * factor;
    }
    Store<N>(out_of_warp + warp * kPagedWidth + channel, N, /*aligned=*/true, out);
    if (channel == 0) sum_of_warp[warp] = sum;
  }
  __syncthreads();
  float sum = 0.0f;
  KERNEL_UNROLL for (int i = 0; i < kMergeWarps; ++i) sum += sum_of_warp[i];
  const float divisor = sum == 0.0f ? 1.0f : sum;
  if (threadIdx.x == 0) call.lse[place] = max + std::log(divisor);
  const int channel = static_cast<int>(threadIdx.x);
  if (channel >= width) return;
  float out = 0.0f;
  KERNEL_UNROLL for (int i = 0; i < kMergeWarps; ++i) out += out_of_warp[i * kPagedWidth + channel];
  call.out[place * width + channel] = out / divisor;
}
static_assert(kMergeWarps * kWarp == kPagedWidth);  // one channel per thread at the end

template <bool kAligned, typename T, int kQueries, int kPieces>
void LaunchAttend(const PagedAttentionCall& call, void* stream) {
  constexpr int N = kAtOnce<T>;
  const int groups = static_cast<int>((call.queries + kPagedQueries - 1) / kPagedQueries);
  int side = 1;  // the least power of two that covers a row, at most a warp
  while (side < kWarp && side * N < call.value_dim) side *= 2;
  const Shape shape = {
      .grid_x = call.tasks,
      .grid_y = call.kv_heads * groups,
      .block_x = kThreads,
      .shared_bytes = PlacesOf<T, kQueries>(call).size * static_cast<int64_t>(sizeof(float)),
      .stream = stream};
  Launch(shape, &Attend<kAligned, T, kQueries, kPieces>, call, groups, side);
}

// The sums do not depend on the number of queries per block of threads, so only a few sizes are
// compiled.
template <typename T, int kPieces>
void LaunchByQueries(const PagedAttentionCall& call, void* stream) {
  constexpr int N = kAtOnce<T>;
  if (!IsAligned<N>(static_cast<const T*>(call.keys), kTokensOfBlock, kTokensOfBlock) ||
      !IsAligned<N>(static_cast<const T*>(call.values), call.value_dim, call.value_dim))
    return LaunchAttend<false, T, 8, kPieces>(call, stream);
  const int64_t queries = call.queries * call.most_rows;
  if constexpr (sizeof(T) == 2) {
    if (queries == 1) return LaunchAttend<true, T, 1, kPieces>(call, stream);
  }
  if (queries <= 4) return LaunchAttend<true, T, 4, kPieces>(call, stream);
  LaunchAttend<true, T, 8, kPieces>(call, stream);
}

}  // namespace

void LaunchPagedAttention(const PagedAttentionCall& call, void* stream) {
  if (call.rows == 0) return;
  if (call.tasks > 0) {
    if (call.type == Type::kBf16) {
      LaunchByQueries<Bf16, 1>(call, stream);
    } else if (call.type == Type::kHalf) {
      LaunchByQueries<Half, 1>(call, stream);
    } else if (call.value_dim <= kWarp * kAtOnce<float>) {
      LaunchByQueries<float, 1>(call, stream);
    } else {
      LaunchByQueries<float, 2>(call, stream);
    }
  }
  Launch({.grid_x = call.rows * call.kv_heads * call.queries,
          .block_x = kMergeWarps * kWarp,
          .stream = stream},
         &Merge, call, IsAligned<kMergeNext>(call.weighted, call.value_dim, call.value_dim));
}

}  // namespace moonring::kernels::KERNEL_SIDE
