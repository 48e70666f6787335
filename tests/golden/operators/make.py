#!/usr/bin/env python3
"""Writes operators.json and operators.safetensors: results of operators in PyTorch's Python.

    python3 make.py        (torch 2.11.0 and safetensors)

A case is an operator with its arguments, in the order of its schema, and the results of
torch.ops.aten: every result, and the gradient of sum(sin(0, 1, 2, ..) * results) with respect to
every floating-point input. //tests/lua:operators_test makes the same calls in Lua and compares.
"""

import json
import os

import torch
from safetensors.torch import save_file

NAMES = {torch.float64: "fp64", torch.float32: "fp32", torch.int64: "int64", torch.bool: "bool"}
torch.manual_seed(0)

cases, tensors = [], {}


def t(*shape, low=-2.0, high=2.0, grad=True):
    x = torch.rand(shape, dtype=torch.float64) * (high - low) + low
    return x.requires_grad_(grad)


def pos(*shape):
    return t(*shape, low=0.2, high=2.0)


def unit(*shape):
    return t(*shape, low=-0.9, high=0.9)


def prob(*shape):
    return t(*shape, low=0.1, high=0.9)


def ints(*shape, low=-5, high=6):
    return torch.randint(low, high, shape)


def bools(*shape):
    return torch.rand(shape) > 0.5


def encode(value, key):
    if isinstance(value, torch.Tensor):
        tensors[key] = value.detach().clone().contiguous()
        return {"tensor": key, "grad": value.requires_grad}
    if isinstance(value, torch.dtype):
        return {"value": NAMES[value]}
    if isinstance(value, (list, tuple)):
        return {"list": [encode(each, f"{key}.{i}") for i, each in enumerate(value)]}
    if value is None:
        return {"none": True}
    return {"value": value}


def leaves(values):
    for value in values:
        if isinstance(value, torch.Tensor) and value.requires_grad:
            yield value
        elif isinstance(value, (list, tuple)):
            yield from leaves(value)


def flat(result):
    if isinstance(result, torch.Tensor):
        return [result]
    if isinstance(result, (list, tuple)):
        return [each for one in result for each in flat(one)]
    return []


def case(name, *args, **kwargs):
    key = f"{len(cases)}.{name}"
    record = {"name": name, "args": [encode(a, f"{key}.a{i}") for i, a in enumerate(args)],
              "kwargs": {k: encode(v, f"{key}.k.{k}") for k, v in kwargs.items()}}
    own = [a.clone() if isinstance(a, torch.Tensor) and not a.requires_grad else a for a in args]
    if name.endswith("_") and isinstance(own[0], torch.Tensor) and own[0].requires_grad:
        own[0] = own[0] * 1.0  # a leaf that requires a gradient must not be written in place
    result = getattr(torch.ops.aten, name)(*own, **kwargs)
    found = flat(result)
    record["results"] = len(found)
    if not found:
        is_dtype = name == "result_type"  # which torch.ops gives as a number
        record["number"] = NAMES[torch.result_type(*args)] if is_dtype else result
    total = 0
    for i, each in enumerate(found):
        tensors[f"{key}.r{i}"] = each.detach().clone().contiguous()
        if each.requires_grad:
            weights = torch.sin(torch.arange(each.numel(), dtype=torch.float64)).view(each.shape)
            total = total + (each * weights).sum()
    inputs = list(leaves(list(args) + list(kwargs.values())))
    record["gradients"] = 0
    if isinstance(total, torch.Tensor) and inputs:
        try:
            gradients = torch.autograd.grad(total, inputs, allow_unused=True)
        except RuntimeError as error:  # some operators have no derivative in PyTorch
            assert "not implemented" in str(error), (name, error)
            gradients = []
        for i, gradient in enumerate(gradients):
            if gradient is not None:
                tensors[f"{key}.g{i}"] = gradient.clone().contiguous()
        record["gradients"] = len(gradients)
    cases.append(record)


ANY = ("abs absolute neg negative positive exp exp2 expm1 sin cos tanh sinh cosh atan arctan asinh "
       "arcsinh sigmoid relu relu6 silu mish gelu elu selu celu leaky_relu softplus log_sigmoid "
       "hardtanh hardswish hardsigmoid hardshrink softshrink square sgn sign erf erfc sinc "
       "deg2rad rad2deg logit_ isfinite isnan isinf isneginf isposinf isreal signbit frac trunc fix "
       "ceil floor round special_expit special_entr special_i0e special_i1 special_log_ndtr "
       "special_ndtr special_erfcx i0 angle nan_to_num clone detach ravel contiguous t flatten "
       "special_logit_ special_expm1 special_exp2 special_erf special_sinc logical_not").split()
for op in ANY:
    if not op.endswith("_"):
        case(op, t(2, 3))
for op in ("log log2 log10 log1p sqrt rsqrt reciprocal lgamma digamma special_gammaln special_digamma "
           "special_log1p special_psi").split():
    case(op, pos(2, 3))
for op in "acos arccos asin arcsin atanh arctanh erfinv special_erfinv".split():
    case(op, unit(2, 3))
for op in "acosh arccosh".split():
    case(op, t(2, 3, low=1.2, high=3.0))
for op in "logit special_logit special_ndtri".split():
    case(op, prob(2, 3))
for op in ("abs_ neg_ exp_ sin_ cos_ tanh_ sigmoid_ relu_ square_ floor_ trunc_ zero_ erf_ silu_ "
           "atan_ sinh_ expm1_").split():
    case(op, t(2, 3))
for op in ("add sub mul div maximum minimum fmax fmin hypot atan2 arctan2 subtract multiply divide "
           "true_divide rsub logaddexp logaddexp2 eq ne lt le gt ge greater less not_equal "
           "greater_equal less_equal copysign fmod remainder floor_divide logical_and logical_or "
           "logical_xor dist").split():
    case(op, t(2, 3), t(2, 3))
for op in "add sub mul div maximum minimum atan2".split():
    case(op, t(2, 1, 3), t(4, 1))  # broadcast
for op in "add sub mul div pow eq lt ge fmod remainder floor_divide".split():
    case(op, pos(2, 3), 2)
    case(op, pos(2, 3), 1.5)
case("add", t(3), t(3), alpha=2)
case("sub", t(3), 1, alpha=0.5)
case("pow", pos(2, 3), pos(2, 3))
case("pow", 2, t(3))
case("pow", ints(4), 2)
case("float_power", pos(3), 2)
case("xlogy", pos(3), pos(3))
case("special_xlog1py", pos(3), pos(3))
case("special_zeta", t(3, low=1.5, high=3, grad=False), pos(3).detach())
case("div", ints(4), ints(4, low=1), rounding_mode="floor")
case("div", t(4), pos(4), rounding_mode="trunc")
case("add_", t(2, 3), t(2, 3))
case("mul_", t(2, 3), 3)
case("lerp", t(3), t(3), 0.25)
case("lerp", t(3), t(3), prob(3))
case("addcmul", t(3), t(3), t(3), value=2)
case("addcdiv", t(3), t(3), pos(3), value=0.5)
case("clamp", t(2, 3), -1, 1)
case("clamp", t(2, 3), None, 0.5)
case("clamp", t(3), t(3, low=-3, high=-1), t(3, low=1, high=3))
case("clamp_min", t(3), 0)
case("clamp_max", t(3), 0)
case("threshold", t(3), 0.1, 5)
case("where", bools(2, 3), t(2, 3), t(2, 3))
case("where", bools(2, 3), t(2, 3), 0.5)
case("where", bools(3), 1.5, t(3))
case("masked_fill", t(2, 3), bools(2, 3), 7)
case("masked_select", t(2, 3), bools(2, 3))
case("masked_scatter", t(2, 3), torch.tensor([[True, False, True]] * 2), t(6))
case("heaviside", t(3, grad=False), torch.tensor(0.5, dtype=torch.float64))
case("nextafter", t(3, grad=False), t(3, grad=False))
case("isclose", t(3), t(3))
case("bucketize", t(4, grad=False), torch.tensor([-1.0, 0.0, 1.0], dtype=torch.float64))
case("searchsorted", torch.tensor([-1.0, 0.0, 1.0], dtype=torch.float64), t(4, grad=False))
for op in "bitwise_and bitwise_or bitwise_xor gcd lcm".split():
    case(op, ints(4), ints(4))
case("bitwise_not", ints(4))
case("bitwise_left_shift", ints(4, low=0), 2)
case("bitwise_right_shift", ints(4, low=0), 1)
case("isin", ints(5), ints(3))

for op in "sum mean prod logsumexp_ std var norm max min amax_ amin_ median any_ all_ nansum nanmean".split():
    if not op.endswith("_"):
        case(op, t(2, 3))
for op in "sum mean amax amin logsumexp std var nansum nanmean".split():
    case(op, t(2, 3, 4), [1])
    case(op, t(2, 3, 4), [-1], keepdim=True)
case("sum", t(2, 3, 4), [0, 2])
case("sum", t(2, 3), dtype=torch.float64)
case("sum", ints(2, 3))
case("sum", t(2, 3, 4), 1)
for op in ("prod cumsum cumprod logcumsumexp softmax log_softmax max min median mode sort argsort "
           "argmax argmin cummax cummin all any msort_ unbind unsqueeze squeeze").split():
    if not op.endswith("_"):
        x = t(2, 3, 4)
        case(op, x if op not in ("all", "any") else bools(2, 3), 1)
case("all", bools(2, 3))
case("any", bools(2, 3))
case("max", t(3), t(3))
case("min", t(3), t(3))
case("argmax", t(2, 3))
case("var_mean", t(2, 3), [1])
case("std_mean", t(2, 3), [1])
case("std", t(2, 3), [0], correction=0)
case("std", t(2, 3), False)
case("norm", t(2, 3), 3)
case("norm", t(2, 3), 2, [1])
case("norm", t(2, 3), 1, [0], True)
case("aminmax", t(2, 3), dim=1)
case("kthvalue", t(2, 5), 2)
case("topk", t(2, 5), 3)
case("topk", t(2, 5), 2, -1, False, True)
case("sort", t(2, 5), -1, True)
case("msort", t(4, 2))
case("quantile", t(2, 5), 0.3, 1)
case("nanmedian", t(2, 5), 1)
case("count_nonzero", ints(2, 3), 1)
case("nonzero", ints(2, 3))
case("argwhere", ints(2, 3))
case("bincount", ints(6, low=0, high=4))
case("histc", t(9, grad=False), 4, -2, 2)
case("unique_consecutive", torch.tensor([1, 1, 2, 2, 2, 3]))
case("equal", ints(3), ints(3))
case("allclose", t(3), t(3))
case("diff", t(2, 5))
case("trapezoid", t(2, 5))
case("cumulative_trapezoid", t(2, 5))
case("sum_to_size", t(2, 3), [1, 3])
case("trace", t(3, 3))

case("view", t(2, 6), [3, 4])
case("reshape", t(2, 6), [-1])
case("reshape", t(2, 6), [4, 3])
case("permute", t(2, 3, 4), [2, 0, 1])
case("transpose", t(2, 3, 4), 0, 2)
case("swapaxes", t(2, 3), 0, 1)
case("movedim", t(2, 3, 4), 0, 2)
case("expand", t(2, 1), [2, 4])
case("repeat", t(2, 3), [2, 1, 2])
case("tile", t(2, 3), [2, 2])
case("repeat_interleave", t(2, 3), 2, 1)
case("repeat_interleave", t(3), torch.tensor([1, 0, 2]), 0)
case("cat", [t(2, 3), t(1, 3)])
case("cat", [t(2, 3), t(2, 1)], 1)
case("stack", [t(2), t(2), t(2)], 1)
case("hstack", [t(2), t(3)])
case("vstack", [t(2), t(2)])
case("chunk", t(5, 2), 2)
case("split", t(5, 2), 2)
case("split", t(5, 2), [1, 4])
case("split_with_sizes", t(2, 5), [2, 3], 1)
case("tensor_split", t(5), 3)
case("unbind", t(3, 2))
case("squeeze", t(2, 1, 3))
case("unflatten", t(2, 6), 1, [2, 3])
case("flip", t(2, 3), [0, 1])
case("fliplr", t(2, 3))
case("flipud", t(2, 3))
case("roll", t(2, 3), [1], [1])
case("rot90", t(2, 3))
case("narrow", t(4, 2), 0, 1, 2)
case("select", t(3, 2), 0, -1)
case("slice", t(5, 2), 0, 1, 5, 2)
case("diagonal", t(3, 4), 1)
case("diag", t(3))
case("diag_embed", t(2, 3))
case("diagflat", t(2, 2))
case("tril", t(3, 3))
case("triu", t(3, 3), 1)
case("unfold", t(6), 0, 3, 2)
case("constant_pad_nd", t(2, 3), [1, 2], 0.5)
case("pad", t(2, 3), [1, 0, 0, 1])
case("meshgrid", [t(2), t(3)], indexing="ij")
case("broadcast_to", t(3), [2, 3])
case("block_diag", [t(2, 2), t(1, 3)])
case("atleast_2d", t(3))
case("index_select", t(4, 2), 0, torch.tensor([3, 0, 0]))
case("gather", t(3, 3), 1, ints(3, 2, low=0, high=3))
case("take", t(2, 3), torch.tensor([0, 5, 2]))
case("take_along_dim", t(2, 3), torch.tensor([[0], [2]]), 1)
case("scatter", t(3, 3), 1, torch.tensor([[0], [1], [2]]), t(3, 1))
case("scatter", t(3, 3), 1, torch.tensor([[0], [1], [2]]), 4)
case("scatter_add", t(3, 3), 0, ints(2, 3, low=0, high=3), t(2, 3))
case("scatter_reduce", t(3), 0, torch.tensor([0, 0, 1, 2]), t(4), "amax")
case("index_add", t(3, 2), 0, torch.tensor([0, 2]), t(2, 2))
case("index_copy", t(3, 2), 0, torch.tensor([0, 2]), t(2, 2))
case("index_fill", t(3, 2), 0, torch.tensor([0, 2]), 9)
case("index", t(3, 3), [torch.tensor([0, 2]), torch.tensor([1, 1])])
case("index", t(3, 3), [None, torch.tensor([1, 0])])
case("index_put", t(3, 3), [torch.tensor([0, 2])], t(2, 3), True)
case("select_scatter", t(3, 2), t(2), 0, 1)
case("slice_scatter", t(4, 2), t(2, 2), 0, 1, 3)
case("embedding", t(5, 3), torch.tensor([[0, 4], [2, 2]]))
case("one_hot", torch.tensor([0, 2, 1]), 4)

case("matmul", t(2, 3), t(3, 4))
case("matmul", t(5, 2, 3), t(3))
case("mm", t(2, 3), t(3, 2))
case("mv", t(2, 3), t(3))
case("dot", t(4), t(4))
case("vdot", t(4), t(4))
case("inner", t(2, 3), t(4, 3))
case("outer", t(2), t(3))
case("bmm", t(2, 2, 3), t(2, 3, 2))
case("addmm", t(2, 4), t(2, 3), t(3, 4), beta=0.5, alpha=2)
case("addmv", t(2), t(2, 3), t(3))
case("addr", t(2, 3), t(2), t(3))
case("baddbmm", t(2, 2, 2), t(2, 2, 3), t(2, 3, 2))
case("addbmm", t(2, 2), t(3, 2, 2), t(3, 2, 2))
case("linear", t(2, 3), t(4, 3), t(4))
case("einsum", "ij,kj->ik", [t(2, 3), t(4, 3)])
case("tensordot", t(2, 3), t(3, 4), [1], [0])
case("kron", t(2, 2), t(2, 2))
case("cross", t(2, 3), t(2, 3), 1)
case("cdist", t(3, 2), t(4, 2))
case("chain_matmul", [t(2, 3), t(3, 2), t(2, 2)])
case("matrix_exp", t(3, 3))
case("cov", t(3, 5))
case("corrcoef", t(3, 5))
case("vander", t(3, grad=False))
spd = torch.eye(3, dtype=torch.float64) * 3 + 0.3
case("linalg_inv", (spd + 0).requires_grad_())
case("linalg_det", (spd + 0).requires_grad_())
case("linalg_slogdet", (spd + 0).requires_grad_())
case("linalg_cholesky", (spd + 0).requires_grad_())
case("linalg_solve", (spd + 0).requires_grad_(), t(3, 2))
case("linalg_matrix_power", t(3, 3), 3)
case("linalg_norm", t(2, 3))
case("linalg_vector_norm", t(2, 3), 3, [1])
case("linalg_matrix_norm", t(2, 3), "fro")
case("linalg_svdvals", t(3, 2))
# Distinct eigenvalues: with equal ones the eigenvectors, and so the gradient, depend on the LAPACK.
case("linalg_eigvalsh", (spd + torch.diag(torch.arange(3.0).double())).requires_grad_())
case("linalg_vecdot", t(2, 3), t(2, 3))
case("linalg_multi_dot", [t(2, 3), t(3, 2), t(2, 2)])

case("softmax", t(2, 3), -1)
case("log_softmax", t(2, 3), -1, torch.float64)
case("layer_norm", t(2, 4), [4], t(4), t(4))
case("rms_norm", t(2, 4), [4], t(4), 1e-6)
case("group_norm", t(2, 4, 3), 2, t(4), t(4))
case("glu", t(2, 4))
case("prelu", t(2, 3), t(3))
case("cross_entropy_loss", t(4, 3), torch.tensor([0, 2, -100, 1]))
case("cross_entropy_loss", t(4, 3), torch.tensor([0, 2, 2, 1]), None, 2, -100, 0.1)
case("nll_loss", t(4, 3), torch.tensor([0, 2, 2, 1]))
case("mse_loss", t(2, 3), t(2, 3))
case("l1_loss", t(2, 3), t(2, 3), 2)
case("smooth_l1_loss", t(2, 3), t(2, 3))
case("huber_loss", t(2, 3), t(2, 3), 1, 0.7)
case("kl_div", t(2, 3), prob(2, 3), 2)
case("binary_cross_entropy", prob(4), prob(4))
case("binary_cross_entropy_with_logits", t(4), prob(4))
case("soft_margin_loss", t(4), torch.tensor([1.0, -1, 1, -1], dtype=torch.float64))
case("hinge_embedding_loss", t(4), torch.tensor([1.0, -1, 1, -1], dtype=torch.float64))
case("margin_ranking_loss", t(4), t(4), torch.tensor([1.0, -1, 1, -1], dtype=torch.float64))
case("cosine_similarity", t(2, 3), t(2, 3))
case("cosine_embedding_loss", t(2, 3), t(2, 3), torch.tensor([1.0, -1], dtype=torch.float64))
case("pairwise_distance", t(2, 3), t(2, 3))
case("triplet_margin_loss", t(2, 3), t(2, 3), t(2, 3))
case("scaled_dot_product_attention", t(1, 2, 3, 4), t(1, 2, 3, 4), t(1, 2, 3, 4), None, 0.0, True)
case("dropout", t(2, 3), 0.5, False)
case("conv1d", t(1, 2, 6), t(3, 2, 3), t(3), [1], [1])
case("conv2d", t(1, 2, 5, 5), t(3, 2, 3, 3))
case("avg_pool1d", t(1, 2, 6), 2)
case("max_pool2d", t(1, 2, 4, 4), [2, 2])
case("pixel_shuffle", t(1, 4, 2, 2), 2)

case("zeros", [2, 3])
case("ones", [2], dtype=torch.int64)
case("full", [2, 2], 1.5, dtype=torch.float64)
case("arange", 5)
case("arange", 1, 2, 0.25)
case("linspace", 0, 1, 5)
case("eye", 3)
case("zeros_like", t(2, 3))
case("full_like", t(2, 3), 4)
case("new_ones", t(2), [3])
case("tril_indices", 3, 3)
case("scalar_tensor", 2.5)
case("result_type", t(2), ints(2))
case("item", torch.tensor(3.5))
case("is_floating_point", t(2))
case("_foreach_add", [t(2), t(3)], 1)
case("_foreach_mul", [t(2), t(3)], [t(2), t(3)])

here = os.path.dirname(os.path.abspath(__file__))
save_file(tensors, os.path.join(here, "operators.safetensors"))
with open(os.path.join(here, "operators.json"), "w", encoding="utf-8") as file:
    file.write("[\n" + ",\n".join(json.dumps(c) for c in cases) + "\n]\n")
print(len(cases), "cases,", len({c["name"] for c in cases}), "operators")
