// Fused attention on the pretend device. Arguments and layouts are those of the CUDA kernels;
// results are computed from the definition in fp64 (tests/attention/cuda_stand_ins.h). The kernels'
// temporary memory, according to LibTorch 2.11's sources, is:
//
//   flash, forward       two words of a generator's state. (Splits of keys are used for decoding
//                        with one query per sequence only, which does not occur here.)
//   flash, backward      sums of dq [M + 128 B, H, D'] in fp32, where D' is D rounded up to 32, or
//                        to 64 above 128; in deterministic runs one such tensor for each of several
//                        splits; sums of dout * out [H, M + 128 B]; with fewer key heads than query
//                        heads, dk and dv of every query head
//   efficient, backward  dout * out and its sums; then the sums of dq in tiles of 64 or (D > 64)
//   128
//                        rows and 64 columns, for B sequences of the length of the longest
//
//   cuDNN, backward      an estimate, because its sources are not public: as flash with one
//   sequence
//
// There are M queries and N keys of B sequences, and H heads of dimension D.

#include <algorithm>
#include <vector>

#include <ATen/Context.h>
#include <ATen/ops/zeros.h>
#include <ATen/ops/zeros_like.h>
#include <torch/library.h>

#include "tests/attention/cuda_stand_ins.h"
#include "tests/testing/pretend_device/counts.h"
#include "tests/testing/pretend_device/kernel.h"
#include "tests/testing/pretend_device/left_out.h"
#include "tests/testing/pretend_device/operators.h"

namespace moonring::pretend {
namespace {

const torch::Library stand_ins = attention::CudaStandIns();

constexpr int64_t kMultiprocessors = 132;  // of an H100
constexpr int64_t kFloat = sizeof(float);

int64_t Tiles(int64_t count, int64_t of_tile) { return (count + of_tile - 1) / of_tile; }
int64_t RoundUp(int64_t count, int64_t multiple) { return Tiles(count, multiple) * multiple; }

// Gives a call's arguments by their index in the operator's schema.
class Arguments {
 public:
  Arguments(const c10::OperatorHandle& op, const torch::jit::Stack& stack)
      : stack_(stack), first_(stack.size() - op.schema().arguments().size()) {}
  at::Tensor Tensor(size_t place) const { return stack_[first_ + place].toTensor(); }
  int64_t Int(size_t place) const { return stack_[first_ + place].toInt(); }

 private:
  const torch::jit::Stack& stack_;
  size_t first_;
};

using Sizes = std::vector<int64_t>;

Sizes OfFlashForward(const Arguments&) { return {2 * sizeof(uint64_t), sizeof(uint64_t)}; }

Sizes OfFlashBackward(const Arguments& given) {
  const at::Tensor q = given.Tensor(1), k = given.Tensor(2);
  const int64_t heads = q.size(1), head_dim = q.size(2), sequences = given.Tensor(6).numel() - 1;
  const int64_t rows = q.size(0) + 128 * sequences;
  const bool splits = at::globalContext().deterministicAlgorithms();
  const int64_t sums = splits ? Tiles(kMultiprocessors, sequences * heads) : 1;
  Sizes sizes = {kFloat * heads * rows,
                 kFloat * sums * rows * heads * RoundUp(head_dim, head_dim <= 128 ? 32 : 64)};
  if (k.size(1) != heads) {
    sizes.insert(sizes.end(), 2,
                 k.size(0) * heads * head_dim * static_cast<int64_t>(k.element_size()));
  }
  return sizes;
}

// Returns the two temporaries, which are parts of one allocation; the results exist at the same
// time.
Sizes OfEfficientBackward(const Arguments& given) {
  const at::Tensor q = given.Tensor(1);
  const int64_t rows = q.size(1), heads = q.size(2), head_dim = q.size(3);
  const int64_t sequences = given.Tensor(6).numel() - 1, longest = given.Int(8);
  const int64_t tile_rows = head_dim <= 64 ? 64 : 128, locks = 16;
  const int64_t tiles = Tiles(longest, tile_rows) * Tiles(head_dim, 64);
  const int64_t sums = sequences * heads * tiles * (tile_rows * 64 * kFloat + locks);
  const int64_t of_rows = kFloat * rows * heads;
  return {std::max(of_rows * head_dim + 2 * of_rows, of_rows + sums)};
}

Sizes OfCudnnBackward(const Arguments& given) {
  const at::Tensor q = given.Tensor(1);
  const int64_t heads = q.size(1), rows = q.size(2) + 128;
  return {kFloat * heads * rows, kFloat * rows * heads * RoundUp(q.size(3), 32)};
}

Sizes None(const Arguments&) { return {}; }

// Returns a kernel's results when products are skipped (left_out.h).
using Results = std::vector<c10::IValue>;

Results ZerosOfFlashForward(const Arguments& given) {
  const at::Tensor q = given.Tensor(0), none;
  const at::Tensor lse = at::zeros({q.size(1), q.size(0)}, q.options().dtype(at::kFloat));
  return {at::zeros_like(q), lse, none, none, none};
}

Results ZerosOfFlashBackward(const Arguments& given) {
  return {at::zeros_like(given.Tensor(1)), at::zeros_like(given.Tensor(2)),
          at::zeros_like(given.Tensor(3))};
}

Results ZerosOfCudnnForward(const Arguments& given) {
  const at::Tensor q = given.Tensor(0), none;
  const at::Tensor lse = at::zeros({1, q.size(1), q.size(2), 1}, q.options().dtype(at::kFloat));
  return {at::zeros_like(q), lse, none, none, q.size(2), given.Tensor(1).size(2), none, none, none};
}

Results ZerosOfEfficientForward(const Arguments& given) {
  const at::Tensor q = given.Tensor(0), none;
  const int64_t sequences = given.Tensor(4).numel() - 1, longest = given.Int(6);
  const at::Tensor lse = at::zeros({sequences, q.size(2), RoundUp(longest, 32)}, q.options());
  return {at::zeros_like(q), lse, none, none, longest, given.Int(7)};
}

Results ZerosOfEfficientBackward(const Arguments& given) {
  Results results = ZerosOfFlashBackward(given);
  results.emplace_back(at::Tensor());
  return results;
}

// Runs the operator; its temporary memory is allocated until its results exist.
template <Sizes (*Of)(const Arguments&), Results (*Zeros)(const Arguments&)>
void With(const c10::OperatorHandle& op, c10::DispatchKeySet keys, torch::jit::Stack* stack) {
  std::vector<at::Tensor> taken;
  for (const int64_t bytes : Of(Arguments(op, *stack))) taken.push_back(Workspace(bytes));
  if (!ProductsAreLeftOut()) return OnCpu(op, keys, stack);
  Results results;
  {
    const Uncounted zeros_are_no_kernels;
    results = Zeros(Arguments(op, *stack));
  }
  Through(op, stack, [&] {
    torch::jit::drop(*stack, op.schema().arguments().size());
    for (c10::IValue& result : results) stack->push_back(std::move(result));
  });
}

template <Sizes (*Of)(const Arguments&), Results (*Zeros)(const Arguments&)>
torch::CppFunction Boxed() {
  return torch::CppFunction::makeFromBoxedFunction<&With<Of, Zeros>>();
}

TORCH_LIBRARY_IMPL(aten, CUDA, library) {
  library.impl("_flash_attention_forward", Boxed<OfFlashForward, ZerosOfFlashForward>());
  library.impl("_flash_attention_backward", Boxed<OfFlashBackward, ZerosOfFlashBackward>());
  library.impl("_scaled_dot_product_cudnn_attention", Boxed<None, ZerosOfCudnnForward>());
  library.impl("_scaled_dot_product_cudnn_attention_backward",
               Boxed<OfCudnnBackward, ZerosOfFlashBackward>());
  library.impl("_efficient_attention_forward", Boxed<None, ZerosOfEfficientForward>());
  library.impl("_efficient_attention_backward",
               Boxed<OfEfficientBackward, ZerosOfEfficientBackward>());
}

}  // namespace
}  // namespace moonring::pretend
