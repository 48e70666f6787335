#ifndef MOONRING_BASE_MEMORY_SIDE_STREAM_H_
#define MOONRING_BASE_MEMORY_SIDE_STREAM_H_

// A second GPU stream for copies, in addition to the stream that computes, and the tensors that the
// second stream still reads.
//
// Memory is passed between streams by waiting for events, not by Tensor::record_stream. Memory
// freed after record_stream is reusable only when the device has finished, but the host runs ahead
// of the device by a whole pass and would find none of that memory free. Nothing in this file makes
// the host wait.

#include <cstdint>
#include <deque>

#include <ATen/core/Tensor.h>
#include <c10/core/Device.h>
#include <c10/core/Event.h>
#include <c10/core/Stream.h>
#include <c10/core/impl/VirtualGuardImpl.h>

namespace moonring::base {

// Makes `first` wait for all work that has been queued on `second` so far.
void WaitForStream(const c10::Stream& first, const c10::Stream& second);

class SideStream {
 public:
  // `device` must not be the CPU. A device without an index means the current device of its type.
  explicit SideStream(c10::Device device);

  const c10::Device& device() const { return device_; }
  const c10::Stream& stream() const { return stream_; }
  // The stream that computes.
  c10::Stream Current() const { return guard_.getStream(device_); }

 private:
  c10::Device device_;
  c10::impl::VirtualGuardImpl guard_;
  c10::Stream stream_;
};

// Tensors that a side stream still reads. Each is kept until the stream that owns its memory has
// been made to wait for that read.
class Leaving {
 public:
  Leaving() = default;
  ~Leaving();
  Leaving(const Leaving&) = delete;
  Leaving& operator=(const Leaving&) = delete;

  // `of`: the stream that owns the memory. `reader`: all reads must already be queued on it.
  void Add(at::Tensor tensor, const c10::Stream& of, const c10::Stream& reader);
  // Releases the tensor that was added first.
  void LetGo();

  size_t size() const { return tensors_.size(); }
  int64_t bytes() const { return bytes_; }

 private:
  struct One {
    at::Tensor tensor;
    c10::Stream stream;
    c10::Event read;
  };
  std::deque<One> tensors_;
  int64_t bytes_ = 0;
};

}  // namespace moonring::base

#endif  // MOONRING_BASE_MEMORY_SIDE_STREAM_H_
