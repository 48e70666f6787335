#ifndef MOONRING_COMM_PRODUCTS_PRODUCT_TIMING_H_
#define MOONRING_COMM_PRODUCTS_PRODUCT_TIMING_H_

// What each library takes on this machine for the fp32 products of a run: what ChooseProducts
// chooses by.
//
// Each form is made by both in turn on the run's own shapes, cut to kTimedRows rows a thread and
// kTimedSide a side, and the least of some times is taken: other programs on the machine only add.
// Cost: some 100 ms of each core. A library whose numbers are not MKL's within rounding gets no
// time.

#include <cstdint>
#include <vector>

#include "comm/products/product_choice.h"

namespace moonring::comm {

inline constexpr int64_t kTimedRows = 512, kTimedSide = 1536;

struct ProductShapes {
  int64_t rows = kTimedRows;              // of a forward
  int64_t outputs = 1024, inputs = 1024;  // of a weight that stands for the wide ones
  int64_t narrow = 64;                    // the smaller side of the narrow ones
};

std::vector<ProductTiming> TimeProducts(const ProductShapes& shapes);

}  // namespace moonring::comm

#endif  // MOONRING_COMM_PRODUCTS_PRODUCT_TIMING_H_
