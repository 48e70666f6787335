#ifndef MOONRING_LUA_SERVE_LOSS_REQUEST_H_
#define MOONRING_LUA_SERVE_LOSS_REQUEST_H_

// The request of forward_backward and forward, and its limits.
//
//   data[d].model_input                 tokens_N
//   data[d].loss_fn_inputs[name]        in the shape that the client sent; losses take [N], [N, K]
//
// Tensors are dense, and float32 or int64: sparse (CSR) ones become dense, int32 becomes int64 and
// bfloat16 becomes float32.

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <variant>
#include <vector>

#include <ATen/core/Tensor.h>

namespace moonring::serve {

struct LossDatum {
  at::Tensor tokens_N;                       // int64
  std::map<std::string, at::Tensor> inputs;  // float32 or int64, by name
};

struct LossRequest {
  std::string model_id;
  int64_t seq_id = 0;
  std::string loss_fn;
  std::map<std::string, std::variant<double, std::string>> config;
  bool forward_only = false;
  std::vector<LossDatum> data;
};

inline constexpr size_t kMostDatums = 16384;  // the SDK sends up to 1,024 at once
inline constexpr size_t kMostInputs = 16;     // of a datum
inline constexpr size_t kMostChunks = 65536;  // of all datums
inline constexpr size_t kMostConfigEntries = 64;
inline constexpr size_t kMostDims = 8;
inline constexpr size_t kLongestName = 512;  // of a model, a loss, an input
inline constexpr size_t kLongestConfigText = size_t{1} << 16;
// Numbers in all sparse tensors of a request, once they are dense.
inline constexpr int64_t kMostFilledNumbers = int64_t{1} << 26;

}  // namespace moonring::serve

#endif  // MOONRING_LUA_SERVE_LOSS_REQUEST_H_
