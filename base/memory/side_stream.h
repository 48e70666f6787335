#ifndef MOONRING_BASE_MEMORY_SIDE_STREAM_H_
#define MOONRING_BASE_MEMORY_SIDE_STREAM_H_

// A stream of a GPU beside the one that computes, for copies, and what they leave behind.
//
// Memory goes from stream to stream by waiting for events, not by Tensor::record_stream: what is
// freed under that comes back once the device is done, and the host, which is ahead of it by a
// whole pass, would find none of it free. The host waits for nothing here.

#include <cstdint>
#include <deque>

#include <ATen/core/Tensor.h>
#include <c10/core/Device.h>
#include <c10/core/Event.h>
#include <c10/core/Stream.h>
#include <c10/core/impl/VirtualGuardImpl.h>

namespace moonring::base {

// `first` goes on only when all that `second` has been given so far is done.
void WaitForStream(const c10::Stream& first, const c10::Stream& second);

class SideStream {
 public:
  // `device`: not the CPU. Without an index: the current one.
  explicit SideStream(c10::Device device);

  const c10::Device& device() const { return device_; }
  const c10::Stream& stream() const { return stream_; }
  // The one that computes.
  c10::Stream Current() const { return guard_.getStream(device_); }

 private:
  c10::Device device_;
  c10::impl::VirtualGuardImpl guard_;
  c10::Stream stream_;
};

// Tensors that a side stream still reads: each is held until the stream whose memory it is has been
// told to wait for that.
class Leaving {
 public:
  Leaving() = default;
  ~Leaving();
  Leaving(const Leaving&) = delete;
  Leaving& operator=(const Leaving&) = delete;

  // `of`: whose memory it is. `reader` has been given all that reads it.
  void Add(at::Tensor tensor, const c10::Stream& of, const c10::Stream& reader);
  // The one that has been leaving longest.
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
