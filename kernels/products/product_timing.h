#ifndef MOONRING_KERNELS_PRODUCTS_PRODUCT_TIMING_H_
#define MOONRING_KERNELS_PRODUCTS_PRODUCT_TIMING_H_

// What each library takes on this machine for the fp32 products of a run: what ChooseProducts
// chooses by.
//
// Each form is made by both in turn, in one thread, on the run's own shapes cut to kTimedRows rows
// and kTimedSide a side. Its processor time is taken, the least of some: a busy machine adds to
// time by the clock, and would choose otherwise today than tomorrow. How that spreads over threads
// is reckoned, in MKL's favour:
//
//   MKL  s / threads        oneDNN  s ceil(pieces / threads) / pieces
//
// Cost: 100 to 200 ms of one core. A library whose numbers are not MKL's within rounding gets no
// time.

#include <cstdint>
#include <vector>

#include "kernels/products/product_choice.h"

namespace moonring::kernels {

inline constexpr int64_t kTimedRows = 512, kTimedSide = 1024;

struct ProductShapes {
  int64_t rows = kTimedRows;              // of a forward
  int64_t outputs = 1024, inputs = 1024;  // of a weight that stands for the wide ones
  int64_t narrow = 64;                    // the smaller side of the narrow ones
};

std::vector<ProductTiming> TimeProducts(const ProductShapes& shapes);

}  // namespace moonring::kernels

#endif  // MOONRING_KERNELS_PRODUCTS_PRODUCT_TIMING_H_
