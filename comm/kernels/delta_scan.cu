// The gated delta rule's scan over chunks (delta_scan.h). A block has 16 rows v of a head's M, for
// one document. In registers a thread holds M of four channels k by four rows in each pass of 128
// channels, and in shared memory all of them lie by channels. Two products a chunk:
//
//   X [64, 16] = A M^T      a thread has four tokens by two rows; A comes in pieces of 64 channels
//   M [16, K] += X^T B      each thread its own part of M; B comes in pieces of 32 tokens

#include "comm/kernels/delta_scan_launch.h"
#include "comm/kernels/language.h"
#include "comm/kernels/vectors.h"

namespace moonring::kernels::KERNEL_SIDE {
namespace {

constexpr int kThreads = 128;
constexpr int kTokens = 64;                   // of a chunk
constexpr int kRows = 16;                     // of M that a block has
constexpr int kPass = 128;                    // channels, four a lane
constexpr int kPieceKeys = 64;                // of A
constexpr int kPieceTokens = 32;              // of B
constexpr int kPiece = kPieceKeys * kTokens;  // floats
constexpr int kStride = kRows + 4;            // of M in shared memory: four lanes' rows lie apart
static_assert(kPiece == kPieceTokens * kPass);

// Where M's channel k lies: those of neighbouring lanes one after another.
template <int kPasses>
__device__ __forceinline__ int PlaceOf(int k) {
  return (k % 4) * (kPasses * kPass / 4) + k / 4;
}

// How many rounds a document has: those in which its place is taken, the first ones.
__device__ __forceinline__ int64_t RoundsOf(const DeltaScanCall& call, int64_t place) {
  int64_t low = 0, high = call.rounds;
  while (low < high) {
    const int64_t middle = (low + high) / 2;
    if (call.round_begin[middle] + place < call.round_begin[middle + 1]) {
      low = middle + 1;
    } else {
      high = middle;
    }
  }
  return low;
}

template <int kPasses>
__global__ void __launch_bounds__(kThreads, 2) Scan(const DeltaScanCall call, const bool aligned) {
  KERNEL_SHARED(float, held, kPasses* kPass* kStride);  // M [place of k, v]
  KERNEL_SHARED(float, x, kTokens* kRows);              // X [token, v]
  KERNEL_SHARED(float, piece, kPiece);                  // A [k, token], or B [token, k]
  const int thread = static_cast<int>(threadIdx.x), lane = thread % kWarp, warp = thread / kWarp;
  const int token = thread % 16 * 4, row = thread / 16 * 2;  // of X
  const int64_t slices = (call.width + kRows - 1) / kRows, head = blockIdx.x / slices,
                first_row = blockIdx.x % slices * kRows, place = blockIdx.y, keys = call.keys;
  const int64_t own_row = first_row + warp * 4, rounds = RoundsOf(call, place);
  const auto row_is_there = [&](int v) { return own_row + v < call.width; };

  float state[kPasses][4][4];  // [pass][k][v]
  float* const document =
      call.state + ((place * call.heads + head) * call.width + own_row) * keys + lane * 4;
  KERNEL_UNROLL for (int pass = 0; pass < kPasses; ++pass) {
    const int64_t left = keys - pass * kPass - lane * 4;
    KERNEL_UNROLL for (int v = 0; v < 4; ++v) {
      float numbers[4];
      Load<4>(document + v * keys + pass * kPass, row_is_there(v) ? left : 0,
              aligned && row_is_there(v) && left > 0, numbers);
      KERNEL_UNROLL for (int k = 0; k < 4; ++k) state[pass][k][v] = numbers[k];
    }
  }

  for (int64_t step = 0; step < rounds; ++step) {
    const int64_t round = call.backward ? rounds - 1 - step : step,
                  chunk = call.round_begin[round] + place, at = chunk * call.heads + head;
    // M as the chunk is given it: for all of the block, and for who asked.
    const int64_t own = (at * call.width + own_row) * keys + lane * 4;
    KERNEL_UNROLL for (int pass = 0; pass < kPasses; ++pass) {
      const int64_t left = keys - pass * kPass - lane * 4;
      KERNEL_UNROLL for (int k = 0; k < 4; ++k) {
        Vector<float, 4> rows;
        KERNEL_UNROLL for (int v = 0; v < 4; ++v) rows.at[v] = state[pass][k][v];
        const int where = PlaceOf<kPasses>(pass * kPass + lane * 4 + k) * kStride + warp * 4;
        WordAt<4>(held + where) = rows;
      }
      KERNEL_UNROLL for (int v = 0; v < 4; ++v) {
        if (!row_is_there(v) || left <= 0) continue;
        float numbers[4];
        KERNEL_UNROLL for (int k = 0; k < 4; ++k) numbers[k] = state[pass][k][v];
        Store<4>(call.states + own + v * keys + pass * kPass, left, aligned, numbers);
      }
    }

    float sums[4][2] = {};  // of A M^T [token][v]
    const float* const a = call.a + at * kTokens * keys;
    for (int64_t first = 0; first < keys; first += kPieceKeys) {
      __syncthreads();  // who still reads the piece before; and M is there
      // Lanes take tokens, so that what they put down lies side by side.
      KERNEL_UNROLL for (int i = 0; i < kPiece / 4 / kThreads; ++i) {
        const int of = thread % kTokens, k = (thread / kTokens + i * (kThreads / kTokens)) * 4;
        const int64_t left = keys - first - k;
        float numbers[4];
        Load<4>(a + of * keys + first + k, left, aligned && left > 0, numbers);
        KERNEL_UNROLL for (int j = 0; j < 4; ++j) piece[(k + j) * kTokens + of] = numbers[j];
      }
      __syncthreads();
      const int count = static_cast<int>(keys - first < kPieceKeys ? keys - first : kPieceKeys);
      for (int k = 0; k < count; ++k) {
        const auto of_a = WordAt<4>(piece + k * kTokens + token);
        const auto of_m =
            WordAt<2>(held + PlaceOf<kPasses>(static_cast<int>(first) + k) * kStride + row);
        KERNEL_UNROLL for (int i = 0; i < 4; ++i) {
          KERNEL_UNROLL for (int v = 0; v < 2; ++v) sums[i][v] += of_a.at[i] * of_m.at[v];
        }
      }
    }
    KERNEL_UNROLL for (int i = 0; i < 4; ++i) {
      KERNEL_UNROLL for (int v = 0; v < 2; ++v) {
        float value = -sums[i][v];
        if (call.written != nullptr && first_row + row + v < call.width) {
          float* const written =
              call.written + (at * kTokens + token + i) * call.width + first_row + row + v;
          value += *written;
          *written = value;
        }
        x[(token + i) * kRows + row + v] = value;
      }
    }

    const float* const b = call.b + at * kTokens * keys;
    const float* const decay = call.decay + chunk * call.decay_of_chunk + head * call.decay_of_head;
    KERNEL_UNROLL for (int pass = 0; pass < kPasses; ++pass) {
      const int64_t k = pass * kPass + lane * 4, left = keys - k;
      KERNEL_UNROLL for (int j = 0; j < 4; ++j) {
        const float factor = j < left ? decay[(k + j) * call.decay_of_key] : 0.0f;
        KERNEL_UNROLL for (int v = 0; v < 4; ++v) state[pass][j][v] *= factor;
      }
      if (call.added != nullptr) {
        KERNEL_UNROLL for (int v = 0; v < 4; ++v) {
          float numbers[4];
          Load<4>(call.added + own + v * keys + pass * kPass, row_is_there(v) ? left : 0,
                  aligned && row_is_there(v) && left > 0, numbers);
          KERNEL_UNROLL for (int j = 0; j < 4; ++j) state[pass][j][v] += numbers[j];
        }
      }
      for (int first = 0; first < kTokens; first += kPieceTokens) {
        __syncthreads();  // who still reads the piece before; and X is there
        KERNEL_UNROLL for (int i = 0; i < kPiece / 4 / kThreads; ++i) {
          const int of = thread / kWarp + i * (kThreads / kWarp);
          float numbers[4];
          Load<4>(b + (first + of) * keys + k, left, aligned && left > 0, numbers);
          Store<4>(piece + of * kPass + lane * 4, 4, /*aligned=*/true, numbers);
        }
        __syncthreads();
        for (int i = 0; i < kPieceTokens; ++i) {
          const auto of_b = WordAt<4>(piece + i * kPass + lane * 4);
          const auto of_x = WordAt<4>(x + (first + i) * kRows + warp * 4);
          KERNEL_UNROLL for (int j = 0; j < 4; ++j) {
            KERNEL_UNROLL for (int v = 0; v < 4; ++v) state[pass][j][v] += of_b.at[j] * of_x.at[v];
          }
        }
      }
    }
    __syncthreads();  // all have read X, the piece and M
  }

  KERNEL_UNROLL for (int pass = 0; pass < kPasses; ++pass) {
    const int64_t left = keys - pass * kPass - lane * 4;
    KERNEL_UNROLL for (int v = 0; v < 4; ++v) {
      if (!row_is_there(v) || left <= 0) continue;
      float numbers[4];
      KERNEL_UNROLL for (int k = 0; k < 4; ++k) numbers[k] = state[pass][k][v];
      Store<4>(document + v * keys + pass * kPass, left, aligned, numbers);
    }
  }
}

}  // namespace

void LaunchDeltaScan(const DeltaScanCall& call, void* stream) {
  const int64_t slices = (call.width + kRows - 1) / kRows;
  const Shape shape = {.grid_x = slices * call.heads,
                       .grid_y = call.documents,
                       .block_x = kThreads,
                       .stream = stream};
  if (shape.grid_x == 0 || shape.grid_y == 0 || call.rounds == 0) return;
  bool aligned = true;
  for (const float* data : {call.a, call.b, call.added, static_cast<const float*>(call.state),
                            static_cast<const float*>(call.states)})
    aligned = aligned && IsAligned<4>(data, call.keys, call.keys);
  Launch(shape, call.keys <= kPass ? &Scan<1> : &Scan<2>, call, aligned);
}

}  // namespace moonring::kernels::KERNEL_SIDE
