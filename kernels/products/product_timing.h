#ifndef MOONRING_KERNELS_PRODUCTS_PRODUCT_TIMING_H_
#define MOONRING_KERNELS_PRODUCTS_PRODUCT_TIMING_H_

// Measures both libraries on this machine for the fp32 matmuls of a run, as input for
// ChooseProducts.
//
// Both libraries compute each form of product (product_choice.h) in turn, in one thread, on the
// run's shapes limited to kTimedRows rows and kTimedSide per side. The result is the smallest CPU
// time of several runs: wall-clock time depends on the load of the machine and would make the
// choice vary from day to day. The time with several threads is estimated from the seconds s of one
// thread, in MKL's favour:
//
//   MKL  s / threads        oneDNN  s ceil(pieces / threads) / pieces
//
// Cost: 100 to 200 ms on one core. A form has no time for oneDNN if oneDNN's numbers differ from
// MKL's by more than rounding.

#include <cstdint>
#include <vector>

#include "kernels/products/product_choice.h"

namespace moonring::kernels {

inline constexpr int64_t kTimedRows = 512, kTimedSide = 1024;

struct ProductShapes {
  int64_t rows = kTimedRows;              // of a forward
  int64_t outputs = 1024, inputs = 1024;  // of a typical wide weight
  int64_t narrow = 64;                    // the smaller side of a narrow weight
};

std::vector<ProductTiming> TimeProducts(const ProductShapes& shapes);

}  // namespace moonring::kernels

#endif  // MOONRING_KERNELS_PRODUCTS_PRODUCT_TIMING_H_
