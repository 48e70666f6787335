#ifndef MOONRING_TRAINER_DEVICE_SETTINGS_H_
#define MOONRING_TRAINER_DEVICE_SETTINGS_H_

// What LibTorch is told of devices before one is used. It has one setting of each a process.

namespace moonring::trainer {

// Segments of device memory grow (expandable_segments:True) in place of being one allocation each:
// micro-batches of ever other lengths leave no holes then that fit nobody. Does nothing where
// PYTORCH_ALLOC_CONF or PYTORCH_CUDA_ALLOC_CONF is set: whoever sets it has a wish of his own. Call
// it before the first tensor on a device.
void GrowSegments();

// Products of fp32 are of fp32: not of TF32, whatever TORCH_ALLOW_TF32_CUBLAS_OVERRIDE or
// NVIDIA_TF32_OVERRIDE say, as images of machines set them. Call it before the first product on a
// device.
void MultiplyAsWritten();

// Whether operators give the same bits each time, at the price of time, and in flash attention's
// backward of a sum of dq for each part of the GPU that works on it. Those that cannot throw, by
// name. cuBLAS is told by CUBLAS_WORKSPACE_CONFIG, unless that is set: call it before the first
// product on a device. A CPU's operators are so anyway.
void SetDeterministic(bool deterministic);

}  // namespace moonring::trainer

#endif  // MOONRING_TRAINER_DEVICE_SETTINGS_H_
