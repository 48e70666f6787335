#include "base/memory/side_stream.h"

#include <exception>
#include <utility>

namespace moonring::base {
namespace {

c10::Device WithIndex(c10::Device device) {
  TORCH_CHECK(!device.is_cpu(), "a side stream: the CPU has none");
  return device.has_index() ? device : c10::impl::VirtualGuardImpl(device.type()).getDevice();
}

}  // namespace

void WaitForStream(const c10::Stream& first, const c10::Stream& second) {
  c10::Event event(second.device_type());
  event.record(second);
  event.block(first);
}

SideStream::SideStream(c10::Device device)
    : device_(WithIndex(device)),
      guard_(device_.type()),
      stream_(guard_.getStreamFromGlobalPool(device_, /*isHighPriority=*/false)) {}

Leaving::~Leaving() {
  // If a stream cannot be made to wait, its device has failed, and nothing runs there that could
  // use the memory.
  try {
    while (size() > 0) LetGo();
  } catch (const std::exception&) {
  }
}

void Leaving::Add(at::Tensor tensor, const c10::Stream& of, const c10::Stream& reader) {
  bytes_ += static_cast<int64_t>(tensor.nbytes());
  tensors_.push_back({std::move(tensor), of, c10::Event(of.device_type())});
  tensors_.back().read.record(reader);
}

void Leaving::LetGo() {
  bytes_ -= static_cast<int64_t>(tensors_.front().tensor.nbytes());
  tensors_.front().read.block(tensors_.front().stream);
  tensors_.pop_front();
}

}  // namespace moonring::base
