// act(gate) up and its gradients (gated.h), elementwise.

#include "kernels/by_type.h"
#include "kernels/gated_launch.h"
#include "kernels/language.h"
#include "kernels/matrices.h"
#include "kernels/vectors.h"

namespace moonring::kernels::KERNEL_SIDE {
namespace {

template <typename W>
struct Activated {
  W value, slope;
};

template <typename W>
__device__ __forceinline__ Activated<W> Activate(W x, int activation) {
  if (activation == 0) {  // silu
    const W sigmoid = W(1) / (W(1) + Exp(-x));
    return {x * sigmoid, sigmoid * (W(1) + x * (W(1) - sigmoid))};
  }
  if (activation == 1) {  // gelu: x Phi(x)
    const W below = W(0.5) * (W(1) + Erf(x * W(0.70710678118654752440)));
    const W density = W(0.39894228040143267794) * Exp(W(-0.5) * x * x);
    return {x * below, below + x * density};
  }
  const W root = W(0.79788456080286535588), cubic = W(0.044715);
  const W tanh = Tanh(root * (x + cubic * x * x * x));
  return {W(0.5) * x * (W(1) + tanh), W(0.5) * (W(1) + tanh) + W(0.5) * x * (W(1) - tanh * tanh) *
                                                                   root *
                                                                   (W(1) + W(3) * cubic * x * x)};
}

struct Aligned {
  bool gate, up, made;
};

template <typename T>
__global__ void __launch_bounds__(kMatrixThreads)
    Forward(const GatedCall call, const Aligned aligned) {
  constexpr int kN = kAtOnce<T>;
  using W = WideOf<T>;
  ForPieces<kN>(call.rows, call.width, [&](int64_t row, int64_t column) {
    const int64_t left = call.width - column;
    W gate[kN], up[kN];
    Load<kN>(static_cast<const T*>(call.gate.data) + row * call.gate.stride + column, left,
             aligned.gate, gate);
    Load<kN>(static_cast<const T*>(call.up.data) + row * call.up.stride + column, left, aligned.up,
             up);
    KERNEL_UNROLL for (int i = 0; i < kN; ++i) {
      gate[i] = Activate(gate[i], call.activation).value * up[i];
    }
    Store<kN>(static_cast<T*>(call.product) + row * call.width + column, left, aligned.made, gate);
  });
}

// With d, the gradient of the product: computes dup = d act(gate) and dgate = d up act'(gate), the
// gradients of up and gate.
template <typename T>
__global__ void __launch_bounds__(kMatrixThreads)
    Backward(const GatedCall call, const Aligned aligned) {
  constexpr int kN = kAtOnce<T>;
  using W = WideOf<T>;
  ForPieces<kN>(call.rows, call.width, [&](int64_t row, int64_t column) {
    const int64_t left = call.width - column, at = row * call.width + column;
    W gate[kN], up[kN], d[kN];
    Load<kN>(static_cast<const T*>(call.gate.data) + row * call.gate.stride + column, left,
             aligned.gate, gate);
    Load<kN>(static_cast<const T*>(call.up.data) + row * call.up.stride + column, left, aligned.up,
             up);
    Load<kN>(static_cast<const T*>(call.product) + at, left, aligned.made, d);
    KERNEL_UNROLL for (int i = 0; i < kN; ++i) {
      const Activated<W> activated = Activate(gate[i], call.activation);
      gate[i] = d[i] * up[i] * activated.slope;
      up[i] = d[i] * activated.value;
    }
    Store<kN>(static_cast<T*>(call.product) + at, left, aligned.made, gate);
    Store<kN>(static_cast<T*>(call.dup) + at, left, aligned.made, up);
  });
}

template <typename T>
void LaunchTyped(const GatedCall& call, bool backward, void* stream) {
  constexpr int kN = kAtOnce<T>;
  const auto fits = [&](const void* data, int64_t stride) {
    return IsAligned<kN>(static_cast<const T*>(data), stride, call.width);
  };
  const Aligned aligned = {fits(call.gate.data, call.gate.stride),
                           fits(call.up.data, call.up.stride),
                           fits(call.product, call.width) && fits(call.dup, call.width)};
  Launch(ShapeOfMatrix<kN>(call.rows, call.width, stream), backward ? &Backward<T> : &Forward<T>,
         call, aligned);
}

void LaunchByType(const GatedCall& call, bool backward, void* stream) {
  ByType(call.type, [&](auto number) { LaunchTyped<decltype(number)>(call, backward, stream); });
}

}  // namespace

void LaunchGated(const GatedCall& call, void* stream) { LaunchByType(call, false, stream); }
void LaunchGatedBackward(const GatedCall& call, void* stream) { LaunchByType(call, true, stream); }

}  // namespace moonring::kernels::KERNEL_SIDE
