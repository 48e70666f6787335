// What tests with tensors begin with, parsed once for all of them (cc.bzl).

#include "third_party/precompiled/torch.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"
