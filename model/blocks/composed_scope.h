#ifndef MOONRING_MODEL_BLOCKS_COMPOSED_SCOPE_H_
#define MOONRING_MODEL_BLOCKS_COMPOSED_SCOPE_H_

// Second derivatives. The layers of a block have a backward of their own that cannot be
// differentiated again (base/autograd/custom_function.h). While a ComposedScope exists on this
// thread, norms, linear maps, gated products, rotary embedding and low-rank adapters are composed
// of LibTorch's differentiable operators instead, which is slower and keeps more tensors for the
// backward. Experts, rotated maps (OFT) and mixers other than softmax attention have no such form:
// their second derivative stays an error.

namespace moonring::model {

class ComposedScope {
 public:
  ComposedScope();
  ~ComposedScope();
  ComposedScope(const ComposedScope&) = delete;
  ComposedScope& operator=(const ComposedScope&) = delete;

 private:
  const bool before_;
};

// Whether a ComposedScope exists on this thread.
bool Composes();

}  // namespace moonring::model

#endif  // MOONRING_MODEL_BLOCKS_COMPOSED_SCOPE_H_
