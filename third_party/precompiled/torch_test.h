// The precompiled header of tests with tensors (cc.bzl).

#include "third_party/precompiled/torch.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"
