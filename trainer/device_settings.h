#ifndef MOONRING_TRAINER_DEVICE_SETTINGS_H_
#define MOONRING_TRAINER_DEVICE_SETTINGS_H_

// Process-wide settings of LibTorch for devices, made before the first one is used.

namespace moonring::trainer {

// Turns on expandable_segments: micro-batches of changing lengths then fragment device memory less.
// Does nothing where PYTORCH_ALLOC_CONF or PYTORCH_CUDA_ALLOC_CONF is set. Call it before the first
// tensor on a device.
void GrowSegments();

// Turns TF32 off: fp32 products are computed in fp32 even where the container's environment sets
// TORCH_ALLOW_TF32_CUBLAS_OVERRIDE or NVIDIA_TF32_OVERRIDE. Call it before the first product on a
// device.
void MultiplyAsWritten();

// Makes operators deterministic (torch.use_deterministic_algorithms), or not. Deterministic ones
// are slower, and flash attention's backward keeps several partial sums of dq. An operator without
// a deterministic kernel throws an error that names it. Sets CUBLAS_WORKSPACE_CONFIG if it is not
// set: call it before the first product on a device. CPU operators are deterministic anyway.
void SetDeterministic(bool deterministic);

}  // namespace moonring::trainer

#endif  // MOONRING_TRAINER_DEVICE_SETTINGS_H_
