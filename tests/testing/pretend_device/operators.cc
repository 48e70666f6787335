// Operators of the pretend device (a simulated GPU). Factories and views have their own
// implementations; every other operator runs the CPU kernel over the same bytes (a boxed fallback,
// which copies no argument).

#include "tests/testing/pretend_device/operators.h"

#include <algorithm>
#include <array>
#include <optional>
#include <string>
#include <vector>

#include <ATen/Context.h>
#include <ATen/EmptyTensor.h>
#include <ATen/core/LegacyTypeDispatch.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/native/Resize.h>
#include <ATen/ops/_local_scalar_dense.h>
#include <ATen/ops/_reshape_alias_native.h>
#include <ATen/ops/as_strided_native.h>
#include <ATen/ops/set_native.h>
#include <ATen/ops/unfold_native.h>
#include <ATen/ops/view_native.h>
#include <c10/core/DeviceGuard.h>
#include <c10/core/impl/VirtualGuardImpl.h>
#include <torch/library.h>

#include "tests/testing/pretend_device/counts.h"
#include "tests/testing/pretend_device/kernel.h"
#include "tests/testing/pretend_device/left_out.h"
#include "tests/testing/pretend_device/memory.h"
#include "tests/testing/pretend_device/work.h"

namespace moonring::pretend {
namespace {

constexpr c10::DispatchKeySet kDeviceKeys(c10::DispatchKey::CUDA);

c10::Device DeviceOf(std::optional<c10::Device> asked) {
  const c10::impl::VirtualGuardImpl guard(c10::kCUDA);
  return asked.has_value() && asked->has_index() ? *asked : guard.getDevice();
}

at::Tensor Named(at::Tensor made, const std::string& maker = "") {
  if (Block* const block = BlockOf(made.storage())) {
    block->what = c10::str("a tensor ", made.scalar_type(), " ", made.sizes(), maker);
  }
  return made;
}

at::Tensor Empty(at::IntArrayRef sizes, std::optional<at::ScalarType> dtype,
                 std::optional<at::Layout>, std::optional<c10::Device> device,
                 std::optional<bool> pinned, std::optional<at::MemoryFormat> format) {
  TORCH_CHECK(!pinned.value_or(false), "Only dense CPU tensors can be pinned");
  const c10::DeviceGuard guard(DeviceOf(device));
  return Named(at::detail::empty_generic(sizes, c10::GetAllocator(c10::kCUDA), kDeviceKeys,
                                         c10::dtype_or_default(dtype), format));
}

at::Tensor EmptyStrided(at::IntArrayRef sizes, at::IntArrayRef strides,
                        std::optional<at::ScalarType> dtype, std::optional<at::Layout>,
                        std::optional<c10::Device> device, std::optional<bool> pinned) {
  TORCH_CHECK(!pinned.value_or(false), "Only dense CPU tensors can be pinned");
  const c10::DeviceGuard guard(DeviceOf(device));
  return Named(at::detail::empty_strided_generic(sizes, strides, c10::GetAllocator(c10::kCUDA),
                                                 kDeviceKeys, c10::dtype_or_default(dtype)));
}

// Enlarges the storage to at least `bytes` and keeps its contents.
void Grow(const at::Tensor& tensor, size_t bytes) {
  c10::StorageImpl* const storage = tensor.storage().unsafeGetStorageImpl();
  if (storage->nbytes() >= bytes) return;
  const c10::DeviceGuard guard(tensor.device());
  c10::DataPtr larger = Allocate(bytes);
  if (storage->nbytes() > 0) {
    std::memcpy(ForKernels(larger.get()), ForKernels(storage->mutable_data()), storage->nbytes());
  }
  storage->set_data_ptr_noswap(std::move(larger));
  storage->set_nbytes(bytes);
}

const at::Tensor& Resize(const at::Tensor& self, at::IntArrayRef sizes,
                         std::optional<at::MemoryFormat>) {
  int64_t numel = self.storage_offset();
  numel += c10::multiply_integers(sizes);
  Grow(self, static_cast<size_t>(numel) * self.itemsize());
  self.unsafeGetTensorImpl()->set_sizes_contiguous(sizes);
  return self;
}

at::Tensor& SetStorage(at::Tensor& self, at::Storage source, int64_t offset, at::IntArrayRef sizes,
                       at::IntArrayRef strides) {
  return at::native::set_storage_cpu_(self, std::move(source), offset, sizes, strides);
}
at::Tensor& SetWholeStorage(at::Tensor& self, at::Storage source) {
  return at::native::set_(self, std::move(source));
}
at::Tensor& SetTensor(at::Tensor& self, const at::Tensor& source) {
  return at::native::set_storage_cpu_(self, source.storage(), source.storage_offset(),
                                      source.sizes(), source.strides());
}
at::Tensor& SetNothing(at::Tensor& self) {
  const c10::Storage none(c10::Storage::use_byte_size_t(), 0, c10::DataPtr(nullptr, self.device()),
                          c10::GetAllocator(c10::kCUDA), /*resizable=*/true);
  return at::native::set_storage_cpu_(self, none, 0, {0}, {});
}

// item(): the only operator by which the host itself reads device memory.
at::Scalar LocalScalar(const at::Tensor& self) {
  Kernel kernel("_local_scalar_dense");
  const at::Tensor seen = kernel.Sees(self, /*writes=*/false);
  kernel.Launch();
  CountSynchronization("item");
  CountToHost(static_cast<int64_t>(self.itemsize()), /*blocking=*/true);
  HostWaits(c10::impl::VirtualGuardImpl(c10::kCUDA).getStream(self.device()));
  return at::_local_scalar_dense(seen);
}

void RecordStream(at::Tensor& self, c10::Stream stream) {
  c10::impl::VirtualGuardImpl(c10::kCUDA).recordDataPtrOnStream(self.storage().data_ptr(), stream);
}

// --- any other operator -----------------------------------------------------

// Returns whether the host must know the size of the operator's result, or the result itself:
// CUDA's kernels then wait for the device.
bool HostMustKnow(const std::string& name, const std::string& overload) {
  static const std::vector<std::string> always = {
      "aten::nonzero",    "aten::masked_select",      "aten::equal",    "aten::_unique2",
      "aten::unique_dim", "aten::unique_consecutive", "aten::bincount", "aten::_unique"};
  if (name == "aten::repeat_interleave") return overload == "Tensor";
  return std::find(always.begin(), always.end(), name) != always.end();
}

// Applies the limits of cuBLAS: no integers, and a workspace for each stream, of the size that
// LibTorch 2.11 uses for compute capability 9.0 (32 MiB).
void PrepareProduct(const std::string& name, const at::Tensor& first) {
  TORCH_CHECK(first.is_floating_point() || first.is_complex(), "\"", name,
              "_cuda\" not implemented for '", first.scalar_type(), "'");
  constexpr int64_t kWorkspace = int64_t{32} << 20;
  static std::mutex mutex;
  static auto* const of_stream = new std::map<StreamKey, at::Tensor>;
  const std::lock_guard<std::mutex> lock(mutex);
  at::Tensor& workspace =
      (*of_stream)[KeyOf(c10::impl::VirtualGuardImpl(c10::kCUDA).getStream(first.device()))];
  if (!workspace.defined()) workspace = Workspace(kWorkspace);
}

// One call of an operator with its arguments on a stack: converts them to CPU tensors, and the
// results back.
class Call {
 public:
  Call(const c10::OperatorHandle& op, torch::jit::Stack* stack)
      : op_(op),
        schema_(op.schema()),
        name_(schema_.name()),
        kernel_(Short(op)),
        stack_(*stack),
        arguments_(schema_.arguments().size()),
        first_(stack->size() - arguments_) {}

  // Converts the arguments, calls `run`, which calls the CPU kernel, and converts the results.
  template <typename Run>
  void Through(const Run& run) {
    given_.assign(stack_.begin() + static_cast<std::ptrdiff_t>(first_), stack_.end());
    for (size_t i = 0; i < arguments_; ++i)
      stack_[first_ + i] = Seen(given_[i], schema_.arguments()[i]);
    if (!device_.has_value()) device_ = c10::impl::VirtualGuardImpl(c10::kCUDA).getDevice();
    CheckHostTensors();
    const c10::DeviceGuard guard(*device_);
    if (IsProduct(name_)) PrepareProduct(name_, first_tensor_);
    if (IsProduct(name_) && !is_large_ && at::globalContext().allowTF32CuBLAS()) TruncateOperands();
    kernel_.Launch();
    if (HostMustKnow(name_, schema_.overload_name())) {
      CountSynchronization(name_);
      HostWaits(c10::impl::VirtualGuardImpl(c10::kCUDA).getStream(*device_));
    }
    const bool put = IsProduct(name_) && ProductsAreLeftOut() && !is_large_;
    if (!(is_large_ && LeaveOut()) && !(put && PutZeros(schema_, &stack_))) run();
    const size_t returns = schema_.returns().size(), begin = stack_.size() - returns;
    for (size_t i = 0; i < returns; ++i)
      stack_[begin + i] = Returned(stack_[begin + i], schema_.returns()[i]);
    for (const auto& [there, seen] : written_) BringBack(there, seen);
    const std::vector<c10::IValue> results(stack_.end() - static_cast<std::ptrdiff_t>(returns),
                                           stack_.end());
    if (WantsReport()) CountWork(kernel_.name(), WorkOf(schema_, given_, results));
  }

 private:
  // Skips the computation on large tensors: outputs stay unchanged, and other results only get
  // memory. Returns false if the sizes of the results cannot be known without the computation.
  bool LeaveOut() {
    if (HostMustKnow(name_, schema_.overload_name())) return false;
    const std::vector<c10::Argument>& returns = schema_.returns();
    const bool are_there = std::all_of(returns.begin(), returns.end(), [](const auto& each) {
      return each.alias_info() != nullptr;
    });
    const bool grow = std::any_of(written_.begin(), written_.end(),
                                  [](const auto& each) { return each.first.numel() == 0; });
    std::optional<torch::jit::Stack> shapes = torch::jit::Stack(returns.size());
    std::vector<at::Tensor> arguments;
    if (!are_there || grow) shapes = ShapesOf(op_, given_, arguments);
    if (!shapes.has_value()) return false;
    for (size_t i = 0; grow && i < arguments_; ++i) {
      if (!arguments[i].defined() || !schema_.arguments()[i].is_out()) continue;
      Resize(given_[i].toTensor(), arguments[i].sizes(), std::nullopt);
      for (auto& [there, seen] : written_) {  // so that BringBack finds nothing to bring
        if (there.is_same(given_[i].toTensor())) seen = Kernel(name_).Sees(there, /*writes=*/true);
      }
    }
    torch::jit::drop(stack_, arguments_);
    for (const c10::IValue& result : *shapes) stack_.push_back(are_there ? result : Made(result));
    return true;
  }

  // Allocates device memory for a result whose shape is known.
  c10::IValue Made(const c10::IValue& shape) const {
    if (shape.isTensor() && shape.toTensor().defined())
      return WithoutMemory(shape.toTensor(), *device_);
    if (!shape.isTensorList()) return shape;
    c10::List<at::Tensor> list;
    for (const at::Tensor& each : shape.toTensorVector())
      list.push_back(WithoutMemory(each, *device_));
    return list;
  }

  static std::string Short(const c10::OperatorHandle& op) {
    const std::string& name = op.schema().name();
    return name.substr(name.find("::") + 2);
  }

  at::Tensor SeenTensor(const at::Tensor& tensor, bool writes) {
    if (!tensor.defined()) return tensor;
    if (!tensor.is_cuda()) {
      on_host_.push_back(tensor);
      return tensor;
    }
    device_ = tensor.device();
    if (!first_tensor_.defined()) first_tensor_ = tensor;
    is_large_ |= IsLarge(tensor);
    at::Tensor seen = kernel_.Sees(tensor, writes);
    if (writes) written_.emplace_back(tensor, seen);
    return seen;
  }

  c10::IValue Seen(const c10::IValue& value, const c10::Argument& argument) {
    const bool writes = argument.alias_info() != nullptr && argument.alias_info()->isWrite();
    if (value.isTensor()) return SeenTensor(value.toTensor(), writes);
    if (value.isTensorList()) {
      c10::List<at::Tensor> seen;
      for (at::Tensor tensor : value.toTensorList()) seen.push_back(SeenTensor(tensor, writes));
      return seen;
    }
    if (value.isOptionalTensorList()) {
      c10::List<std::optional<at::Tensor>> seen;
      for (std::optional<at::Tensor> tensor : value.toOptionalTensorList()) {
        seen.push_back(tensor.has_value() ? std::optional(SeenTensor(*tensor, writes))
                                          : std::nullopt);
      }
      return seen;
    }
    if (value.isDevice() && value.toDevice().is_cuda()) {
      device_ = DeviceOf(value.toDevice());
      return c10::Device(c10::kCPU);
    }
    return value;
  }

  // CUDA's kernels accept host tensors that are scalars. They also accept larger ones that are
  // indices, which they copy.
  void CheckHostTensors() const {
    for (const at::Tensor& tensor : on_host_) {
      if (tensor.dim() == 0) continue;
      TORCH_CHECK(
          name_ == "aten::index" || name_ == "aten::index_put_" ||
              name_ == "aten::_index_put_impl_",
          name_,
          ": Expected all tensors to be on the same device, but found at least two devices, ",
          *device_, " and cpu!");
      CountToDevice(static_cast<int64_t>(tensor.nbytes()), /*blocking=*/true);
      CountSynchronization(name_ + " with an index of the host");
    }
  }

  void TruncateOperands() {
    for (size_t i = 0; i < arguments_; ++i) {
      c10::IValue& value = stack_[first_ + i];
      if (!value.isTensor() || !IsOperand(name_, schema_.arguments()[i].name())) continue;
      if (value.toTensor().scalar_type() == at::kFloat) value = Truncated(value.toTensor());
    }
  }

  // If the schema says that the result aliases an argument, returns that argument.
  c10::IValue Returned(const c10::IValue& value, const c10::Argument& result) const {
    if (result.alias_info() != nullptr) {
      TORCH_CHECK(result.alias_info()->isWrite(), name_,
                  ": a view that the pretend device has no kernel for");
      for (size_t i = 0; i < arguments_; ++i) {
        const c10::AliasInfo* const of = schema_.arguments()[i].alias_info();
        if (of != nullptr && of->isWrite() && of->beforeSets() == result.alias_info()->beforeSets())
          return given_[i];
      }
      TORCH_CHECK(false, name_, ": a result of none of its arguments");
    }
    const auto there = [&](const at::Tensor& made) {
      return made.defined() && !made.is_cuda()
                 ? Named(ToDevice(made, *device_), " of " + name_.substr(name_.find("::") + 2))
                 : made;
    };
    if (value.isTensor()) return there(value.toTensor());
    if (value.isTensorList()) {
      c10::List<at::Tensor> results;
      for (at::Tensor made : value.toTensorList()) results.push_back(there(made));
      return results;
    }
    return value;
  }

  // Copies an output that the kernel has enlarged or reshaped back to the device tensor.
  static void BringBack(const at::Tensor& there, const at::Tensor& seen) {
    c10::TensorImpl* const impl = there.unsafeGetTensorImpl();
    const Block* const block = BlockOf(there.storage());
    const void* const own = block == nullptr ? nullptr : ForKernels(there.storage().mutable_data());
    if (seen.storage().data() != own) {
      Grow(there, seen.storage().nbytes());
      std::memcpy(ForKernels(there.storage().mutable_data()), seen.storage().data(),
                  seen.storage().nbytes());
    }
    if (seen.sizes() != there.sizes() || seen.strides() != there.strides()) {
      impl->set_sizes_and_strides(seen.sizes(), seen.strides());
    }
  }

  const c10::OperatorHandle& op_;
  const c10::FunctionSchema& schema_;
  const std::string name_;
  Kernel kernel_;
  torch::jit::Stack& stack_;
  const size_t arguments_, first_;
  std::vector<c10::IValue> given_;
  std::vector<std::pair<at::Tensor, at::Tensor>> written_;
  std::vector<at::Tensor> on_host_;
  at::Tensor first_tensor_;
  bool is_large_ = false;  // and left out
  std::optional<c10::Device> device_;
};

}  // namespace

void Through(const c10::OperatorHandle& op, torch::jit::Stack* stack,
             const std::function<void()>& run) {
  Call(op, stack).Through(run);
}

void OnCpu(const c10::OperatorHandle& op, c10::DispatchKeySet, torch::jit::Stack* stack) {
  const at::AutoDispatchBelowADInplaceOrView below;
  Call(op, stack).Through(
      [&] { op.redispatchBoxed(c10::DispatchKeySet(c10::DispatchKey::CPU), stack); });
}

namespace {

// Returns whether the operator is a single kernel on a GPU: true for operators on lists of tensors,
// and for operators that have a CPU kernel in addition to a composite implementation.
bool HasOwnKernel(const c10::OperatorName& name) {
  if (name.name.rfind("aten::_foreach_", 0) == 0) return true;
  const auto op = c10::Dispatcher::singleton().findOp(name);
  const auto has = [&](c10::DispatchKey key) { return op->hasKernelForDispatchKey(key); };
  return op.has_value() && has(c10::DispatchKey::CPU) &&
         has(c10::DispatchKey::CompositeImplicitAutograd) && !has(c10::DispatchKey::CUDA);
}

TORCH_LIBRARY_IMPL(_, CUDA, library) {
  library.fallback(torch::CppFunction::makeFromBoxedFunction<&OnCpu>());
}

TORCH_LIBRARY_IMPL(aten, CUDA, library) {
  library.impl("empty.memory_format", TORCH_FN(Empty));
  library.impl("empty_strided", TORCH_FN(EmptyStrided));
  library.impl("resize_", TORCH_FN(Resize));
  library.impl("as_strided", TORCH_FN(at::native::as_strided_tensorimpl));
  library.impl("view", TORCH_FN(at::native::view));
  library.impl("_reshape_alias", TORCH_FN(at::native::_reshape_alias));
  library.impl("unfold", TORCH_FN(at::native::unfold));
  library.impl("set_.source_Storage", TORCH_FN(SetWholeStorage));
  library.impl("set_.source_Storage_storage_offset", TORCH_FN(SetStorage));
  library.impl("set_.source_Tensor", TORCH_FN(SetTensor));
  library.impl("set_", TORCH_FN(SetNothing));
  library.impl("_local_scalar_dense", TORCH_FN(LocalScalar));
  library.impl("record_stream", TORCH_FN(RecordStream));
  // Registers operators that have a CUDA kernel but are composed of several operators on other
  // devices.
  for (const c10::OperatorName& name : c10::Dispatcher::singleton().getAllOpNames()) {
    if (name.name.rfind("aten::", 0) != 0 || !HasOwnKernel(name)) continue;
    const std::string full =
        name.name.substr(6) + (name.overload_name.empty() ? "" : "." + name.overload_name);
    library.impl(full.c_str(), torch::CppFunction::makeFromBoxedFunction<&OnCpu>());
  }
}

}  // namespace
}  // namespace moonring::pretend
