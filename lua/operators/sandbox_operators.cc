#include "lua/operators/sandbox_operators.h"

#include <iterator>

namespace moonring::lua {
namespace {

constexpr absl::string_view kAllowed[] = {
    // clang-format off
    // Elementwise, with an in-place variant.
    "abs", "abs_", "acos", "acos_", "acosh", "acosh_", "add", "add_", "addcdiv", "addcdiv_",
    "addcmul", "addcmul_", "asin", "asin_", "asinh", "asinh_", "atan", "atan_", "atan2",
    "atan2_", "atanh", "atanh_", "bitwise_and", "bitwise_and_", "bitwise_not", "bitwise_not_",
    "bitwise_or", "bitwise_or_", "bitwise_xor", "bitwise_xor_", "ceil", "ceil_", "celu",
    "celu_", "clamp", "clamp_", "clamp_max", "clamp_max_", "clamp_min", "clamp_min_",
    "copysign", "copysign_", "cos", "cos_", "cosh", "cosh_", "deg2rad", "deg2rad_", "digamma",
    "digamma_", "div", "div_", "elu", "elu_", "eq", "eq_", "erf", "erf_", "erfc", "erfc_",
    "erfinv", "erfinv_", "exp", "exp_", "exp2", "exp2_", "expm1", "expm1_", "float_power",
    "float_power_", "floor", "floor_", "floor_divide", "floor_divide_", "fmod", "fmod_", "frac",
    "frac_", "ge", "ge_", "gt", "gt_", "hardsigmoid", "hardsigmoid_", "hardswish", "hardswish_",
    "hardtanh", "hardtanh_", "heaviside", "heaviside_", "hypot", "hypot_", "i0", "i0_", "le",
    "le_", "leaky_relu", "leaky_relu_", "lerp", "lerp_", "lgamma", "lgamma_", "log", "log_",
    "log10", "log10_", "log1p", "log1p_", "log2", "log2_", "logical_and", "logical_and_",
    "logical_not", "logical_not_", "logical_or", "logical_or_", "logical_xor", "logical_xor_",
    "logit", "logit_", "lt", "lt_", "masked_fill", "masked_fill_", "mish", "mish_", "mul",
    "mul_", "nan_to_num", "nan_to_num_", "ne", "ne_", "neg", "neg_", "nextafter", "nextafter_",
    "pow", "pow_", "rad2deg", "rad2deg_", "reciprocal", "reciprocal_", "relu", "relu_", "relu6",
    "relu6_", "remainder", "remainder_", "round", "round_", "rsqrt", "rsqrt_", "selu", "selu_",
    "sgn", "sgn_", "sigmoid", "sigmoid_", "sign", "sign_", "silu", "silu_", "sin", "sin_",
    "sinc", "sinc_", "sinh", "sinh_", "sqrt", "sqrt_", "square", "square_", "sub", "sub_",
    "tan", "tan_", "tanh", "tanh_", "threshold", "threshold_", "tril", "tril_", "triu", "triu_",
    "trunc", "trunc_", "xlogy", "xlogy_",
    // Elementwise.
    "angle", "fmax", "fmin", "gelu", "glu", "hardshrink", "isclose", "isfinite", "isinf",
    "isnan", "isneginf", "isposinf", "isreal", "log_sigmoid", "logaddexp", "logaddexp2",
    "maximum", "minimum", "positive", "prelu", "rsub", "signbit", "softplus", "softshrink",
    "special_entr", "special_erfcx", "special_expit", "special_i0e", "special_i1",
    "special_i1e", "special_log_ndtr", "special_ndtr", "special_ndtri", "special_xlog1py",
    "special_zeta", "where", "isin", "bucketize",
    // Reductions and scans.
    "all", "allclose", "amax", "amin", "aminmax", "any", "argmax", "argmin", "argsort",
    "argwhere", "bincount", "count_nonzero", "cummax", "cummin", "cumprod", "cumsum", "diff",
    "equal", "histc", "kthvalue", "logcumsumexp", "logsumexp", "max", "mean", "median", "min",
    "mode", "msort", "nanmean", "nanmedian", "nanquantile", "nansum", "nonzero", "norm", "prod",
    "quantile", "searchsorted", "sort", "std", "std_mean", "sum", "sum_to_size", "topk",
    "trapezoid", "unique_consecutive", "var", "var_mean",
    // Shapes.
    "atleast_1d", "atleast_2d", "atleast_3d", "block_diag", "broadcast_tensors", "broadcast_to",
    "cat", "chunk", "clone", "column_stack", "concat", "constant_pad_nd", "contiguous",
    "detach", "diag", "diag_embed", "diagflat", "diagonal", "dsplit", "dstack", "expand",
    "expand_as", "flatten", "flip", "fliplr", "flipud", "hsplit", "hstack", "mT", "meshgrid",
    "moveaxis", "movedim", "narrow", "pad", "pad_sequence", "permute", "ravel", "repeat_",
    "repeat_interleave", "reshape", "reshape_as", "roll", "rot90", "select", "size", "slice",
    "split", "split_with_sizes", "squeeze", "squeeze_", "stack", "stride", "swapaxes",
    "swapdims", "t", "tile", "trace", "transpose", "type_as", "unbind",
    "unflatten", "unfold", "unsqueeze", "unsqueeze_", "view", "view_as", "vsplit", "vstack",
    // Indexing.
    "embedding", "gather", "index", "index_add", "index_add_", "index_copy", "index_copy_",
    "index_fill", "index_fill_", "index_put", "index_put_", "index_select", "masked_scatter",
    "masked_select", "one_hot", "put", "scatter", "scatter_", "scatter_add", "scatter_add_",
    "scatter_reduce", "select_scatter", "slice_scatter", "diagonal_scatter", "take",
    "take_along_dim", "tril_indices", "triu_indices",
    // Products and matrices.
    "addbmm", "addmm", "addmv", "addr", "baddbmm", "bmm", "cdist", "chain_matmul", "cov",
    "cross", "corrcoef", "dot", "einsum", "inner", "kron", "linalg_cholesky", "linalg_cross",
    "linalg_det", "linalg_eigh", "linalg_inv", "linalg_matmul", "linalg_matrix_norm",
    "linalg_matrix_power", "linalg_norm", "linalg_qr", "linalg_slogdet", "linalg_solve",
    "linalg_svd", "linalg_svdvals", "linalg_vecdot", "linalg_vector_norm", "linear", "matmul",
    "matrix_exp", "mm", "mv", "outer", "tensordot", "vander", "vdot",
    // Neural network functions.
    "binary_cross_entropy", "binary_cross_entropy_with_logits", "cosine_embedding_loss",
    "cosine_similarity", "cross_entropy_loss", "dropout", "group_norm", "hinge_embedding_loss",
    "huber_loss", "kl_div", "l1_loss", "layer_norm", "log_softmax", "margin_ranking_loss",
    "mse_loss", "nll_loss", "pairwise_distance", "rms_norm", "scaled_dot_product_attention",
    "smooth_l1_loss", "soft_margin_loss", "softmax", "triplet_margin_loss",
    // Tensor creation, and random numbers.
    "arange", "bernoulli", "bernoulli_", "copy_", "exponential_", "eye", "fill_", "full",
    "full_like", "linspace", "logspace", "multinomial", "new_full", "new_ones", "new_zeros",
    "normal", "normal_", "ones", "ones_like", "rand", "rand_like", "randint", "randint_like",
    "randn", "randn_like", "randperm", "scalar_tensor", "uniform_", "zero_", "zeros",
    "zeros_like",
    // Gradients and properties.
    "is_complex", "is_floating_point", "is_leaf", "is_nonzero", "is_same_size", "is_signed",
    "item", "promote_types", "requires_grad_", "result_type", "retain_grad",
    // clang-format on
};

}  // namespace

std::vector<absl::string_view> SandboxOperators() {
  return {std::begin(kAllowed), std::end(kAllowed)};
}

}  // namespace moonring::lua
