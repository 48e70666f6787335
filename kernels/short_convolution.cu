// The short convolution and its gradients (short_convolution.h). A thread has kN channels and
// processes the rows of a tile in order, with the last W rows of x in registers. The backward
// starts at the tile's first row too, and continues W - 1 rows beyond its last: a row of dx is
// complete once all W rows of dz from it on are computed. Taps that reach before a row's document
// are masked, so that documents need no separate loop.

#include "kernels/by_type.h"
#include "kernels/language.h"
#include "kernels/short_convolution_launch.h"
#include "kernels/vectors.h"

namespace moonring::kernels::KERNEL_SIDE {
namespace {

constexpr int kN = 4;  // channels per thread
constexpr int kThreads = 128;
constexpr int kTile = 32;  // rows
constexpr int64_t kPartials = 256;

struct Aligned {
  bool x, dy, made, halo;  // made: y or dx
};

// The document that contains a row; rows are visited in ascending order.
class Documents {
 public:
  __device__ explicit Documents(const ConvolutionCall& call, int64_t row) : bounds_(call.bounds) {
    int64_t low = 0, high = call.documents;  // search for the last that begins at or before `row`
    while (high - low > 1) {
      const int64_t middle = (low + high) / 2;
      (Begin(middle) <= row ? low : high) = middle;
    }
    at_ = low;
  }
  // Advances to the document of `row`. An empty document begins where the next one does.
  __device__ void GoTo(int64_t row) {
    while (Begin(at_ + 1) <= row) ++at_;
  }
  __device__ int64_t begin() const { return Begin(at_); }
  __device__ int64_t halo_begin() const { return bounds_[2 * at_ + 1]; }
  __device__ int64_t halo_end() const { return bounds_[2 * at_ + 3]; }

 private:
  __device__ int64_t Begin(int64_t document) const { return bounds_[2 * document]; }

  const int64_t* bounds_;
  int64_t at_;
};

template <typename T, int kTaps>
struct Channels {
  using W = WideOf<T>;
  W weight[kTaps][kN];  // [s]: multiplies the row s rows before
  W bias[kN];

  __device__ Channels(const ConvolutionCall& call, int64_t channel) {
    KERNEL_UNROLL for (int i = 0; i < kN; ++i) {
      const bool is_there = channel + i < call.channels;
      KERNEL_UNROLL for (int s = 0; s < kTaps; ++s) {
        weight[s][i] =
            is_there ? static_cast<const W*>(call.weight)[(channel + i) * kTaps + (kTaps - 1 - s)]
                     : W(0);
      }
      bias[i] =
          is_there && call.bias != nullptr ? static_cast<const W*>(call.bias)[channel + i] : W(0);
    }
  }
};

template <typename T>
__device__ __forceinline__ void LoadRow(const ConstRows& rows, int64_t row, int64_t channel,
                                        int64_t left, bool aligned, WideOf<T> (&into)[kN]) {
  Load<kN>(static_cast<const T*>(rows.data) + row * rows.stride + channel, left, aligned, into);
}

// Returns in `reached` x of the row that is s rows before the row with index `offset` in its
// document: `before` if that earlier row is in the document too, otherwise the halo's row or zeros.
template <typename T>
__device__ __forceinline__ void Reach(const ConvolutionCall& call, const Documents& documents,
                                      int64_t offset, int s, int64_t channel, bool aligned,
                                      const WideOf<T> (&before)[kN], WideOf<T> (&reached)[kN]) {
  KERNEL_UNROLL for (int i = 0; i < kN; ++i) reached[i] = s <= offset ? before[i] : WideOf<T>(0);
  if (s <= offset || call.halo == nullptr) return;
  const int64_t row = documents.halo_end() - (s - offset);
  if (row < documents.halo_begin()) return;
  LoadRow<T>({call.halo, call.channels}, row, channel, call.channels - channel, aligned, reached);
}

// The rows of x that a thread has read last, the latest first.
template <typename T, int kTaps>
struct History {
  WideOf<T> rows[kTaps][kN];

  __device__ void Add(const ConvolutionCall& call, int64_t row, int64_t channel, bool aligned) {
    KERNEL_UNROLL for (int s = kTaps - 1; s > 0; --s) {
      KERNEL_UNROLL for (int i = 0; i < kN; ++i) rows[s][i] = rows[s - 1][i];
    }
    LoadRow<T>(call.x, row, channel, row < 0 ? 0 : call.channels - channel, aligned && row >= 0,
               rows[0]);
  }
};

template <typename W>
__device__ __forceinline__ W Sigmoid(W z) {
  return W(1) / (W(1) + Exp(-z));
}

template <typename T, int kTaps>
__global__ void __launch_bounds__(kThreads)
    Forward(const ConvolutionCall call, const Aligned aligned, T* y) {
  using W = WideOf<T>;
  const int64_t channel = (int64_t{blockIdx.x} * kThreads + threadIdx.x) * kN,
                left = call.channels - channel;
  if (left <= 0) return;
  const Channels<T, kTaps> own(call, channel);
  for (int64_t first = int64_t{blockIdx.y} * kTile; first < call.tokens;
       first += int64_t{gridDim.y} * kTile) {
    const int64_t end = first + kTile < call.tokens ? first + kTile : call.tokens;
    Documents documents(call, first);
    History<T, kTaps> history;
    for (int s = kTaps - 1; s > 0; --s) history.Add(call, first - s, channel, aligned.x);
    for (int64_t row = first; row < end; ++row) {
      history.Add(call, row, channel, aligned.x);
      documents.GoTo(row);
      W z[kN];
      KERNEL_UNROLL for (int i = 0; i < kN; ++i) z[i] = own.bias[i];
      KERNEL_UNROLL for (int s = 0; s < kTaps; ++s) {
        W x[kN];
        Reach<T>(call, documents, row - documents.begin(), s, channel, aligned.halo,
                 history.rows[s], x);
        KERNEL_UNROLL for (int i = 0; i < kN; ++i) z[i] += own.weight[s][i] * x[i];
      }
      if (call.silu) {
        KERNEL_UNROLL for (int i = 0; i < kN; ++i) z[i] *= Sigmoid(z[i]);
      }
      Store<kN>(y + row * call.channels + channel, left, aligned.made, z);
    }
  }
}

template <typename T, int kTaps>
__global__ void __launch_bounds__(kThreads)
    Backward(const ConvolutionCall call, const ConvolutionGradientCall gradients,
             const Aligned aligned) {
  using W = WideOf<T>;
  const int64_t channel = (int64_t{blockIdx.x} * kThreads + threadIdx.x) * kN,
                left = call.channels - channel;
  if (left <= 0) return;
  const Channels<T, kTaps> own(call, channel);
  W dweight[kTaps][kN] = {}, dbias[kN] = {};  // [s]
  for (int64_t first = int64_t{blockIdx.y} * kTile; first < call.tokens;
       first += int64_t{gridDim.y} * kTile) {
    const int64_t end = first + kTile < call.tokens ? first + kTile : call.tokens;
    Documents documents(call, first);
    History<T, kTaps> history;
    for (int s = kTaps - 1; s > 0; --s) history.Add(call, first - s, channel, aligned.x);
    W dx[kTaps][kN] = {};  // [s]: of the row s before, accumulated so far
    for (int64_t row = first; row < end + kTaps - 1; ++row) {
      if (row < call.tokens) {
        history.Add(call, row, channel, aligned.x);
        documents.GoTo(row);
        const int64_t offset = row - documents.begin();
        W dz[kN];
        LoadRow<T>(gradients.dy, row, channel, left, aligned.dy, dz);
        W reached[kTaps][kN];
        KERNEL_UNROLL for (int s = 0; s < kTaps; ++s) {
          Reach<T>(call, documents, offset, s, channel, aligned.halo, history.rows[s], reached[s]);
        }
        if (call.silu) {
          KERNEL_UNROLL for (int i = 0; i < kN; ++i) {
            W z = own.bias[i];
            KERNEL_UNROLL for (int s = 0; s < kTaps; ++s) z += own.weight[s][i] * reached[s][i];
            const W sigmoid = Sigmoid(z);
            dz[i] *= sigmoid * (W(1) + z * (W(1) - sigmoid));
          }
        }
        const bool is_own = row < end;  // if not, the next tile adds the row to dweight
        KERNEL_UNROLL for (int i = 0; i < kN; ++i) {
          if (is_own) dbias[i] += dz[i];
          KERNEL_UNROLL for (int s = 0; s < kTaps; ++s) {
            if (is_own) dweight[s][i] += dz[i] * reached[s][i];
            if (s <= offset) dx[s][i] += own.weight[s][i] * dz[i];
          }
        }
      }
      const int64_t done = row - (kTaps - 1);
      if (done >= first)
        Store<kN>(static_cast<T*>(gradients.dx) + done * call.channels + channel, left,
                  aligned.made, dx[kTaps - 1]);
      KERNEL_UNROLL for (int i = 0; i < kN; ++i) {
        KERNEL_UNROLL for (int s = kTaps - 1; s > 0; --s) dx[s][i] = dx[s - 1][i];
        dx[0][i] = W(0);
      }
    }
  }
  W* const partial = static_cast<W*>(gradients.partial) +
                     int64_t{blockIdx.y} * (kTaps + 1) * call.channels + channel;
  KERNEL_UNROLL for (int i = 0; i < kN; ++i) {
    if (i >= left) continue;
    KERNEL_UNROLL for (int s = 0; s < kTaps; ++s) {
      partial[(kTaps - 1 - s) * call.channels + i] = dweight[s][i];
    }
    partial[kTaps * call.channels + i] = dbias[i];
  }
}

// Computes the gradient of the halo's rows. It comes from the first rows of each document, whose dz
// is recomputed here.
template <typename T, int kTaps>
__global__ void __launch_bounds__(kThreads)
    HaloBackward(const ConvolutionCall call, const ConvolutionGradientCall gradients,
                 const Aligned aligned) {
  using W = WideOf<T>;
  const int64_t channel = (int64_t{blockIdx.x} * kThreads + threadIdx.x) * kN,
                left = call.channels - channel;
  if (left <= 0) return;
  const Channels<T, kTaps> own(call, channel);
  for (int64_t of = blockIdx.y; of < call.documents; of += gridDim.y) {
    const int64_t begin = call.bounds[2 * of], end = call.bounds[2 * of + 2],
                  halo_begin = call.bounds[2 * of + 1], halo_end = call.bounds[2 * of + 3];
    if (halo_begin == halo_end) continue;
    W dx[kTaps][kN] = {};  // [m]: of the row m before the document
    if (begin < end) {
      Documents documents(call, begin);
      documents.GoTo(begin);
      History<T, kTaps> history;
      for (int s = kTaps - 1; s > 0; --s) history.Add(call, begin - s, channel, aligned.x);
      KERNEL_UNROLL for (int offset = 0; offset < kTaps - 1; ++offset) {
        if (begin + offset >= end) continue;
        history.Add(call, begin + offset, channel, aligned.x);
        W dz[kN], z[kN];
        LoadRow<T>(gradients.dy, begin + offset, channel, left, aligned.dy, dz);
        KERNEL_UNROLL for (int i = 0; i < kN; ++i) z[i] = own.bias[i];
        KERNEL_UNROLL for (int s = 0; s < kTaps; ++s) {
          W x[kN];
          Reach<T>(call, documents, offset, s, channel, aligned.halo, history.rows[s], x);
          KERNEL_UNROLL for (int i = 0; i < kN; ++i) z[i] += own.weight[s][i] * x[i];
        }
        KERNEL_UNROLL for (int i = 0; i < kN; ++i) {
          const W sigmoid = Sigmoid(z[i]);
          if (call.silu) dz[i] *= sigmoid * (W(1) + z[i] * (W(1) - sigmoid));
          KERNEL_UNROLL for (int m = 1; m < kTaps; ++m) {
            if (offset + m < kTaps) dx[m][i] += own.weight[offset + m][i] * dz[i];
          }
        }
      }
    }
    KERNEL_UNROLL for (int m = 1; m < kTaps; ++m) {
      if (halo_end - m >= halo_begin)
        Store<kN>(static_cast<T*>(gradients.dhalo) + (halo_end - m) * call.channels + channel, left,
                  aligned.halo, dx[m]);
    }
  }
}

Shape ShapeOf(const ConvolutionCall& call, int64_t rows, int64_t most, void* stream) {
  return {.grid_x = (call.channels + kThreads * kN - 1) / (kThreads * kN),
          .grid_y = rows < most ? rows : most,
          .block_x = kThreads,
          .stream = stream};
}

int64_t Tiles(const ConvolutionCall& call) { return (call.tokens + kTile - 1) / kTile; }

template <typename T>
bool Fits(const void* data, const ConvolutionCall& call, int64_t stride) {
  return IsAligned<kN>(static_cast<const T*>(data), stride, call.channels);
}

// Calls `launch` with the number of taps as a constant.
template <typename F>
void ByTaps(int taps, const F& launch) {
  if (taps == 2) return launch(std::integral_constant<int, 2>());
  if (taps == 3) return launch(std::integral_constant<int, 3>());
  launch(std::integral_constant<int, 4>());
}

}  // namespace

void LaunchShortConvolution(const ConvolutionCall& call, void* y, void* stream) {
  if (call.tokens == 0 || call.channels == 0) return;
  ByType(call.type, [&](auto number) {
    using T = decltype(number);
    const Aligned aligned = {Fits<T>(call.x.data, call, call.x.stride), false,
                             Fits<T>(y, call, call.channels),
                             Fits<T>(call.halo, call, call.channels)};
    ByTaps(call.taps, [&](auto taps) {
      Launch(ShapeOf(call, Tiles(call), 65535, stream), &Forward<T, decltype(taps)::value>, call,
             aligned, static_cast<T*>(y));
    });
  });
}

int64_t ConvolutionPartials(const ConvolutionCall& call) {
  const int64_t tiles = Tiles(call);
  return tiles < kPartials ? tiles : kPartials;
}

void LaunchShortConvolutionBackward(const ConvolutionCall& call,
                                    const ConvolutionGradientCall& gradients, void* stream) {
  if (call.channels == 0) return;
  ByType(call.type, [&](auto number) {
    using T = decltype(number);
    const Aligned aligned = {
        Fits<T>(call.x.data, call, call.x.stride),
        Fits<T>(gradients.dy.data, call, gradients.dy.stride),
        Fits<T>(gradients.dx, call, call.channels),
        Fits<T>(call.halo, call, call.channels) && Fits<T>(gradients.dhalo, call, call.channels)};
    ByTaps(call.taps, [&](auto taps) {
      constexpr int kTaps = decltype(taps)::value;
      if (call.tokens > 0)
        Launch(ShapeOf(call, ConvolutionPartials(call), kPartials, stream), &Backward<T, kTaps>,
               call, gradients, aligned);
      if (call.halo_rows > 0 && gradients.dhalo != nullptr)
        Launch(ShapeOf(call, call.documents, 65535, stream), &HaloBackward<T, kTaps>, call,
               gradients, aligned);
    });
  });
}

}  // namespace moonring::kernels::KERNEL_SIDE
