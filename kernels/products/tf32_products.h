#ifndef MOONRING_KERNELS_PRODUCTS_TF32_PRODUCTS_H_
#define MOONRING_KERNELS_PRODUCTS_TF32_PRODUCTS_H_

// While a scope is alive, LibTorch's fp32 matmuls on a GPU may use TF32: operands with 10 explicit
// mantissa bits, sums in fp32 (495 TFLOP/s on an H100 instead of 67). The scope is meant for
// matmuls inside a function whose inputs and outputs are 16-bit: everywhere else fp32 means fp32
// (trainer/optimizer/device_settings.h).
//
// cuBLAS rounds or truncates operands to TF32: a relative error of at most 2^-11 if rounded, 2^-10
// if truncated.
//
// LibTorch has one setting for the whole process. Scopes may nest and overlap on several threads:
// the first one turns it on, the last one off. Meanwhile fp32 matmuls of other threads use TF32
// too, so use a scope only while a run's other threads compute none on a GPU. If TF32 is already
// on, scopes change nothing.

namespace moonring::kernels {

class Tf32Products {
 public:
  // Does nothing if `wanted` is false.
  explicit Tf32Products(bool wanted);
  ~Tf32Products();
  Tf32Products(const Tf32Products&) = delete;
  Tf32Products& operator=(const Tf32Products&) = delete;

  // Whether LibTorch's fp32 matmuls on a GPU may use TF32 now, whether a scope or other code has
  // set this.
  static bool AreOn();

 private:
  const bool wanted_;
};

}  // namespace moonring::kernels

#endif  // MOONRING_KERNELS_PRODUCTS_TF32_PRODUCTS_H_
