// Measures a device's peak rates, attention relative to them, and the difference of two files of
// tensors. Each call prints one JSON object to stdout; the text after the arguments describes it:
//
//   measure devices
//       { "cuda": number of GPUs that LibTorch sees }
//   measure matmul device=cuda dtype=bf16 size=8192
//       { "flops_per_second", "error": of some rows relative to fp64 }
//   measure copy device=cuda bytes=1073741824
//       { "device", "to_device", "from_device": bytes per second, "intact" }
//   measure attention device=cuda dtype=bf16 tokens=8192 heads=32 kv_heads=8 head_dim=128
//       { "forward_seconds", "backward_seconds", "flops", "out", "dq", "dk", "dv": errors relative
//       to fp64, "peak_bytes" }
//   measure kernels device=cuda rows=8192 width=4096 heads=32 kv_heads=8 vocabulary=128256
//       parameters=536870912
//       { "kernels": [{ "operator", "error": the greatest ratio of an error to its bound, "bytes",
//       "seconds" }], "without_case": [...] }
//   measure compare A.safetensors B.safetensors ...
//       for each pair [{ "error": ||A - B|| / ||B|| over all tensors, "worst": of one tensor,
//       "name": of that tensor, "at", "got", "want": its element with the greatest difference,
//       "each": by name, "tensors" }]
//
// Times are medians of the host's clock over several rounds; each round ends by reading one number
// of the result, which waits for the device. Inputs are random.

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <iostream>
#include <map>
#include <memory>
#include <set>
#include <stdexcept>
#include <string>
#include <vector>

#include <ATen/ATen.h>
#include <ATen/detail/CUDAHooksInterface.h>
#include <torch/csrc/autograd/autograd.h>
#include <nlohmann/json.hpp>

#include "attention/kernels/tile_plan.h"
#include "attention/strategy/strategies.h"
#include "base/status/torch_status.h"
#include "comm/communicator.h"
#include "comm/layout.h"
#include "model/files/safetensors.h"
#include "tests/gpu/kernel_cases.h"
#include "tests/testing/all_close.h"
#include "trainer/reports/device_memory.h"

namespace moonring {
namespace {

using nlohmann::json;

// The command line's arguments key=value. Unknown keys are rejected.
class Words {
 public:
  Words(int argc, char** argv) {
    for (int i = 2; i < argc; ++i) {
      const std::string word = argv[i];
      const size_t equals = word.find('=');
      if (equals == std::string::npos)
        throw std::invalid_argument("expected key=value, got '" + word + "'");
      values_[word.substr(0, equals)] = word.substr(equals + 1);
    }
  }

  std::string Take(const std::string& key) {
    const auto found = values_.find(key);
    if (found == values_.end()) throw std::invalid_argument("expected " + key + "=...");
    const std::string value = found->second;
    values_.erase(found);
    return value;
  }
  int64_t TakeInteger(const std::string& key) { return std::stoll(Take(key)); }
  at::Device TakeDevice() { return at::Device(Take("device")); }
  at::ScalarType TakeDtype() {
    const std::string name = Take("dtype");
    if (name == "bf16") return at::kBFloat16;
    if (name == "fp32") return at::kFloat;
    if (name == "fp64") return at::kDouble;
    throw std::invalid_argument("dtype: expected bf16, fp32 or fp64, got '" + name + "'");
  }
  void Finish() const {
    if (!values_.empty())
      throw std::invalid_argument("unknown word '" + values_.begin()->first + "'");
  }

 private:
  std::map<std::string, std::string> values_;
};

// Waits until the device has computed `tensor`, by reading one element.
void WaitFor(const at::Tensor& tensor) { tensor.flatten().select(0, 0).to(at::kCPU); }

// Returns the median time of `calls` calls. `prepare` runs before each round and is not timed.
double MedianSeconds(
    int rounds, int calls, const std::function<at::Tensor()>& call,
    const std::function<void()>& prepare = [] {}) {
  std::vector<double> seconds;
  for (int round = -1; round < rounds; ++round) {
    prepare();
    const auto begin = std::chrono::steady_clock::now();
    at::Tensor result;
    for (int i = 0; i < calls; ++i) result = call();
    WaitFor(result);
    if (round < 0) continue;  // warm-up: kernels were loaded
    seconds.push_back(
        std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count() / calls);
  }
  std::nth_element(seconds.begin(), seconds.begin() + rounds / 2, seconds.end());
  return seconds[rounds / 2];
}

json Devices() {
  return {{"cuda", at::hasCUDA() ? static_cast<int>(at::detail::getCUDAHooks().deviceCount()) : 0}};
}

json Matmul(Words words) {
  const at::Device device = words.TakeDevice();
  const at::ScalarType dtype = words.TakeDtype();
  const int64_t size = words.TakeInteger("size");
  words.Finish();
  const auto options = at::TensorOptions(device).dtype(dtype);
  const at::Tensor a = at::randn({size, size}, options), b = at::randn({size, size}, options);
  at::Tensor c = at::full({size, size}, std::nan(""), options);
  const double seconds = MedianSeconds(5, 10, [&] { return at::mm_out(c, a, b); });
  const int64_t rows = std::min<int64_t>(size, 32);
  const at::Tensor want = at::mm(a.narrow(0, size - rows, rows).to(at::kDouble), b.to(at::kDouble));
  const double flops =
      2.0 * static_cast<double>(size) * static_cast<double>(size) * static_cast<double>(size);
  return {{"flops_per_second", flops / seconds},
          {"error", testing::RelativeErrorOf(c.narrow(0, size - rows, rows).cpu(), want.cpu())}};
}

json Copy(Words words) {
  const at::Device device = words.TakeDevice();
  const int64_t numel = words.TakeInteger("bytes") / 4;
  words.Finish();
  const auto options = at::TensorOptions(device).dtype(at::kFloat);
  const at::Tensor from = at::randn({numel}, options), to = at::zeros({numel}, options);
  at::Tensor host = at::zeros(
      {numel}, at::TensorOptions(at::kCPU).dtype(at::kFloat).pinned_memory(device.is_cuda()));
  const double bytes = 4.0 * static_cast<double>(numel);
  const double within = MedianSeconds(5, 4, [&] { return to.copy_(from); });
  const double up = MedianSeconds(
      5, 1, [&] { return host.copy_(from, /*non_blocking=*/true), host.copy_(from); });
  const double down = MedianSeconds(5, 1, [&] { return to.copy_(host, /*non_blocking=*/true); });
  return {{"device", 2 * bytes / within},   // read and written
          {"from_device", 2 * bytes / up},  // two copies per call
          {"to_device", bytes / down},
          {"intact", at::equal(host, from.cpu()) && at::equal(to, from)}};
}

// The expected attention output and gradients of the last `rows` rows of a stream with one
// document, for the query heads of the first kv head, computed from the definition in fp64.
struct LastRows {
  at::Tensor out, dq, dk, dv;  // [rows, heads or 1, D]
};

LastRows Written(const at::Tensor& q_THD, const at::Tensor& k_TKD, const at::Tensor& v_TKD,
                 const at::Tensor& dout_THD, int64_t rows, double scale) {
  const int64_t tokens = q_THD.size(0), group = q_THD.size(1) / k_TKD.size(1);
  const auto last = [&](const at::Tensor& stream) {
    return stream.narrow(0, tokens - rows, rows)
        .narrow(1, 0, group)
        .transpose(0, 1)
        .to(at::kDouble);
  };
  const at::Tensor q_GRD = last(q_THD), dout_GRD = last(dout_THD),
                   k_TD = k_TKD.select(1, 0).to(at::kDouble),
                   v_TD = v_TKD.select(1, 0).to(at::kDouble);
  const at::Tensor later_RT =
      at::ones({rows, tokens}, q_GRD.options().dtype(at::kBool)).triu(tokens - rows + 1);
  const at::Tensor p_GRT =
      at::matmul(q_GRD, k_TD.t()).mul_(scale).masked_fill_(later_RT, -INFINITY).softmax(2);
  const at::Tensor out_GRD = at::matmul(p_GRT, v_TD);
  const at::Tensor delta_GR1 = (dout_GRD * out_GRD).sum(2, /*keepdim=*/true);
  const at::Tensor ds_GRT = p_GRT * (at::matmul(dout_GRD, v_TD.t()) - delta_GR1);
  // Only the last queries attend to the last keys.
  const auto of_last_keys = [&](const at::Tensor& weight_GRT, const at::Tensor& rows_GRD) {
    return at::matmul(weight_GRT.narrow(2, tokens - rows, rows).transpose(1, 2), rows_GRD)
        .sum(0)
        .unsqueeze(1);
  };
  return {out_GRD.transpose(0, 1), at::matmul(ds_GRT, k_TD).mul(scale).transpose(0, 1),
          of_last_keys(ds_GRT, q_GRD).mul(scale), of_last_keys(p_GRT, dout_GRD)};
}

json AttentionSpeed(Words words) {
  const at::Device device = words.TakeDevice();
  const at::ScalarType dtype = words.TakeDtype();
  const int64_t tokens = words.TakeInteger("tokens"), heads = words.TakeInteger("heads"),
                kv_heads = words.TakeInteger("kv_heads"), head_dim = words.TakeInteger("head_dim");
  words.Finish();
  const auto random = [&](int64_t of) {
    return at::randn({tokens, of, head_dim}, at::TensorOptions(device).dtype(dtype));
  };
  const at::Tensor q = random(heads).requires_grad_(), k = random(kv_heads).requires_grad_(),
                   v = random(kv_heads).requires_grad_(), dout = random(heads);
  const auto dense = base::ValueOrThrow(
      attention::CreateAttention({{.name = "dense"}, comm::Communicator::Alone()}));
  const auto layout = base::ValueOrThrow(comm::Layout::Create(
      {tokens}, dense->Divide(std::vector<int64_t>{tokens}), attention::CausalTileArea));
  const auto plan = base::ValueOrThrow(dense->Plan(layout));
  const double scale = 1 / std::sqrt(static_cast<double>(head_dim));
  at::Tensor out;
  std::vector<at::Tensor> gradients;
  const double forward = MedianSeconds(3, 1, [&] {
    at::NoGradGuard no_grad;
    return plan->Forward(q, k, v, {scale}, nullptr);
  });
  const double backward = MedianSeconds(
      3, 1,
      [&] {
        gradients = torch::autograd::grad({out}, {q, k, v}, {dout});
        return gradients[0];
      },
      [&] {  // a new graph for each call
        out = plan->Forward(q, k, v, {scale}, nullptr);
        WaitFor(out);
      });
  const int64_t peak = trainer::ReadDeviceMemory().allocated_peak;

  const int64_t rows = std::min<int64_t>(tokens, 64);
  at::NoGradGuard no_grad;
  const LastRows want = Written(q.detach(), k.detach(), v.detach(), dout, rows, scale);
  const auto error = [&](const at::Tensor& got, const at::Tensor& wanted) {
    return testing::RelativeErrorOf(
        got.narrow(0, tokens - rows, rows).narrow(1, 0, wanted.size(1)).cpu(), wanted.cpu());
  };
  const double pairs = static_cast<double>(tokens) * (static_cast<double>(tokens) + 1) / 2;
  return {
      {"forward_seconds", forward},
      {"backward_seconds", backward},
      {"flops", 4 * pairs *
                    static_cast<double>(
                        heads * head_dim)},  // of the forward; the backward has 2.5 times as many
      {"out", error(out.detach(), want.out)},
      {"dq", error(gradients[0], want.dq)},
      {"dk", error(gradients[1], want.dk)},
      {"dv", error(gradients[2], want.dv)},
      {"peak_bytes", peak}};
}

json Kernels(Words words) {
  const at::Device device = words.TakeDevice();
  const auto take = [&](const char* name) { return words.TakeInteger(name); };
  const testing::KernelSizes sizes{take("rows"),     take("width"),      take("heads"),
                                   take("kv_heads"), take("vocabulary"), take("parameters")};
  words.Finish();
  const std::vector<std::string> there = testing::KernelsFor(device);
  std::set<std::string> without(there.begin(), there.end());
  json found = {{"kernels", json::array()}};
  for (const testing::KernelCase& each : testing::KernelCases()) {
    if (std::find(there.begin(), there.end(), each.op) == there.end())
      continue;  // not linked into this program
    without.erase(each.op);
    const testing::PreparedKernel kernel = each.prepare(sizes, device);
    const double error = testing::WorstError(kernel.call(), kernel.results);
    const double seconds = MedianSeconds(5, 10, [&] { return kernel.call()[0]; });
    found["kernels"].push_back({{"operator", each.op + each.of},
                                {"error", error},
                                {"bytes", kernel.bytes},
                                {"seconds", seconds}});
  }
  found["without_case"] = without;
  return found;
}

// Returns the indices of an element as text, for example "[3, 17]".
std::string Place(const at::Tensor& tensor, int64_t flat) {
  std::vector<int64_t> place(tensor.dim());
  for (int64_t dim = tensor.dim() - 1; dim >= 0; --dim) {
    place[dim] = flat % tensor.size(dim);
    flat /= tensor.size(dim);
  }
  return c10::str(at::IntArrayRef(place));
}

json Compare(const std::string& path, const std::string& other_path) {
  const auto file = base::ValueOrThrow(model::SafetensorsFile::Open(path)),
             other = base::ValueOrThrow(model::SafetensorsFile::Open(other_path));
  if (file->entries().size() != other->entries().size()) {
    throw std::runtime_error(path + " has " + std::to_string(file->entries().size()) +
                             " tensors, " + other_path + " " +
                             std::to_string(other->entries().size()));
  }
  double difference = 0, norm = 0, worst = -1;
  json found = {{"each", json::object()}};
  for (const auto& [name, entry] : file->entries()) {
    if (!other->entries().contains(name)) throw std::runtime_error(other_path + " has no " + name);
    const at::Tensor a = base::ValueOrThrow(file->Read(name)).to(at::kDouble),
                     b = base::ValueOrThrow(other->Read(name)).to(at::kDouble);
    if (a.sizes() != b.sizes()) throw std::runtime_error(name + ": shapes differ");
    const double apart = (a - b).square().sum().item<double>(),
                 size = b.square().sum().item<double>();
    difference += apart;
    norm += size;
    const double error = apart == 0 ? 0 : std::sqrt(apart / size);
    found["each"][name] = error;
    if (error <= worst) continue;  // false if the error is NaN
    worst = std::isnan(error) ? INFINITY : error;
    const int64_t at = (a - b).abs().nan_to_num(INFINITY).argmax().item<int64_t>();
    found["name"] = name;
    found["worst"] = worst;
    found["at"] = Place(a, at);
    found["got"] = a.flatten()[at].item<double>();
    found["want"] = b.flatten()[at].item<double>();
  }
  if (!(norm > 0)) throw std::runtime_error(other_path + ": all is zero");
  found["error"] = std::sqrt(difference / norm);
  found["tensors"] = file->entries().size();
  return found;
}

json Run(int argc, char** argv) {
  const std::string what = argc > 1 ? argv[1] : "";
  at::manual_seed(5);
  if (what == "devices") return Devices();
  if (what == "compare" && argc >= 4 && argc % 2 == 0) {
    json found = json::array();
    for (int i = 2; i < argc; i += 2) found.push_back(Compare(argv[i], argv[i + 1]));
    return found;
  }
  if (what == "matmul") return Matmul(Words(argc, argv));
  if (what == "copy") return Copy(Words(argc, argv));
  if (what == "kernels") return Kernels(Words(argc, argv));
  if (what == "attention") return AttentionSpeed(Words(argc, argv));
  throw std::invalid_argument(
      "expected devices, matmul, copy, attention, kernels or compare A B, got '" + what + "'");
}

}  // namespace
}  // namespace moonring

int main(int argc, char** argv) {
  try {
    std::cout << moonring::Run(argc, argv) << std::endl;
    std::_Exit(0);  // skips destructors of GPU libraries
  } catch (const std::exception& exception) {
    const std::string what = exception.what();
    std::cerr << "measure: " << what.substr(0, what.find('\n'))
              << std::endl;  // only the first line: LibTorch's messages continue with its stack
    return 1;
  }
}
