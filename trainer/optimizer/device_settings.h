#ifndef MOONRING_TRAINER_OPTIMIZER_DEVICE_SETTINGS_H_
#define MOONRING_TRAINER_OPTIMIZER_DEVICE_SETTINGS_H_

// Process-wide LibTorch settings for devices, to be made before a device is first used.

namespace moonring::trainer {

// Enables expandable_segments, which reduces fragmentation of device memory by micro-batches of
// varying lengths. Has no effect if PYTORCH_ALLOC_CONF or PYTORCH_CUDA_ALLOC_CONF is set. Must be
// called before the first tensor on a device is created.
void GrowSegments();

// Disables TF32: fp32 matrix products are computed in fp32 even if the environment sets
// TORCH_ALLOW_TF32_CUBLAS_OVERRIDE or NVIDIA_TF32_OVERRIDE. Must be called before the first product
// on a device.
void MultiplyAsWritten();

// Turns deterministic operators on or off (torch.use_deterministic_algorithms). Deterministic
// operators are slower, and flash attention's backward needs memory for several partial sums of dq.
// An operator without a deterministic kernel throws an error that names it. Sets
// CUBLAS_WORKSPACE_CONFIG if it is not set, so this must be called before the first product on a
// device. CPU operators are always deterministic.
void SetDeterministic(bool deterministic);

}  // namespace moonring::trainer

#endif  // MOONRING_TRAINER_OPTIMIZER_DEVICE_SETTINGS_H_
