// The gated delta rule's scan over chunks (delta_scan.h). A block has 16 rows v of a head's M, for
// one document, in registers and also in shared memory, from which the whole block reads it. There
// are two products per chunk:
//
//   X [64, 16] = A M^T
//   M [16, K] += X^T B
//
// In fp32 a thread has four channels k of M (those of its lane) by four rows in each pass of 128
// channels, and four tokens by two rows of X. A is loaded in pieces of 64 channels, B in pieces of
// 32 tokens. For TF32 on tensor cores, delta_scan_tf32.h describes which thread has what.

#include "kernels/delta_scan_launch.h"
#include "kernels/delta_scan_tf32.h"
#include "kernels/language.h"
#include "kernels/tensor_cores.h"
#include "kernels/vectors.h"

namespace moonring::kernels::KERNEL_SIDE {
namespace {

constexpr int kThreads = 128;
constexpr int kPieceKeys = 64;                // of A
constexpr int kPieceTokens = 32;              // of B
constexpr int kPiece = kPieceKeys * kTokens;  // floats
constexpr int kStride = kRows + 4;            // of M in shared memory; + 4 avoids bank conflicts
static_assert(kPiece == kPieceTokens * kPass);

// The position of M's channel k in shared memory. Each lane has four channels; the i-th channels of
// all lanes are contiguous.
template <int kPasses>
__device__ __forceinline__ int PlaceOf(int k) {
  return (k % 4) * (kPasses * kPass / 4) + k / 4;
}

// The number of rounds in which document number `place` has a chunk; these are the first rounds.
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
    // Stores M as it is before the chunk: in shared memory for the whole block, and in `states`.
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

    float sums[4][2] = {};  // A M^T [token][v]
    const float* const a = call.a + at * kTokens * keys;
    for (int64_t first = 0; first < keys; first += kPieceKeys) {
      __syncthreads();  // the previous piece has been read, and M is stored
      // Neighbouring lanes load neighbouring tokens, so that they store to neighbouring addresses.
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
        __syncthreads();  // the previous piece has been read, and X is stored
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
    __syncthreads();  // X, the piece and M have been read
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

// --- in TF32 -----------------------------------------------------------------

// X -= A M^T for a piece of A's channels: sums [step][tile], where column n of a tile is row v = 4
// (n / 2) + 2 tile + n % 2 of M. Two steps share 16 channels: of each four of these, one step uses
// the first two and the other the last two. `held` is -M, so that sums are added.
template <int kKeys>
__device__ __forceinline__ void MultiplyA(const Tf32Place<kKeys>& place, int piece,
                                          const float* held, const Piece& a,
                                          float (&sums)[2][2][4]) {
  if (piece * 64 >= kKeys) return;
  KERNEL_UNROLL for (int s = 0; s < 4; ++s) {
    Vector<float, 4> m[2];
    KERNEL_UNROLL for (int tile = 0; tile < 2; ++tile) {
      const int v = place.group / 2 * 4 + tile * 2 + place.group % 2;
      m[tile] = WordAt<4>(held + HeldPlace(v, tile, piece * 4 + s) + place.of_group * 4);
    }
    KERNEL_UNROLL for (int i = 0; i < 4; i += 2) {
      const float of_a[4] = {Tf32(a[s][0][i]), Tf32(a[s][1][i]), Tf32(a[s][0][i + 1]),
                             Tf32(a[s][1][i + 1])};
      KERNEL_UNROLL for (int tile = 0; tile < 2; ++tile) {
        const float of_m[2] = {m[tile].at[i], m[tile].at[i + 1]};
        MultiplyTf32(sums[i / 2][tile], of_a, of_m);
      }
    }
  }
}

// made += X^T B for a piece of B's tokens: made [channel of four][2 r + half].
template <int kKeys>
__device__ __forceinline__ void MultiplyB(const Tf32Place<kKeys>& place, int piece, const float* x,
                                          const Piece& b, float (&made)[4][4]) {
  KERNEL_UNROLL for (int s = 0; s < 4; ++s) {
    const float* const own = x + (piece * 32 + s * 8 + place.of_group) * kXStride + place.group * 2;
    const auto first = WordAt<2>(own), later = WordAt<2>(own + 4 * kXStride);
    const float of_x[4] = {first.at[0], first.at[1], later.at[0], later.at[1]};
    KERNEL_UNROLL for (int j = 0; j < 4; ++j) {
      const float of_b[2] = {Tf32(b[s][0][j]), Tf32(b[s][1][j])};
      MultiplyTf32(made[j], of_x, of_b);
    }
  }
}

// Initializes the sums of MultiplyA with the chunk's rows of `written`, or with zeros if it is
// null.
template <int kKeys>
__device__ __forceinline__ void LoadX(const Tf32Place<kKeys>& place, const float* written,
                                      float (&sums)[2][2][4]) {
  const bool is_there = written != nullptr && place.first_row + place.of_group * 4 < place.width;
  KERNEL_UNROLL for (int r = 0; r < 2; ++r) {
    float numbers[4];
    LoadFour(written + (place.token(r) * place.width + place.first_row + place.of_group * 4),
             is_there, numbers);
    KERNEL_UNROLL for (int i = 0; i < 4; ++i) {
      sums[0][i / 2][2 * r + i % 2] = numbers[i];
      sums[1][i / 2][2 * r + i % 2] = 0;
    }
  }
}
// Stores X into `written` and, rounded to TF32, into shared memory (`x`).
template <int kKeys>
__device__ __forceinline__ void StoreX(const Tf32Place<kKeys>& place, const float (&sums)[2][2][4],
                                       float* written, float* x) {
  const bool is_there = written != nullptr && place.first_row + place.of_group * 4 < place.width;
  KERNEL_UNROLL for (int r = 0; r < 2; ++r) {
    float numbers[4];
    KERNEL_UNROLL for (int i = 0; i < 4; ++i) numbers[i] =
        sums[0][i / 2][2 * r + i % 2] + sums[1][i / 2][2 * r + i % 2];
    StoreFour(written + (place.token(r) * place.width + place.first_row + place.of_group * 4),
              is_there, numbers);
    KERNEL_UNROLL for (int i = 0; i < 4; ++i) numbers[i] = Tf32(numbers[i]);
    Store<4>(x + place.token(r) * kXStride + place.of_group * 4, 4, /*aligned=*/true, numbers);
  }
}

// Initializes the sums of MultiplyB with `added`, or with zeros if it is null.
template <int kKeys>
__device__ __forceinline__ void LoadAdded(const Tf32Place<kKeys>& place, const float* added,
                                          float (&into)[4][4]) {
  PartOfM rows = {};
  if (added != nullptr) LoadM(place, added, rows);
  KERNEL_UNROLL for (int i = 0; i < 16; ++i) into[i % 4][i / 4] = rows[i / 4][i % 4];
}

// M <- M Diag(decay) + made.
template <int kKeys>
__device__ __forceinline__ void UpdateM(const Tf32Place<kKeys>& place, const float* decay,
                                        bool by_channel, const float (&made)[4][4], PartOfM& m) {
  ForFours(place, [&](int i, int, int sixteen, int four) {
    const int k = sixteen * 16 + four;
    KERNEL_UNROLL for (int j = 0; j < 4; ++j) {
      const float factor = k < kKeys ? decay[by_channel ? k + j : 0] : 0.0f;
      m[i][j] = m[i][j] * factor + made[j][i];
    }
  });
}

template <int kKeys>
__global__ void __launch_bounds__(kThreads, 2) ScanTf32(const DeltaScanCall call) {
  KERNEL_SHARED(float, held, kRows* kHeldStride);  // -M, at HeldPlace
  KERNEL_SHARED(float, x, kTokens* kXStride);      // X [token, v]
  const int64_t slices = (call.width + kRows - 1) / kRows, head = blockIdx.x / slices,
                first_row = blockIdx.x % slices * kRows, document = blockIdx.y;
  const Tf32Place<kKeys> place(static_cast<int>(call.width), static_cast<int>(first_row));
  const int64_t rounds = RoundsOf(call, document);
  if (rounds == 0) return;
  const auto chunk_of = [&](int64_t step) {
    return call.round_begin[call.backward ? rounds - 1 - step : step] + document;
  };
  const auto rows_of = [&](int64_t matrix) { return (matrix * call.width + first_row) * kKeys; };
  float* const state = call.state + rows_of(document * call.heads + head);
  PartOfM m;
  LoadM(place, state, m);
  Piece pieces[2];  // A's, B's, then the next chunk's A's: loaded while others are used
  const auto load_a = [&](int64_t chunk, int piece) {
    LoadA(place, piece, call.a + (chunk * call.heads + head) * kTokens * kKeys, pieces[piece]);
  };
  int64_t next = chunk_of(0);
  load_a(next, 0);
  load_a(next, 1);
  for (int64_t step = 0; step < rounds; ++step) {
    const int64_t chunk = next, at = chunk * call.heads + head;
    if (step + 1 < rounds) next = chunk_of(step + 1);
    HoldM(place, m, held);
    StoreM(place, m, call.states + rows_of(at));
    float* const written =
        call.written == nullptr ? nullptr : call.written + at * kTokens * call.width;
    float sums[2][2][4];
    LoadX(place, written, sums);
    __syncthreads();  // M is stored, and the previous X has been read

    KERNEL_UNROLL for (int piece = 0; piece < 2; ++piece) {
      MultiplyA(place, piece, held, pieces[piece], sums);
      LoadB(place, piece, call.b + at * kTokens * kKeys, pieces[piece]);
    }
    StoreX(place, sums, written, x);
    float made[4][4];
    LoadAdded(place, call.added == nullptr ? nullptr : call.added + rows_of(at), made);
    __syncthreads();  // X is stored, and M has been read

    KERNEL_UNROLL for (int piece = 0; piece < 2; ++piece) {
      MultiplyB(place, piece, x, pieces[piece], made);
      load_a(next, piece);  // in the last round it reloads the same chunk, unused
    }
    UpdateM(place, call.decay + chunk * call.decay_of_chunk + head * call.decay_of_head,
            call.decay_of_key != 0, made, m);
  }
  StoreM(place, m, state);
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
  if (call.tf32 && aligned && (call.keys == 64 || call.keys == 128) &&
      IsAligned<4>(call.written, call.width, call.width)) {
    Launch(shape, call.keys == 64 ? &ScanTf32<64> : &ScanTf32<128>, call);
    return;
  }
  Launch(shape, call.keys <= kPass ? &Scan<1> : &Scan<2>, call, aligned);
}

}  // namespace moonring::kernels::KERNEL_SIDE
