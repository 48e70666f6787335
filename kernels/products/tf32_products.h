#ifndef MOONRING_KERNELS_PRODUCTS_TF32_PRODUCTS_H_
#define MOONRING_KERNELS_PRODUCTS_TF32_PRODUCTS_H_

// While a scope lives, LibTorch's products of fp32 matrices on a GPU may use TF32: operands with 10
// explicit mantissa bits, sums in fp32 (495 TFLOP/s on an H100 instead of 67). It is for products
// inside a function whose inputs and outputs have 16 bits: everywhere else fp32 means fp32
// (trainer/device_settings.h).
//
// cuBLAS rounds or truncates operands to TF32: 2^-11 or 2^-10 of a number at most.
//
// LibTorch has one switch for the whole process. Scopes may nest and overlap on several threads:
// the first one turns it on, the last one off. Meanwhile fp32 products of other threads are in TF32
// too, so a scope may live only where a run's other threads make none on a GPU. Where TF32 is on
// already, scopes change nothing.

namespace moonring::kernels {

class Tf32Products {
 public:
  // Does nothing if not `wanted`.
  explicit Tf32Products(bool wanted);
  ~Tf32Products();
  Tf32Products(const Tf32Products&) = delete;
  Tf32Products& operator=(const Tf32Products&) = delete;

  // Whether products are in TF32 now, by a scope or otherwise.
  static bool AreOn();

 private:
  const bool wanted_;
};

}  // namespace moonring::kernels

#endif  // MOONRING_KERNELS_PRODUCTS_TF32_PRODUCTS_H_
