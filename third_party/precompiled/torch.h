// The precompiled header of sources that call operators (cc.bzl).

#include "third_party/precompiled/tensor.h"

#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <ATen/core/grad_mode.h>
