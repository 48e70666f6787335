#ifndef MOONRING_KERNELS_PAGED_SCORES_H_
#define MOONRING_KERNELS_PAGED_SCORES_H_

// Scores of a few queries against a block of 64 tokens, and their running softmax over blocks, by
// one warp, for paged_attention.cu. A block's keys are stored by channel, [D, 64]: a lane reads as
// many neighbouring tokens as fill 16 bytes, of every 4th channel (every 2nd in fp32). Lanes with
// the same tokens then add up their sums, exchanging half of them at a time.

#include <limits>

#include "kernels/language.h"
#include "kernels/vectors.h"

namespace moonring::kernels::KERNEL_SIDE {

constexpr int kTokensOfBlock = 64;
constexpr int kAhead = 8;  // outstanding loads per lane
constexpr float kLowestScore = std::numeric_limits<float>::lowest();
constexpr float kNoScore = -std::numeric_limits<float>::infinity();

// How a warp's lanes divide the scores [kQueries, 64].
template <typename T, int kQueries>
struct Lanes {
  static constexpr int kNext = kAtOnce<T>;              // neighbouring numbers that a lane reads
  static constexpr int kSide = kTokensOfBlock / kNext;  // lanes that cover all tokens of a channel
  static constexpr int kChannels = kWarp / kSide;       // channels read at once
  static constexpr int kAll = kQueries * kNext;         // sums of a lane over its channels
  static constexpr int kScores = kAll / kChannels;      // scores of a lane after adding up:
  static constexpr int kSplit = kQueries < kChannels ? kQueries : kChannels;
  static constexpr int kOwn = kQueries / kSplit;   // of this many queries,
  static constexpr int kKeys = kScores / kOwn;     // this many each
  static constexpr int kSharing = kWarp / kSplit;  // lanes that share a query
};

// The running softmax of a lane's own queries over the warp's blocks: the maximum score of each
// query, and the lane's share of the sum of e^(s - max).
template <int kOwn>
struct Running {
  float max[kOwn], sum[kOwn];
};

__device__ __forceinline__ int Lane() { return static_cast<int>(threadIdx.x) % kWarp; }
__device__ __forceinline__ int Warp() { return static_cast<int>(threadIdx.x) / kWarp; }

// Loads N neighbouring numbers from each of kAhead rows, which are `stride` apart. `left`: how many
// numbers of a row are in range. Rows outside [begin, end) are zeros.
template <bool kAligned, typename T, int N>
__device__ __forceinline__ void LoadRows(const T* from, int64_t stride, int begin, int end,
                                         int left, Vector<T, N> (&rows)[kAhead]) {
  KERNEL_UNROLL for (int i = 0; i < kAhead; ++i) {
    KERNEL_UNROLL for (int j = 0; j < N; ++j) rows[i].at[j] = Narrow<T>(0.0f);
  }
  if constexpr (kAligned) {
    KERNEL_UNROLL for (int i = 0; i < kAhead; ++i) {
      if (i >= begin && i < end && left > 0) rows[i] = WordAt<N>(from + i * stride);
    }
  } else {
    KERNEL_UNROLL for (int i = 0; i < kAhead; ++i) {
      KERNEL_UNROLL for (int j = 0; j < N; ++j) {
        if (i >= begin && i < end && j < left) rows[i].at[j] = from[i * stride + j];
      }
    }
  }
}

// Computes q . k over the lane's channels: sums[query * kNext + j] for the lane's token j. q is
// [channel, query].
template <bool kAligned, typename T, int kQueries>
__device__ __forceinline__ void Multiply(const T* keys, const float* q, int key_dim,
                                         float (&sums)[Lanes<T, kQueries>::kAll]) {
  using L = Lanes<T, kQueries>;
  constexpr int N = L::kNext, kWord = kQueries < 4 ? kQueries : 4;
  const int first = Lane() / L::kSide;
  const T* const own = keys + Lane() % L::kSide * N;
  KERNEL_UNROLL for (int i = 0; i < L::kAll; ++i) sums[i] = 0.0f;
  for (int channel = first; channel < key_dim; channel += L::kChannels * kAhead) {
    Vector<T, N> rows[kAhead];
    const int there = (key_dim - channel + L::kChannels - 1) / L::kChannels;
    LoadRows<kAligned>(own + channel * kTokensOfBlock, L::kChannels * kTokensOfBlock, 0, there, N,
                       rows);
    KERNEL_UNROLL for (int i = 0; i < kAhead; ++i) {
      float key[N];
      KERNEL_UNROLL for (int j = 0; j < N; ++j) key[j] = Wide(rows[i].at[j]);
      const float* const of_q = q + (channel + i * L::kChannels) * kQueries;
      KERNEL_UNROLL for (int query = 0; query < kQueries; query += kWord) {
        const auto word = WordAt<kWord>(of_q + query);
        KERNEL_UNROLL for (int k = 0; k < kWord; ++k) {
          KERNEL_UNROLL for (int j = 0; j < N; ++j) sums[(query + k) * N + j] +=
              word.at[k] * key[j];
        }
      }
    }
  }
}

// Adds up the sums of lanes with the same tokens; each lane keeps its share of the kCount sums, in
// order.
template <int kLanes, int kSide, int kCount, int kAll>
__device__ __forceinline__ void AddUp(float (&sums)[kAll]) {
  if constexpr (kLanes >= kSide) {
    const bool upper = (Lane() & kLanes) != 0;
    KERNEL_UNROLL for (int i = 0; i < kCount / 2; ++i) {
      const float mine = upper ? sums[i + kCount / 2] : sums[i],
                  other = upper ? sums[i] : sums[i + kCount / 2];
      sums[i] = mine + __shfl_xor_sync(kWholeWarp, other, kLanes);
    }
    AddUp<kLanes / 2, kSide, kCount / 2>(sums);
  }
}

// Converts the lane's sums to scores s, and stores e^(s - max) in p [query, token]. Stores in keep
// [query] the factor by which earlier sums must be multiplied, because max may have risen.
template <typename T, int kQueries>
__device__ __forceinline__ void Weigh(const float (&sums)[Lanes<T, kQueries>::kAll], float softcap,
                                      int begin, int end, float* p, float* keep,
                                      Running<Lanes<T, kQueries>::kOwn>& running) {
  using L = Lanes<T, kQueries>;
  constexpr int kWord = L::kKeys < 4 ? L::kKeys : 4;
  const int share = Lane() / L::kSide, first = share * L::kScores, query = first / L::kNext,
            token = Lane() % L::kSide * L::kNext + first % L::kNext;
  KERNEL_UNROLL for (int own = 0; own < L::kOwn; ++own) {
    float e[L::kKeys], most = running.max[own];
    KERNEL_UNROLL for (int j = 0; j < L::kKeys; ++j) {
      float score = sums[own * L::kKeys + j];
      if (softcap > 0.0f) score = softcap * Tanh(score / softcap);
      e[j] = token + j >= begin && token + j < end ? score : kNoScore;
      most = most > e[j] ? most : e[j];
    }
    for (int lanes = 1; lanes < L::kSharing; lanes *= 2) {
      const float other = __shfl_xor_sync(kWholeWarp, most, lanes);
      most = most > other ? most : other;
    }
    const float base = most > kLowestScore ? most : kLowestScore,
                shrink = Exp(running.max[own] - base);
    KERNEL_UNROLL for (int j = 0; j < L::kKeys; ++j) e[j] = Exp(e[j] - base);
    KERNEL_UNROLL for (int j = 0; j < L::kKeys; j += kWord) {
      Vector<float, kWord> word;
      KERNEL_UNROLL for (int k = 0; k < kWord; ++k) word.at[k] = e[j + k];
      WordAt<kWord>(p + (query + own) * kTokensOfBlock + token + j) = word;
    }
    if (Lane() % L::kSharing == 0) keep[query + own] = shrink;
    // A sum over neighbouring tokens in a tree, whose order is the same however many lanes share
    // the tokens.
    KERNEL_UNROLL for (int width = 1; width < L::kKeys; width *= 2) {
      KERNEL_UNROLL for (int j = 0; j + width < L::kKeys; j += 2 * width) e[j] += e[j + width];
    }
    for (int lanes = L::kSide; lanes < L::kSharing; lanes *= 2)
      e[0] += __shfl_xor_sync(kWholeWarp, e[0], lanes);
    running.max[own] = most;
    running.sum[own] = running.sum[own] * shrink + e[0];
  }
}

}  // namespace moonring::kernels::KERNEL_SIDE

#endif  // MOONRING_KERNELS_PAGED_SCORES_H_
