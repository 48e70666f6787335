#include "kernels/squared_norms_launch.h"

#include "kernels/by_type.h"
#include "kernels/language.h"
#include "kernels/sums.h"
#include "kernels/tensor_table.h"
#include "kernels/vectors.h"

namespace moonring::kernels::KERNEL_SIDE {
namespace {

constexpr int kThreads = 256;

using Table = TensorTable<NormTensor>;

template <typename T>
__global__ void SumPieces(KERNEL_TABLE(Table) table, double* pieces) {
  constexpr int N = kAtOnce<T>;
  const int row = table.RowOf(blockIdx.x);
  const NormTensor tensor = table.rows[row];
  const int64_t begin = (blockIdx.x - table.first_piece[row]) * kNormPiece,
                left = tensor.count - begin, count = left < kNormPiece ? left : kNormPiece;
  const T* const from = static_cast<const T*>(tensor.data) + begin;
  double sum = 0.0;
  for (int64_t i = threadIdx.x * N; i < count; i += kThreads * N) {
    WideOf<T> x[N];
    Load<N>(from + i, count - i, tensor.aligned && count - i >= N, x);
    KERNEL_UNROLL for (int k = 0; k < N; ++k) sum +=
        static_cast<double>(x[k]) * static_cast<double>(x[k]);
  }
  sum = RowSum(sum);
  if (threadIdx.x == 0) pieces[blockIdx.x] = sum;
}

__global__ void SumTensors(KERNEL_TABLE(Table) table, const double* pieces, double* sums) {
  const int row = blockIdx.x;
  const int64_t begin = table.first_piece[row],
                end = begin + (table.rows[row].count + kNormPiece - 1) / kNormPiece;
  double sum = 0.0;
  for (int64_t i = begin + threadIdx.x; i < end; i += kThreads) sum += pieces[i];
  sum = RowSum(sum);
  if (threadIdx.x == 0) sums[row] = sum;
}

template <typename T>
void Run(std::vector<NormTensor>& tensors, double* pieces, double* sums, void* stream) {
  for (NormTensor& tensor : tensors)
    tensor.aligned = IsAligned<kAtOnce<T>>(static_cast<const T*>(tensor.data), 0, 0);
  ForEachTable(tensors, kNormPiece, [&](const Table& table, int64_t of_table, int64_t first) {
    Shape shape{.block_x = kThreads, .stream = stream};
    shape.grid_x = of_table;
    if (of_table > 0) Launch(shape, SumPieces<T>, table, pieces);
    shape.grid_x = table.filled;
    Launch(shape, SumTensors, table, pieces, sums + first);
  });
}

}  // namespace

void LaunchSquaredNorms(Type type, std::vector<NormTensor> tensors, double* pieces, double* sums,
                        void* stream) {
  ByType(type, [&](auto number) { Run<decltype(number)>(tensors, pieces, sums, stream); });
}

}  // namespace moonring::kernels::KERNEL_SIDE
