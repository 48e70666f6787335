#include <vector>

#include <ATen/ops/empty.h>

#include "kernels/run.h"
#include "kernels/squared_norms_launch.h"

namespace moonring::kernels::KERNEL_SIDE {
namespace {

at::Tensor SquaredNorms(at::TensorList tensors) {
  TORCH_CHECK(!tensors.empty(), "squared_norms: no tensor");
  const at::ScalarType dtype = tensors[0].scalar_type();
  std::vector<NormTensor> of;
  int64_t pieces = 0;
  for (const at::Tensor& tensor : tensors) {
    TORCH_CHECK(tensor.is_contiguous() && tensor.scalar_type() == dtype,
                "squared_norms: ", tensor.sizes(), " of ", tensor.scalar_type(), ", strides ",
                tensor.strides(), ", expected a contiguous one of ", dtype);
    of.push_back({tensor.const_data_ptr(), tensor.numel()});
    pieces += (tensor.numel() + kNormPiece - 1) / kNormPiece;
  }
  const auto sums = tensors[0].options().dtype(at::kDouble);
  const at::Tensor of_pieces = at::empty({pieces}, sums),
                   of_tensors = at::empty({static_cast<int64_t>(tensors.size())}, sums);
  LaunchSquaredNorms(TypeOf(dtype), std::move(of), of_pieces.mutable_data_ptr<double>(),
                     of_tensors.mutable_data_ptr<double>(), StreamOf(tensors[0]));
  return of_tensors;
}

KERNEL_OPERATORS(library) { library.impl("squared_norms", TORCH_FN(SquaredNorms)); }

}  // namespace
}  // namespace moonring::kernels::KERNEL_SIDE
