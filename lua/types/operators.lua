---@meta moonring.native.operators

--- All operators of LibTorch, by their names without "aten::": `moonring.ops.NAME(...)`, and
--- `x:NAME(...)` if the first argument is a tensor.
---
--- Arguments have the order of the schema; those after `*` are given by name, in a table at the
--- end: `ops.sum(x, 0, { keepdim = true })`. nil means None if the schema has a `?`, otherwise the
--- default. Lua numbers convert to int, float and Scalar, and tables to lists (if sizes are the
--- only argument they may be given one by one: `x:view(2, 3)`). dtypes, devices and the like are
--- strings; a Generator is given by a seed. Operators with several results return several values.
--- An operator whose name ends in `_` modifies its object and returns it; `out = z` writes into z.
--- `repeat` is named `repeat_`, because it is a keyword of Lua.
---@class moonring.operators
---@field ops table<string, function> the operators by name
local operators = {}

--- Names of all operators, including private ones.
---@return string[]
function operators.names() end

--- The schemas of an operator, as LibTorch prints them. Errors: INVALID_ARGUMENT for an unknown
--- name, with the nearest one.
---@param name string
---@return string[]
function operators.schemas(name) end

--- The number of callable names and overloads, and of overloads that are not callable, by the type
--- of value that Lua cannot represent.
---@return { names: integer, overloads: integer, left_out: table<string, integer> }
function operators.count() end

--- Operators as methods of tensors. Made by docs/operator_types.lua from LibTorch's schemas.
---@class moonring.TensorOperators
local TensorOperators = {}

--- abs.
---     abs(Tensor self) -> Tensor
---@param ... any
---@return any ...
function TensorOperators:abs(...) end

--- abs_.
---     abs_(Tensor(a!) self) -> Tensor(a!)
---@param ... any
---@return any ...
function TensorOperators:abs_(...) end

--- absolute.
---     absolute(Tensor self) -> Tensor
---@param ... any
---@return any ...
function TensorOperators:absolute(...) end

--- absolute_.
---     absolute_(Tensor(a!) self) -> Tensor(a!)
---@param ... any
---@return any ...
function TensorOperators:absolute_(...) end

--- acos.
---     acos(Tensor self) -> Tensor
---@param ... any
---@return any ...
function TensorOperators:acos(...) end

--- acos_.
---     acos_(Tensor(a!) self) -> Tensor(a!)
---@param ... any
---@return any ...
function TensorOperators:acos_(...) end

--- acosh.
---     acosh(Tensor self) -> Tensor
---@param ... any
---@return any ...
function TensorOperators:acosh(...) end

--- acosh_.
---     acosh_(Tensor(a!) self) -> Tensor(a!)
---@param ... any
---@return any ...
function TensorOperators:acosh_(...) end

--- adaptive_avg_pool1d.
---     adaptive_avg_pool1d(Tensor self, int[1] output_size) -> Tensor
---@param ... any
---@return any ...
function TensorOperators:adaptive_avg_pool1d(...) end

--- adaptive_avg_pool2d.
---     adaptive_avg_pool2d(Tensor self, SymInt[2] output_size) -> Tensor
---@param ... any
---@return any ...
function TensorOperators:adaptive_avg_pool2d(...) end

--- adaptive_avg_pool3d.
---     adaptive_avg_pool3d(Tensor self, SymInt[3] output_size) -> Tensor
---@param ... any
---@return any ...
function TensorOperators:adaptive_avg_pool3d(...) end

--- adaptive_avg_pool3d_backward.
---     adaptive_avg_pool3d_backward.grad_input(Tensor grad_output, Tensor self, *, Tensor(a!)
---       grad_input) -> Tensor(a!)
---@param ... any
---@return any ...
function TensorOperators:adaptive_avg_pool3d_backward(...) end

--- adaptive_max_pool1d.
---     adaptive_max_pool1d(Tensor self, int[1] output_size) -> (Tensor, Tensor)
---@param ... any
---@return any ...
function TensorOperators:adaptive_max_pool1d(...) end

--- adaptive_max_pool2d.
---     adaptive_max_pool2d(Tensor self, int[2] output_size) -> (Tensor, Tensor)
---@param ... any
---@return any ...
function TensorOperators:adaptive_max_pool2d(...) end

--- adaptive_max_pool2d_backward.
---     adaptive_max_pool2d_backward(Tensor grad_output, Tensor self, Tensor indices) -> Tensor
---     adaptive_max_pool2d_backward.grad_input(Tensor grad_output, Tensor self, Tensor indices, *,
---       Tensor(a!) grad_input) -> Tensor(a!)
---@param ... any
---@return any ...
function TensorOperators:adaptive_max_pool2d_backward(...) end

--- adaptive_max_pool3d.
---     adaptive_max_pool3d(Tensor self, int[3] output_size) -> (Tensor, Tensor)
---@param ... any
---@return any ...
function TensorOperators:adaptive_max_pool3d(...) end

--- adaptive_max_pool3d_backward.
---     adaptive_max_pool3d_backward(Tensor grad_output, Tensor self, Tensor indices) -> Tensor
---     adaptive_max_pool3d_backward.grad_input(Tensor grad_output, Tensor self, Tensor indices, *,
---       Tensor(a!) grad_input) -> Tensor(a!)
---@param ... any
---@return any ...
function TensorOperators:adaptive_max_pool3d_backward(...) end

--- add.
---     add.Scalar(Tensor self, Scalar other, Scalar alpha=1) -> Tensor
---     add.Tensor(Tensor self, Tensor other, *, Scalar alpha=1) -> Tensor
---@param ... any
---@return any ...
function TensorOperators:add(...) end

--- add_.
---     add_.Scalar(Tensor(a!) self, Scalar other, Scalar alpha=1) -> Tensor(a!)
---     add_.Tensor(Tensor(a!) self, Tensor other, *, Scalar alpha=1) -> Tensor(a!)
---@param ... any
---@return any ...
function TensorOperators:add_(...) end

--- addbmm.
---     addbmm(Tensor self, Tensor batch1, Tensor batch2, *, Scalar beta=1, Scalar alpha=1) ->
---       Tensor
---@param ... any
---@return any ...
function TensorOperators:addbmm(...) end

--- addbmm_.
---     addbmm_(Tensor(a!) self, Tensor batch1, Tensor batch2, *, Scalar beta=1, Scalar alpha=1) ->
---       Tensor(a!)
---@param ... any
---@return any ...
function TensorOperators:addbmm_(...) end

--- addcdiv.
---     addcdiv(Tensor self, Tensor tensor1, Tensor tensor2, *, Scalar value=1) -> Tensor
---@param ... any
---@return any ...
function TensorOperators:addcdiv(...) end

--- addcdiv_.
---     addcdiv_(Tensor(a!) self, Tensor tensor1, Tensor tensor2, *, Scalar value=1) -> Tensor(a!)
---@param ... any
---@return any ...
function TensorOperators:addcdiv_(...) end

--- addcmul.
---     addcmul(Tensor self, Tensor tensor1, Tensor tensor2, *, Scalar value=1) -> Tensor
---@param ... any
---@return any ...
function TensorOperators:addcmul(...) end

--- addcmul_.
---     addcmul_(Tensor(a!) self, Tensor tensor1, Tensor tensor2, *, Scalar value=1) -> Tensor(a!)
---@param ... any
---@return any ...
function TensorOperators:addcmul_(...) end

--- addmm.
---     addmm(Tensor self, Tensor mat1, Tensor mat2, *, Scalar beta=1, Scalar alpha=1) -> Tensor
---     addmm.dtype(Tensor self, Tensor mat1, Tensor mat2, ScalarType out_dtype, *, Scalar beta=1,
---       Scalar alpha=1) -> Tensor
---@param ... any
---@return any ...
function TensorOperators:addmm(...) end

--- addmm_.
---     addmm_(Tensor(a!) self, Tensor mat1, Tensor mat2, *, Scalar beta=1, Scalar alpha=1) ->
---       Tensor(a!)
---@param ... any
---@return any ...
function TensorOperators:addmm_(...) end

--- addmv.
---     addmv(Tensor self, Tensor mat, Tensor vec, *, Scalar beta=1, Scalar alpha=1) -> Tensor
---@param ... any
---@return any ...
function TensorOperators:addmv(...) end

--- addmv_.
---     addmv_(Tensor(a!) self, Tensor mat, Tensor vec, *, Scalar beta=1, Scalar alpha=1) ->
---       Tensor(a!)
---@param ... any
---@return any ...
function TensorOperators:addmv_(...) end

--- addr.
---     addr(Tensor self, Tensor vec1, Tensor vec2, *, Scalar beta=1, Scalar alpha=1) -> Tensor
---@param ... any
---@return any ...
function TensorOperators:addr(...) end

--- addr_.
---     addr_(Tensor(a!) self, Tensor vec1, Tensor vec2, *, Scalar beta=1, Scalar alpha=1) ->
---       Tensor(a!)
---@param ... any
---@return any ...
function TensorOperators:addr_(...) end

--- adjoint.
---     adjoint(Tensor(a) self) -> Tensor(a)
---@param ... any
---@return any ...
function TensorOperators:adjoint(...) end

--- affine_grid_generator.
---     affine_grid_generator(Tensor theta, SymInt[] size, bool align_corners) -> Tensor
---@param ... any
---@return any ...
function TensorOperators:affine_grid_generator(...) end

--- affine_grid_generator_backward.
---     affine_grid_generator_backward(Tensor grad, SymInt[] size, bool align_corners) -> Tensor
---@param ... any
---@return any ...
function TensorOperators:affine_grid_generator_backward(...) end

--- alias.
---     alias(Tensor(a) self) -> Tensor(a)
---@param ... any
---@return any ...
function TensorOperators:alias(...) end

--- alias_copy.
---     alias_copy(Tensor self) -> Tensor
---@param ... any
---@return any ...
function TensorOperators:alias_copy(...) end

--- align_as.
---     align_as(Tensor self, Tensor other) -> Tensor
---@param ... any
---@return any ...
function TensorOperators:align_as(...) end

--- all.
---     all(Tensor self) -> Tensor
---     all.dim(Tensor self, int dim, bool keepdim=False) -> Tensor
---     all.dims(Tensor self, int[]? dim=None, bool keepdim=False) -> Tensor
---@param ... any
---@return any ...
function TensorOperators:all(...) end

--- allclose.
---     allclose(Tensor self, Tensor other, float rtol=1.0000000000000001e-05, float atol=1e-08,
---       bool equal_nan=False) -> bool
---@param ... any
---@return any ...
function TensorOperators:allclose(...) end

--- alpha_dropout.
---     alpha_dropout(Tensor input, float p, bool train) -> Tensor
---@param ... any
---@return any ...
function TensorOperators:alpha_dropout(...) end

--- alpha_dropout_.
---     alpha_dropout_(Tensor(a!) self, float p, bool train) -> Tensor(a!)
---@param ... any
---@return any ...
function TensorOperators:alpha_dropout_(...) end

--- amax.
---     amax(Tensor self, int[1] dim=[], bool keepdim=False) -> Tensor
---@param ... any
---@return any ...
function TensorOperators:amax(...) end

--- amin.
---     amin(Tensor self, int[1] dim=[], bool keepdim=False) -> Tensor
---@param ... any
---@return any ...
function TensorOperators:amin(...) end

--- aminmax.
---     aminmax(Tensor self, *, int? dim=None, bool keepdim=False) -> (Tensor min, Tensor max)
---@param ... any
---@return any ...
function TensorOperators:aminmax(...) end

--- angle.
---     angle(Tensor self) -> Tensor
---@param ... any
---@return any ...
function TensorOperators:angle(...) end

--- any.
---     any(Tensor self) -> Tensor
---     any.dim(Tensor self, int dim, bool keepdim=False) -> Tensor
---     any.dims(Tensor self, int[]? dim=None, bool keepdim=False) -> Tensor
---@param ... any
---@return any ...
function TensorOperators:any(...) end

--- arccos.
---     arccos(Tensor self) -> Tensor
---@param ... any
---@return any ...
function TensorOperators:arccos(...) end

--- arccos_.
---     arccos_(Tensor(a!) self) -> Tensor(a!)
---@param ... any
---@return any ...
function TensorOperators:arccos_(...) end

--- arccosh.
---     arccosh(Tensor self) -> Tensor
---@param ... any
---@return any ...
function TensorOperators:arccosh(...) end

--- arccosh_.
---     arccosh_(Tensor(a!) self) -> Tensor(a!)
---@param ... any
---@return any ...
function TensorOperators:arccosh_(...) end

--- arcsin.
---     arcsin(Tensor self) -> Tensor
---@param ... any
---@return any ...
function TensorOperators:arcsin(...) end

--- arcsin_.
---     arcsin_(Tensor(a!) self) -> Tensor(a!)
---@param ... any
---@return any ...
function TensorOperators:arcsin_(...) end

--- arcsinh.
---     arcsinh(Tensor self) -> Tensor
---@param ... any
---@return any ...
function TensorOperators:arcsinh(...) end

--- arcsinh_.
---     arcsinh_(Tensor(a!) self) -> Tensor(a!)
---@param ... any
---@return any ...
function TensorOperators:arcsinh_(...) end

--- arctan.
---     arctan(Tensor self) -> Tensor
---@param ... any
---@return any ...
function TensorOperators:arctan(...) end

--- arctan2.
---     arctan2(Tensor self, Tensor other) -> Tensor
---@param ... any
---@return any ...
function TensorOperators:arctan2(...) end

--- arctan2_.
---     arctan2_(Tensor(a!) self, Tensor other) -> Tensor(a!)
---@param ... any
---@return any ...
function TensorOperators:arctan2_(...) end

--- arctan_.
---     arctan_(Tensor(a!) self) -> Tensor(a!)
---@param ... any
---@return any ...
function TensorOperators:arctan_(...) end

--- arctanh.
---     arctanh(Tensor self) -> Tensor
---@param ... any
---@return any ...
function TensorOperators:arctanh(...) end

--- arctanh_.
---     arctanh_(Tensor(a!) self) -> Tensor(a!)
---@param ... any
---@return any ...
function TensorOperators:arctanh_(...) end

--- argmax.
---     argmax(Tensor self, int? dim=None, bool keepdim=False) -> Tensor
---@param ... any
---@return any ...
function TensorOperators:argmax(...) end

--- argmin.
---     argmin(Tensor self, int? dim=None, bool keepdim=False) -> Tensor
---@param ... any
---@return any ...
function TensorOperators:argmin(...) end

--- argsort.
---     argsort(Tensor self, int dim=-1, bool descending=False) -> Tensor
---     argsort.stable(Tensor self, *, bool stable, int dim=-1, bool descending=False) -> Tensor
---@param ... any
---@return any ...
function TensorOperators:argsort(...) end

--- argwhere.
---     argwhere(Tensor self) -> Tensor
---@param ... any
---@return any ...
function TensorOperators:argwhere(...) end

--- as_strided.
---     as_strided(Tensor(a) self, SymInt[] size, SymInt[] stride, SymInt? storage_offset=None) ->
---       Tensor(a)
---@param ... any
---@return any ...
function TensorOperators:as_strided(...) end

--- as_strided_.
---     as_strided_(Tensor(a!) self, SymInt[] size, SymInt[] stride, SymInt? storage_offset=None) ->
---       Tensor(a!)
---@param ... any
---@return any ...
function TensorOperators:as_strided_(...) end

--- as_strided_copy.
---     as_strided_copy(Tensor self, SymInt[] size, SymInt[] stride, SymInt? storage_offset=None) ->
---       Tensor
---@param ... any
---@return any ...
function TensorOperators:as_strided_copy(...) end

--- as_strided_scatter.
---     as_strided_scatter(Tensor self, Tensor src, SymInt[] size, SymInt[] stride, SymInt?
---       storage_offset=None) -> Tensor
---@param ... any
---@return any ...
function TensorOperators:as_strided_scatter(...) end

--- asin.
---     asin(Tensor self) -> Tensor
---@param ... any
---@return any ...
function TensorOperators:asin(...) end

--- asin_.
---     asin_(Tensor(a!) self) -> Tensor(a!)
---@param ... any
---@return any ...
function TensorOperators:asin_(...) end

--- asinh.
---     asinh(Tensor self) -> Tensor
---@param ... any
---@return any ...
function TensorOperators:asinh(...) end

--- asinh_.
---     asinh_(Tensor(a!) self) -> Tensor(a!)
---@param ... any
---@return any ...
function TensorOperators:asinh_(...) end

--- atan.
---     atan(Tensor self) -> Tensor
---@param ... any
---@return any ...
function TensorOperators:atan(...) end

--- atan2.
---     atan2(Tensor self, Tensor other) -> Tensor
---@param ... any
---@return any ...
function TensorOperators:atan2(...) end

--- atan2_.
---     atan2_(Tensor(a!) self, Tensor other) -> Tensor(a!)
---@param ... any
---@return any ...
function TensorOperators:atan2_(...) end

--- atan_.
---     atan_(Tensor(a!) self) -> Tensor(a!)
---@param ... any
---@return any ...
function TensorOperators:atan_(...) end

--- atanh.
---     atanh(Tensor self) -> Tensor
---@param ... any
---@return any ...
function TensorOperators:atanh(...) end

--- atanh_.
---     atanh_(Tensor(a!) self) -> Tensor(a!)
---@param ... any
---@return any ...
function TensorOperators:atanh_(...) end

--- atleast_1d.
---     atleast_1d(Tensor self) -> Tensor
---     atleast_1d.Sequence(Tensor[] tensors) -> Tensor[]
---@param ... any
---@return any ...
function TensorOperators:atleast_1d(...) end

--- atleast_2d.
---     atleast_2d(Tensor self) -> Tensor
---     atleast_2d.Sequence(Tensor[] tensors) -> Tensor[]
---@param ... any
---@return any ...
function TensorOperators:atleast_2d(...) end

--- atleast_3d.
---     atleast_3d(Tensor self) -> Tensor
---     atleast_3d.Sequence(Tensor[] tensors) -> Tensor[]
---@param ... any
---@return any ...
function TensorOperators:atleast_3d(...) end

--- avg_pool1d.
---     avg_pool1d(Tensor self, int[1] kernel_size, int[1] stride=[], int[1] padding=[0], bool
---       ceil_mode=False, bool count_include_pad=True) -> Tensor
---@param ... any
---@return any ...
function TensorOperators:avg_pool1d(...) end

--- avg_pool2d.
---     avg_pool2d(Tensor self, int[2] kernel_size, int[2] stride=[], int[2] padding=0, bool
---       ceil_mode=False, bool count_include_pad=True, int? divisor_override=None) -> Tensor
---@param ... any
---@return any ...
function TensorOperators:avg_pool2d(...) end

--- avg_pool2d_backward.
---     avg_pool2d_backward(Tensor grad_output, Tensor self, int[2] kernel_size, int[2] stride,
---       int[2] padding, bool ceil_mode, bool count_include_pad, int? divisor_override) -> Tensor
---     avg_pool2d_backward.grad_input(Tensor grad_output, Tensor self, int[2] kernel_size, int[2]
---       stride, int[2] padding, bool ceil_mode, bool count_include_pad, int? divisor_override, *,
---       Tensor(a!) grad_input) -> Tensor(a!)
---@param ... any
---@return any ...
function TensorOperators:avg_pool2d_backward(...) end

--- avg_pool3d.
---     avg_pool3d(Tensor self, int[3] kernel_size, int[3] stride=[], int[3] padding=0, bool
---       ceil_mode=False, bool count_include_pad=True, int? divisor_override=None) -> Tensor
---@param ... any
---@return any ...
function TensorOperators:avg_pool3d(...) end

--- avg_pool3d_backward.
---     avg_pool3d_backward(Tensor grad_output, Tensor self, int[3] kernel_size, int[3] stride,
---       int[3] padding, bool ceil_mode, bool count_include_pad, int? divisor_override) -> Tensor
---     avg_pool3d_backward.grad_input(Tensor grad_output, Tensor self, int[3] kernel_size, int[3]
---       stride, int[3] padding, bool ceil_mode, bool count_include_pad, int? divisor_override, *,
---       Tensor(a!) grad_input) -> Tensor(a!)
---@param ... any
---@return any ...
function TensorOperators:avg_pool3d_backward(...) end

--- baddbmm.
---     baddbmm(Tensor self, Tensor batch1, Tensor batch2, *, Scalar beta=1, Scalar alpha=1) ->
---       Tensor
---     baddbmm.dtype(Tensor self, Tensor batch1, Tensor batch2, ScalarType out_dtype, *, Scalar
---       beta=1, Scalar alpha=1) -> Tensor
---@param ... any
---@return any ...
function TensorOperators:baddbmm(...) end

--- baddbmm_.
---     baddbmm_(Tensor(a!) self, Tensor batch1, Tensor batch2, *, Scalar beta=1, Scalar alpha=1) ->
---       Tensor(a!)
---@param ... any
---@return any ...
function TensorOperators:baddbmm_(...) end

--- batch_norm.
---     batch_norm(Tensor input, Tensor? weight, Tensor? bias, Tensor? running_mean, Tensor?
---       running_var, bool training, float momentum, float eps, bool cudnn_enabled) -> Tensor
---@param ... any
---@return any ...
function TensorOperators:batch_norm(...) end

--- batch_norm_backward.
---     batch_norm_backward(Tensor grad_out, Tensor input, Tensor weight, Tensor? running_mean,
---       Tensor? running_var, Tensor? save_mean, Tensor? save_var, bool update, float eps, bool[3]
---       output_mask, Tensor reserve) -> (Tensor, Tensor, Tensor)
---@param ... any
---@return any ...
function TensorOperators:batch_norm_backward(...) end

--- batch_norm_backward_elemt.
---     batch_norm_backward_elemt(Tensor grad_out, Tensor input, Tensor mean, Tensor invstd, Tensor?
---       weight, Tensor sum_dy, Tensor sum_dy_xmu, Tensor count) -> Tensor
---@param ... any
---@return any ...
function TensorOperators:batch_norm_backward_elemt(...) end

--- batch_norm_backward_reduce.
---     batch_norm_backward_reduce(Tensor grad_out, Tensor input, Tensor mean, Tensor invstd,
---       Tensor? weight, bool input_g, bool weight_g, bool bias_g) -> (Tensor, Tensor, Tensor,
---       Tensor)
---@param ... any
---@return any ...
function TensorOperators:batch_norm_backward_reduce(...) end

--- batch_norm_elemt.
---     batch_norm_elemt(Tensor input, Tensor? weight, Tensor? bias, Tensor mean, Tensor invstd,
---       float eps) -> Tensor
---@param ... any
---@return any ...
function TensorOperators:batch_norm_elemt(...) end

--- batch_norm_gather_stats.
---     batch_norm_gather_stats(Tensor input, Tensor mean, Tensor invstd, Tensor? running_mean,
---       Tensor? running_var, float momentum, float eps, int count) -> (Tensor, Tensor)
---@param ... any
---@return any ...
function TensorOperators:batch_norm_gather_stats(...) end

--- batch_norm_gather_stats_with_counts.
---     batch_norm_gather_stats_with_counts(Tensor input, Tensor mean, Tensor invstd, Tensor?
---       running_mean, Tensor? running_var, float momentum, float eps, Tensor counts) -> (Tensor,
---       Tensor)
---@param ... any
---@return any ...
function TensorOperators:batch_norm_gather_stats_with_counts(...) end

--- batch_norm_stats.
---     batch_norm_stats(Tensor input, float eps) -> (Tensor, Tensor)
---@param ... any
---@return any ...
function TensorOperators:batch_norm_stats(...) end

--- batch_norm_update_stats.
---     batch_norm_update_stats(Tensor input, Tensor? running_mean, Tensor? running_var, float
---       momentum) -> (Tensor, Tensor)
---@param ... any
---@return any ...
function TensorOperators:batch_norm_update_stats(...) end

--- bernoulli.
---     bernoulli(Tensor self, *, Generator? generator=None) -> Tensor
---     bernoulli.Tensor(Tensor self, Tensor p, *, Generator? generator=None) -> Tensor
---     bernoulli.p(Tensor self, float p, *, Generator? generator=None) -> Tensor
---@param ... any
---@return any ...
function TensorOperators:bernoulli(...) end

--- bernoulli_.
---     bernoulli_.Tensor(Tensor(a!) self, Tensor p, *, Generator? generator=None) -> Tensor(a!)
---     bernoulli_.float(Tensor(a!) self, float p=0.5, *, Generator? generator=None) -> Tensor(a!)
---@param ... any
---@return any ...
function TensorOperators:bernoulli_(...) end

--- bilinear.
---     bilinear(Tensor input1, Tensor input2, Tensor weight, Tensor? bias=None) -> Tensor
---@param ... any
---@return any ...
function TensorOperators:bilinear(...) end

--- binary_cross_entropy.
---     binary_cross_entropy(Tensor self, Tensor target, Tensor? weight=None, int reduction=1) ->
---       Tensor
---@param ... any
---@return any ...
function TensorOperators:binary_cross_entropy(...) end

--- binary_cross_entropy_backward.
---     binary_cross_entropy_backward(Tensor grad_output, Tensor self, Tensor target, Tensor?
---       weight=None, int reduction=1) -> Tensor
---     binary_cross_entropy_backward.grad_input(Tensor grad_output, Tensor self, Tensor target,
---       Tensor? weight=None, int reduction=1, *, Tensor(a!) grad_input) -> Tensor(a!)
---@param ... any
---@return any ...
function TensorOperators:binary_cross_entropy_backward(...) end

--- binary_cross_entropy_with_logits.
---     binary_cross_entropy_with_logits(Tensor self, Tensor target, Tensor? weight=None, Tensor?
---       pos_weight=None, int reduction=1) -> Tensor
---@param ... any
---@return any ...
function TensorOperators:binary_cross_entropy_with_logits(...) end

--- bincount.
---     bincount(Tensor self, Tensor? weights=None, SymInt minlength=0) -> Tensor
---@param ... any
---@return any ...
function TensorOperators:bincount(...) end

--- binomial.
---     binomial(Tensor count, Tensor prob, Generator? generator=None) -> Tensor
---@param ... any
---@return any ...
function TensorOperators:binomial(...) end

--- bitwise_and.
---     bitwise_and.Scalar(Tensor self, Scalar other) -> Tensor
---     bitwise_and.Scalar_Tensor(Scalar self, Tensor other) -> Tensor
---     bitwise_and.Tensor(Tensor self, Tensor other) -> Tensor
---@param ... any
---@return any ...
function TensorOperators:bitwise_and(...) end

--- bitwise_and_.
---     bitwise_and_.Scalar(Tensor(a!) self, Scalar other) -> Tensor(a!)
---     bitwise_and_.Tensor(Tensor(a!) self, Tensor other) -> Tensor(a!)
---@param ... any
---@return any ...
function TensorOperators:bitwise_and_(...) end

--- bitwise_left_shift_.
---     bitwise_left_shift_.Tensor(Tensor(a!) self, Tensor other) -> Tensor(a!)
---     bitwise_left_shift_.Tensor_Scalar(Tensor(a!) self, Scalar other) -> Tensor(a!)
---@param ... any
---@return any ...
function TensorOperators:bitwise_left_shift_(...) end

--- bitwise_not.
---     bitwise_not(Tensor self) -> Tensor
---@param ... any
---@return any ...
function TensorOperators:bitwise_not(...) end

--- bitwise_not_.
---     bitwise_not_(Tensor(a!) self) -> Tensor(a!)
---@param ... any
---@return any ...
function TensorOperators:bitwise_not_(...) end

--- bitwise_or.
---     bitwise_or.Scalar(Tensor self, Scalar other) -> Tensor
---     bitwise_or.Scalar_Tensor(Scalar self, Tensor other) -> Tensor
---     bitwise_or.Tensor(Tensor self, Tensor other) -> Tensor
---@param ... any
---@return any ...
function TensorOperators:bitwise_or(...) end

--- bitwise_or_.
---     bitwise_or_.Scalar(Tensor(a!) self, Scalar other) -> Tensor(a!)
---     bitwise_or_.Tensor(Tensor(a!) self, Tensor other) -> Tensor(a!)
---@param ... any
---@return any ...
function TensorOperators:bitwise_or_(...) end

--- bitwise_right_shift_.
---     bitwise_right_shift_.Tensor(Tensor(a!) self, Tensor other) -> Tensor(a!)
---     bitwise_right_shift_.Tensor_Scalar(Tensor(a!) self, Scalar other) -> Tensor(a!)
---@param ... any
---@return any ...
function TensorOperators:bitwise_right_shift_(...) end

--- bitwise_xor.
---     bitwise_xor.Scalar(Tensor self, Scalar other) -> Tensor
---     bitwise_xor.Scalar_Tensor(Scalar self, Tensor other) -> Tensor
---     bitwise_xor.Tensor(Tensor self, Tensor other) -> Tensor
---@param ... any
---@return any ...
function TensorOperators:bitwise_xor(...) end

--- bitwise_xor_.
---     bitwise_xor_.Scalar(Tensor(a!) self, Scalar other) -> Tensor(a!)
---     bitwise_xor_.Tensor(Tensor(a!) self, Tensor other) -> Tensor(a!)
---@param ... any
---@return any ...
function TensorOperators:bitwise_xor_(...) end

--- bmm.
---     bmm(Tensor self, Tensor mat2) -> Tensor
---     bmm.dtype(Tensor self, Tensor mat2, ScalarType out_dtype) -> Tensor
---@param ... any
---@return any ...
function TensorOperators:bmm(...) end

--- broadcast_to.
---     broadcast_to(Tensor(a) self, SymInt[] size) -> Tensor(a)
---@param ... any
---@return any ...
function TensorOperators:broadcast_to(...) end

--- cauchy.
---     cauchy(Tensor self, float median=0., float sigma=1., *, Generator? generator=None) -> Tensor
---@param ... any
---@return any ...
function TensorOperators:cauchy(...) end

--- cauchy_.
---     cauchy_(Tensor(a!) self, float median=0., float sigma=1., *, Generator? generator=None) ->
---       Tensor(a!)
---@param ... any
---@return any ...
function TensorOperators:cauchy_(...) end

--- ccol_indices.
---     ccol_indices(Tensor(a) self) -> Tensor(a)
---@param ... any
---@return any ...
function TensorOperators:ccol_indices(...) end

--- ccol_indices_copy.
---     ccol_indices_copy(Tensor self) -> Tensor
---@param ... any
---@return any ...
function TensorOperators:ccol_indices_copy(...) end

--- cdist.
---     cdist(Tensor x1, Tensor x2, float p=2., int? compute_mode=None) -> Tensor
---@param ... any
---@return any ...
function TensorOperators:cdist(...) end

--- ceil.
---     ceil(Tensor self) -> Tensor
---@param ... any
---@return any ...
function TensorOperators:ceil(...) end

--- ceil_.
---     ceil_(Tensor(a!) self) -> Tensor(a!)
---@param ... any
---@return any ...
function TensorOperators:ceil_(...) end

--- celu.
---     celu(Tensor self, Scalar alpha=1.) -> Tensor
---@param ... any
---@return any ...
function TensorOperators:celu(...) end

--- celu_.
---     celu_(Tensor(a!) self, Scalar alpha=1.) -> Tensor(a!)
---@param ... any
---@return any ...
function TensorOperators:celu_(...) end

--- chalf.
---     chalf(Tensor self, *, MemoryFormat? memory_format=None) -> Tensor
---@param ... any
---@return any ...
function TensorOperators:chalf(...) end

--- channel_shuffle.
---     channel_shuffle(Tensor self, SymInt groups) -> Tensor
---@param ... any
---@return any ...
function TensorOperators:channel_shuffle(...) end

--- cholesky.
---     cholesky(Tensor self, bool upper=False) -> Tensor
---@param ... any
---@return any ...
function TensorOperators:cholesky(...) end

--- cholesky_inverse.
---     cholesky_inverse(Tensor self, bool upper=False) -> Tensor
---@param ... any
---@return any ...
function TensorOperators:cholesky_inverse(...) end

--- cholesky_solve.
---     cholesky_solve(Tensor self, Tensor input2, bool upper=False) -> Tensor
---@param ... any
---@return any ...
function TensorOperators:cholesky_solve(...) end

--- choose_qparams_optimized.
---     choose_qparams_optimized(Tensor input, int numel, int n_bins, float ratio, int bit_width) ->
---       (Tensor, Tensor)
---@param ... any
---@return any ...
function TensorOperators:choose_qparams_optimized(...) end

--- chunk.
---     chunk(Tensor(a -> *) self, int chunks, int dim=0) -> Tensor(a)[]
---@param ... any
---@return any ...
function TensorOperators:chunk(...) end

--- clamp.
---     clamp(Tensor self, Scalar? min=None, Scalar? max=None) -> Tensor
---     clamp.Tensor(Tensor self, Tensor? min=None, Tensor? max=None) -> Tensor
---@param ... any
---@return any ...
function TensorOperators:clamp(...) end

--- clamp_.
---     clamp_(Tensor(a!) self, Scalar? min=None, Scalar? max=None) -> Tensor(a!)
---     clamp_.Tensor(Tensor(a!) self, Tensor? min=None, Tensor? max=None) -> Tensor(a!)
---@param ... any
---@return any ...
function TensorOperators:clamp_(...) end

--- clamp_max.
---     clamp_max(Tensor self, Scalar max) -> Tensor
---     clamp_max.Tensor(Tensor self, Tensor max) -> Tensor
---@param ... any
---@return any ...
function TensorOperators:clamp_max(...) end

--- clamp_max_.
---     clamp_max_(Tensor(a!) self, Scalar max) -> Tensor(a!)
---     clamp_max_.Tensor(Tensor(a!) self, Tensor max) -> Tensor(a!)
---@param ... any
---@return any ...
function TensorOperators:clamp_max_(...) end

--- clamp_min.
---     clamp_min(Tensor self, Scalar min) -> Tensor
---     clamp_min.Tensor(Tensor self, Tensor min) -> Tensor
---@param ... any
---@return any ...
function TensorOperators:clamp_min(...) end

--- clamp_min_.
---     clamp_min_(Tensor(a!) self, Scalar min) -> Tensor(a!)
---     clamp_min_.Tensor(Tensor(a!) self, Tensor min) -> Tensor(a!)
---@param ... any
---@return any ...
function TensorOperators:clamp_min_(...) end

--- clip.
---     clip(Tensor self, Scalar? min=None, Scalar? max=None) -> Tensor
---     clip.Tensor(Tensor self, Tensor? min=None, Tensor? max=None) -> Tensor
---@param ... any
---@return any ...
function TensorOperators:clip(...) end

--- clip_.
---     clip_(Tensor(a!) self, Scalar? min=None, Scalar? max=None) -> Tensor(a!)
---     clip_.Tensor(Tensor(a!) self, Tensor? min=None, Tensor? max=None) -> Tensor(a!)
---@param ... any
---@return any ...
function TensorOperators:clip_(...) end

--- clone.
---     clone(Tensor self, *, MemoryFormat? memory_format=None) -> Tensor
---@param ... any
---@return any ...
function TensorOperators:clone(...) end

--- coalesce.
---     coalesce(Tensor(a) self) -> Tensor(a)
---@param ... any
---@return any ...
function TensorOperators:coalesce(...) end

--- col2im.
---     col2im(Tensor self, SymInt[2] output_size, int[2] kernel_size, int[2] dilation, int[2]
---       padding, int[2] stride) -> Tensor
---@param ... any
---@return any ...
function TensorOperators:col2im(...) end

--- col_indices.
---     col_indices(Tensor(a) self) -> Tensor(a)
---@param ... any
---@return any ...
function TensorOperators:col_indices(...) end

--- col_indices_copy.
---     col_indices_copy(Tensor self) -> Tensor
---@param ... any
---@return any ...
function TensorOperators:col_indices_copy(...) end

--- combinations.
---     combinations(Tensor self, int r=2, bool with_replacement=False) -> Tensor
---@param ... any
---@return any ...
function TensorOperators:combinations(...) end

--- complex.
---     complex(Tensor real, Tensor imag) -> Tensor
---@param ... any
---@return any ...
function TensorOperators:complex(...) end

--- conj.
---     conj(Tensor(a) self) -> Tensor(a)
---@param ... any
---@return any ...
function TensorOperators:conj(...) end

--- conj_physical.
---     conj_physical(Tensor self) -> Tensor
---@param ... any
---@return any ...
function TensorOperators:conj_physical(...) end

--- conj_physical_.
---     conj_physical_(Tensor(a!) self) -> Tensor(a!)
---@param ... any
---@return any ...
function TensorOperators:conj_physical_(...) end

--- constant_pad_nd.
---     constant_pad_nd(Tensor self, SymInt[] pad, Scalar value=0) -> Tensor
---@param ... any
---@return any ...
function TensorOperators:constant_pad_nd(...) end

--- contiguous.
---     contiguous(Tensor(a) self, *, MemoryFormat memory_format=0) -> Tensor(a)
---@param ... any
---@return any ...
function TensorOperators:contiguous(...) end

--- conv1d.
---     conv1d(Tensor input, Tensor weight, Tensor? bias=None, SymInt[1] stride=[1], SymInt[1]
---       padding=[0], SymInt[1] dilation=[1], SymInt groups=1) -> Tensor
---     conv1d.padding(Tensor input, Tensor weight, Tensor? bias=None, SymInt[1] stride=[1], str
---       padding="valid", SymInt[1] dilation=[1], SymInt groups=1) -> Tensor
---@param ... any
---@return any ...
function TensorOperators:conv1d(...) end

--- conv2d.
---     conv2d(Tensor input, Tensor weight, Tensor? bias=None, SymInt[2] stride=[1, 1], SymInt[2]
---       padding=[0, 0], SymInt[2] dilation=[1, 1], SymInt groups=1) -> Tensor
---     conv2d.padding(Tensor input, Tensor weight, Tensor? bias=None, SymInt[2] stride=[1, 1], str
---       padding="valid", SymInt[2] dilation=[1, 1], SymInt groups=1) -> Tensor
---@param ... any
---@return any ...
function TensorOperators:conv2d(...) end

--- conv3d.
---     conv3d(Tensor input, Tensor weight, Tensor? bias=None, SymInt[3] stride=[1, 1, 1], SymInt[3]
---       padding=[0, 0, 0], SymInt[3] dilation=[1, 1, 1], SymInt groups=1) -> Tensor
---     conv3d.padding(Tensor input, Tensor weight, Tensor? bias=None, SymInt[3] stride=[1, 1, 1],
---       str padding="valid", SymInt[3] dilation=[1, 1, 1], SymInt groups=1) -> Tensor
---@param ... any
---@return any ...
function TensorOperators:conv3d(...) end

--- conv_depthwise3d.
---     conv_depthwise3d(Tensor self, Tensor weight, SymInt[3] kernel_size, Tensor? bias, SymInt[3]
---       stride, SymInt[3] padding, SymInt[3] dilation) -> Tensor
---@param ... any
---@return any ...
function TensorOperators:conv_depthwise3d(...) end

--- conv_tbc.
---     conv_tbc(Tensor self, Tensor weight, Tensor bias, int pad=0) -> Tensor
---@param ... any
---@return any ...
function TensorOperators:conv_tbc(...) end

--- conv_tbc_backward.
---     conv_tbc_backward(Tensor self, Tensor input, Tensor weight, Tensor bias, int pad) ->
---       (Tensor, Tensor, Tensor)
---@param ... any
---@return any ...
function TensorOperators:conv_tbc_backward(...) end

--- conv_transpose1d.
---     conv_transpose1d(Tensor input, Tensor weight, Tensor? bias=None, SymInt[1] stride=[1],
---       SymInt[1] padding=[0], SymInt[1] output_padding=[0], SymInt groups=1, SymInt[1]
---       dilation=[1]) -> Tensor
---@param ... any
---@return any ...
function TensorOperators:conv_transpose1d(...) end

--- conv_transpose2d.
---     conv_transpose2d.input(Tensor input, Tensor weight, Tensor? bias=None, SymInt[2] stride=[1,
---       1], SymInt[2] padding=[0, 0], SymInt[2] output_padding=[0, 0], SymInt groups=1, SymInt[2]
---       dilation=[1, 1]) -> Tensor
---@param ... any
---@return any ...
function TensorOperators:conv_transpose2d(...) end

--- conv_transpose3d.
---     conv_transpose3d.input(Tensor input, Tensor weight, Tensor? bias=None, SymInt[3] stride=[1,
---       1, 1], SymInt[3] padding=[0, 0, 0], SymInt[3] output_padding=[0, 0, 0], SymInt groups=1,
---       SymInt[3] dilation=[1, 1, 1]) -> Tensor
---@param ... any
---@return any ...
function TensorOperators:conv_transpose3d(...) end

--- convolution.
---     convolution(Tensor input, Tensor weight, Tensor? bias, SymInt[] stride, SymInt[] padding,
---       SymInt[] dilation, bool transposed, SymInt[] output_padding, SymInt groups) -> Tensor
---@param ... any
---@return any ...
function TensorOperators:convolution(...) end

--- convolution_backward.
---     convolution_backward(Tensor grad_output, Tensor input, Tensor weight, SymInt[]? bias_sizes,
---       SymInt[] stride, SymInt[] padding, SymInt[] dilation, bool transposed, SymInt[]
---       output_padding, SymInt groups, bool[3] output_mask) -> (Tensor, Tensor, Tensor)
---@param ... any
---@return any ...
function TensorOperators:convolution_backward(...) end

--- convolution_backward_overrideable.
---     convolution_backward_overrideable(Tensor grad_output, Tensor input, Tensor weight, SymInt[]
---       stride, SymInt[] padding, SymInt[] dilation, bool transposed, SymInt[] output_padding,
---       SymInt groups, bool[3] output_mask) -> (Tensor grad_input, Tensor grad_weight, Tensor
---       grad_bias)
---@param ... any
---@return any ...
function TensorOperators:convolution_backward_overrideable(...) end

--- convolution_overrideable.
---     convolution_overrideable(Tensor input, Tensor weight, Tensor? bias, SymInt[] stride,
---       SymInt[] padding, SymInt[] dilation, bool transposed, SymInt[] output_padding, SymInt
---       groups) -> Tensor
---@param ... any
---@return any ...
function TensorOperators:convolution_overrideable(...) end

--- copy.
---     copy(Tensor self, Tensor src, bool non_blocking=False) -> Tensor
---@param ... any
---@return any ...
function TensorOperators:copy(...) end

--- copy_.
---     copy_(Tensor(a!) self, Tensor src, bool non_blocking=False) -> Tensor(a!)
---@param ... any
---@return any ...
function TensorOperators:copy_(...) end

--- copy_sparse_to_sparse.
---     copy_sparse_to_sparse(Tensor self, Tensor src, bool non_blocking=False) -> Tensor
---@param ... any
---@return any ...
function TensorOperators:copy_sparse_to_sparse(...) end

--- copy_sparse_to_sparse_.
---     copy_sparse_to_sparse_(Tensor(a!) self, Tensor src, bool non_blocking=False) -> Tensor(a!)
---@param ... any
---@return any ...
function TensorOperators:copy_sparse_to_sparse_(...) end

--- copysign.
---     copysign.Scalar(Tensor self, Scalar other) -> Tensor
---     copysign.Tensor(Tensor self, Tensor other) -> Tensor
---@param ... any
---@return any ...
function TensorOperators:copysign(...) end

--- copysign_.
---     copysign_.Scalar(Tensor(a!) self, Scalar other) -> Tensor(a!)
---     copysign_.Tensor(Tensor(a!) self, Tensor other) -> Tensor(a!)
---@param ... any
---@return any ...
function TensorOperators:copysign_(...) end

--- corrcoef.
---     corrcoef(Tensor self) -> Tensor
---@param ... any
---@return any ...
function TensorOperators:corrcoef(...) end

--- cos.
---     cos(Tensor self) -> Tensor
---@param ... any
---@return any ...
function TensorOperators:cos(...) end

--- cos_.
---     cos_(Tensor(a!) self) -> Tensor(a!)
---@param ... any
---@return any ...
function TensorOperators:cos_(...) end

--- cosh.
---     cosh(Tensor self) -> Tensor
---@param ... any
---@return any ...
function TensorOperators:cosh(...) end

--- cosh_.
---     cosh_(Tensor(a!) self) -> Tensor(a!)
---@param ... any
---@return any ...
function TensorOperators:cosh_(...) end

--- cosine_embedding_loss.
---     cosine_embedding_loss(Tensor input1, Tensor input2, Tensor target, float margin=0., int
---       reduction=1) -> Tensor
---@param ... any
---@return any ...
function TensorOperators:cosine_embedding_loss(...) end

--- cosine_similarity.
---     cosine_similarity(Tensor x1, Tensor x2, int dim=1, float eps=1e-08) -> Tensor
---@param ... any
---@return any ...
function TensorOperators:cosine_similarity(...) end

--- count_nonzero.
---     count_nonzero(Tensor self, int? dim=None) -> Tensor
---     count_nonzero.dim_IntList(Tensor self, int[] dim) -> Tensor
---@param ... any
---@return any ...
function TensorOperators:count_nonzero(...) end

--- cov.
---     cov(Tensor self, *, int correction=1, Tensor? fweights=None, Tensor? aweights=None) ->
---       Tensor
---@param ... any
---@return any ...
function TensorOperators:cov(...) end

--- cross.
---     cross(Tensor self, Tensor other, int? dim=None) -> Tensor
---@param ... any
---@return any ...
function TensorOperators:cross(...) end

--- cross_entropy_loss.
---     cross_entropy_loss(Tensor self, Tensor target, Tensor? weight=None, int reduction=1, SymInt
---       ignore_index=-100, float label_smoothing=0.) -> Tensor
---@param ... any
---@return any ...
function TensorOperators:cross_entropy_loss(...) end

--- crow_indices.
---     crow_indices(Tensor(a) self) -> Tensor(a)
---@param ... any
---@return any ...
function TensorOperators:crow_indices(...) end

--- crow_indices_copy.
---     crow_indices_copy(Tensor self) -> Tensor
---@param ... any
---@return any ...
function TensorOperators:crow_indices_copy(...) end

--- ctc_loss.
---     ctc_loss.IntList(Tensor log_probs, Tensor targets, int[] input_lengths, int[]
---       target_lengths, int blank=0, int reduction=1, bool zero_infinity=False) -> Tensor
---     ctc_loss.Tensor(Tensor log_probs, Tensor targets, Tensor input_lengths, Tensor
---       target_lengths, int blank=0, int reduction=1, bool zero_infinity=False) -> Tensor
---@param ... any
---@return any ...
function TensorOperators:ctc_loss(...) end

--- cudnn_affine_grid_generator.
---     cudnn_affine_grid_generator(Tensor theta, int N, int C, int H, int W) -> Tensor grid
---@param ... any
---@return any ...
function TensorOperators:cudnn_affine_grid_generator(...) end

--- cudnn_affine_grid_generator_backward.
---     cudnn_affine_grid_generator_backward(Tensor grad, int N, int C, int H, int W) -> Tensor
---       grad_theta
---@param ... any
---@return any ...
function TensorOperators:cudnn_affine_grid_generator_backward(...) end

--- cudnn_batch_norm.
---     cudnn_batch_norm(Tensor input, Tensor weight, Tensor? bias, Tensor? running_mean, Tensor?
---       running_var, bool training, float exponential_average_factor, float epsilon) -> (Tensor,
---       Tensor, Tensor, Tensor)
---@param ... any
---@return any ...
function TensorOperators:cudnn_batch_norm(...) end

--- cudnn_batch_norm_backward.
---     cudnn_batch_norm_backward(Tensor input, Tensor grad_output, Tensor weight, Tensor?
---       running_mean, Tensor? running_var, Tensor? save_mean, Tensor? save_var, float epsilon,
---       Tensor reserveSpace) -> (Tensor, Tensor, Tensor)
---@param ... any
---@return any ...
function TensorOperators:cudnn_batch_norm_backward(...) end

--- cudnn_convolution.
---     cudnn_convolution(Tensor self, Tensor weight, SymInt[] padding, SymInt[] stride, SymInt[]
---       dilation, SymInt groups, bool benchmark, bool deterministic, bool allow_tf32) -> Tensor
---@param ... any
---@return any ...
function TensorOperators:cudnn_convolution(...) end

--- cudnn_convolution_add_relu.
---     cudnn_convolution_add_relu(Tensor self, Tensor weight, Tensor z, Scalar? alpha, Tensor?
---       bias, SymInt[] stride, SymInt[] padding, SymInt[] dilation, SymInt groups) -> Tensor
---@param ... any
---@return any ...
function TensorOperators:cudnn_convolution_add_relu(...) end

--- cudnn_convolution_relu.
---     cudnn_convolution_relu(Tensor self, Tensor weight, Tensor? bias, SymInt[] stride, SymInt[]
---       padding, SymInt[] dilation, SymInt groups) -> Tensor
---@param ... any
---@return any ...
function TensorOperators:cudnn_convolution_relu(...) end

--- cudnn_convolution_transpose.
---     cudnn_convolution_transpose(Tensor self, Tensor weight, SymInt[] padding, SymInt[]
---       output_padding, SymInt[] stride, SymInt[] dilation, SymInt groups, bool benchmark, bool
---       deterministic, bool allow_tf32) -> Tensor
---@param ... any
---@return any ...
function TensorOperators:cudnn_convolution_transpose(...) end

--- cudnn_grid_sampler.
---     cudnn_grid_sampler(Tensor self, Tensor grid) -> Tensor output
---@param ... any
---@return any ...
function TensorOperators:cudnn_grid_sampler(...) end

--- cudnn_grid_sampler_backward.
---     cudnn_grid_sampler_backward(Tensor self, Tensor grid, Tensor grad_output) -> (Tensor
---       grad_self, Tensor grad_grid)
---@param ... any
---@return any ...
function TensorOperators:cudnn_grid_sampler_backward(...) end

--- cudnn_is_acceptable.
---     cudnn_is_acceptable(Tensor self) -> bool
---@param ... any
---@return any ...
function TensorOperators:cudnn_is_acceptable(...) end

--- cummax.
---     cummax(Tensor self, int dim) -> (Tensor values, Tensor indices)
---@param ... any
---@return any ...
function TensorOperators:cummax(...) end

--- cummaxmin_backward.
---     cummaxmin_backward(Tensor grad, Tensor input, Tensor indices, int dim) -> Tensor
---@param ... any
---@return any ...
function TensorOperators:cummaxmin_backward(...) end

--- cummin.
---     cummin(Tensor self, int dim) -> (Tensor values, Tensor indices)
---@param ... any
---@return any ...
function TensorOperators:cummin(...) end

--- cumprod.
---     cumprod(Tensor self, int dim, *, ScalarType? dtype=None) -> Tensor
---@param ... any
---@return any ...
function TensorOperators:cumprod(...) end

--- cumprod_.
---     cumprod_(Tensor(a!) self, int dim, *, ScalarType? dtype=None) -> Tensor(a!)
---@param ... any
---@return any ...
function TensorOperators:cumprod_(...) end

--- cumprod_backward.
---     cumprod_backward(Tensor grad, Tensor input, int dim, Tensor output) -> Tensor
---@param ... any
---@return any ...
function TensorOperators:cumprod_backward(...) end

--- cumsum.
---     cumsum(Tensor self, int dim, *, ScalarType? dtype=None) -> Tensor
---@param ... any
---@return any ...
function TensorOperators:cumsum(...) end

--- cumsum_.
---     cumsum_(Tensor(a!) self, int dim, *, ScalarType? dtype=None) -> Tensor(a!)
---@param ... any
---@return any ...
function TensorOperators:cumsum_(...) end

--- cumulative_trapezoid.
---     cumulative_trapezoid.dx(Tensor y, *, Scalar dx=1, int dim=-1) -> Tensor
---     cumulative_trapezoid.x(Tensor y, Tensor x, *, int dim=-1) -> Tensor
---@param ... any
---@return any ...
function TensorOperators:cumulative_trapezoid(...) end

--- data.
---     data(Tensor self) -> Tensor
---@param ... any
---@return any ...
function TensorOperators:data(...) end

--- deg2rad.
---     deg2rad(Tensor self) -> Tensor
---@param ... any
---@return any ...
function TensorOperators:deg2rad(...) end

--- deg2rad_.
---     deg2rad_(Tensor(a!) self) -> Tensor(a!)
---@param ... any
---@return any ...
function TensorOperators:deg2rad_(...) end

--- dense_dim.
---     dense_dim(Tensor self) -> int
---@param ... any
---@return any ...
function TensorOperators:dense_dim(...) end

--- dequantize.
---     dequantize.self(Tensor self) -> Tensor
---     dequantize.tensors(Tensor[] tensors) -> Tensor[]
---     dequantize.tensors_out(Tensor[] tensors, *, Tensor(a!)[] out) -> ()
---@param ... any
---@return any ...
function TensorOperators:dequantize(...) end

--- det.
---     det(Tensor self) -> Tensor
---@param ... any
---@return any ...
function TensorOperators:det(...) end

--- detach.
---     detach(Tensor(a) self) -> Tensor(a)
---@param ... any
---@return any ...
function TensorOperators:detach(...) end

--- detach_.
---     detach_(Tensor(a!) self) -> Tensor(a!)
---@param ... any
---@return any ...
function TensorOperators:detach_(...) end

--- detach_copy.
---     detach_copy(Tensor self) -> Tensor
---@param ... any
---@return any ...
function TensorOperators:detach_copy(...) end

--- diag.
---     diag(Tensor self, int diagonal=0) -> Tensor
---@param ... any
---@return any ...
function TensorOperators:diag(...) end

--- diag_embed.
---     diag_embed(Tensor self, int offset=0, int dim1=-2, int dim2=-1) -> Tensor
---@param ... any
---@return any ...
function TensorOperators:diag_embed(...) end

--- diagflat.
---     diagflat(Tensor self, int offset=0) -> Tensor
---@param ... any
---@return any ...
function TensorOperators:diagflat(...) end

--- diagonal.
---     diagonal(Tensor(a) self, int offset=0, int dim1=0, int dim2=1) -> Tensor(a)
---@param ... any
---@return any ...
function TensorOperators:diagonal(...) end

--- diagonal_backward.
---     diagonal_backward(Tensor grad_output, SymInt[] input_sizes, int offset, int dim1, int dim2)
---       -> Tensor
---@param ... any
---@return any ...
function TensorOperators:diagonal_backward(...) end

--- diagonal_copy.
---     diagonal_copy(Tensor self, int offset=0, int dim1=0, int dim2=1) -> Tensor
---@param ... any
---@return any ...
function TensorOperators:diagonal_copy(...) end

--- diagonal_scatter.
---     diagonal_scatter(Tensor self, Tensor src, int offset=0, int dim1=0, int dim2=1) -> Tensor
---@param ... any
---@return any ...
function TensorOperators:diagonal_scatter(...) end

--- diff.
---     diff(Tensor self, int n=1, int dim=-1, Tensor? prepend=None, Tensor? append=None) -> Tensor
---@param ... any
---@return any ...
function TensorOperators:diff(...) end

--- digamma.
---     digamma(Tensor self) -> Tensor
---@param ... any
---@return any ...
function TensorOperators:digamma(...) end

--- digamma_.
---     digamma_(Tensor(a!) self) -> Tensor(a!)
---@param ... any
---@return any ...
function TensorOperators:digamma_(...) end

--- dist.
---     dist(Tensor self, Tensor other, Scalar p=2) -> Tensor
---@param ... any
---@return any ...
function TensorOperators:dist(...) end

--- div.
---     div.Scalar(Tensor self, Scalar other) -> Tensor
---     div.Tensor(Tensor self, Tensor other) -> Tensor
---     div.Scalar_mode(Tensor self, Scalar other, *, str? rounding_mode) -> Tensor
---     div.Tensor_mode(Tensor self, Tensor other, *, str? rounding_mode) -> Tensor
---@param ... any
---@return any ...
function TensorOperators:div(...) end

--- div_.
---     div_.Scalar(Tensor(a!) self, Scalar other) -> Tensor(a!)
---     div_.Tensor(Tensor(a!) self, Tensor other) -> Tensor(a!)
---     div_.Scalar_mode(Tensor(a!) self, Scalar other, *, str? rounding_mode) -> Tensor(a!)
---     div_.Tensor_mode(Tensor(a!) self, Tensor other, *, str? rounding_mode) -> Tensor(a!)
---@param ... any
---@return any ...
function TensorOperators:div_(...) end

--- divide.
---     divide.Scalar(Tensor self, Scalar other) -> Tensor
---     divide.Tensor(Tensor self, Tensor other) -> Tensor
---     divide.Scalar_mode(Tensor self, Scalar other, *, str? rounding_mode) -> Tensor
---     divide.Tensor_mode(Tensor self, Tensor other, *, str? rounding_mode) -> Tensor
---@param ... any
---@return any ...
function TensorOperators:divide(...) end

--- divide_.
---     divide_.Scalar(Tensor(a!) self, Scalar other) -> Tensor(a!)
---     divide_.Tensor(Tensor(a!) self, Tensor other) -> Tensor(a!)
---     divide_.Scalar_mode(Tensor(a!) self, Scalar other, *, str? rounding_mode) -> Tensor(a!)
---     divide_.Tensor_mode(Tensor(a!) self, Tensor other, *, str? rounding_mode) -> Tensor(a!)
---@param ... any
---@return any ...
function TensorOperators:divide_(...) end

--- dot.
---     dot(Tensor self, Tensor tensor) -> Tensor
---@param ... any
---@return any ...
function TensorOperators:dot(...) end

--- dropout.
---     dropout(Tensor input, float p, bool train) -> Tensor
---@param ... any
---@return any ...
function TensorOperators:dropout(...) end

--- dropout_.
---     dropout_(Tensor(a!) self, float p, bool train) -> Tensor(a!)
---@param ... any
---@return any ...
function TensorOperators:dropout_(...) end

--- dsplit.
---     dsplit.array(Tensor(a -> *) self, int[] indices) -> Tensor(a)[]
---     dsplit.int(Tensor(a -> *) self, int sections) -> Tensor(a)[]
---@param ... any
---@return any ...
function TensorOperators:dsplit(...) end

--- elu.
---     elu(Tensor self, Scalar alpha=1, Scalar scale=1, Scalar input_scale=1) -> Tensor
---@param ... any
---@return any ...
function TensorOperators:elu(...) end

--- elu_.
---     elu_(Tensor(a!) self, Scalar alpha=1, Scalar scale=1, Scalar input_scale=1) -> Tensor(a!)
---@param ... any
---@return any ...
function TensorOperators:elu_(...) end

--- elu_backward.
---     elu_backward(Tensor grad_output, Scalar alpha, Scalar scale, Scalar input_scale, bool
---       is_result, Tensor self_or_result) -> Tensor
---     elu_backward.grad_input(Tensor grad_output, Scalar alpha, Scalar scale, Scalar input_scale,
---       bool is_result, Tensor self_or_result, *, Tensor(a!) grad_input) -> Tensor(a!)
---@param ... any
---@return any ...
function TensorOperators:elu_backward(...) end

--- embedding.
---     embedding(Tensor weight, Tensor indices, SymInt padding_idx=-1, bool
---       scale_grad_by_freq=False, bool sparse=False) -> Tensor
---@param ... any
---@return any ...
function TensorOperators:embedding(...) end

--- embedding_backward.
---     embedding_backward(Tensor grad, Tensor indices, SymInt num_weights, SymInt padding_idx, bool
---       scale_grad_by_freq, bool sparse) -> Tensor
---@param ... any
---@return any ...
function TensorOperators:embedding_backward(...) end

--- embedding_bag.
---     embedding_bag(Tensor weight, Tensor indices, Tensor offsets, bool scale_grad_by_freq=False,
---       int mode=0, bool sparse=False, Tensor? per_sample_weights=None, bool
---       include_last_offset=False) -> (Tensor, Tensor, Tensor, Tensor)
---     embedding_bag.padding_idx(Tensor weight, Tensor indices, Tensor offsets, bool
---       scale_grad_by_freq, int mode, bool sparse, Tensor? per_sample_weights, bool
---       include_last_offset, int? padding_idx) -> (Tensor, Tensor, Tensor, Tensor)
---@param ... any
---@return any ...
function TensorOperators:embedding_bag(...) end

--- embedding_dense_backward.
---     embedding_dense_backward(Tensor grad_output, Tensor indices, SymInt num_weights, SymInt
---       padding_idx, bool scale_grad_by_freq) -> Tensor
---@param ... any
---@return any ...
function TensorOperators:embedding_dense_backward(...) end

--- embedding_renorm.
---     embedding_renorm(Tensor self, Tensor indices, float max_norm, float norm_type) -> Tensor
---@param ... any
---@return any ...
function TensorOperators:embedding_renorm(...) end

--- embedding_renorm_.
---     embedding_renorm_(Tensor(a!) self, Tensor indices, float max_norm, float norm_type) ->
---       Tensor(a!)
---@param ... any
---@return any ...
function TensorOperators:embedding_renorm_(...) end

--- embedding_sparse_backward.
---     embedding_sparse_backward(Tensor grad, Tensor indices, int num_weights, int padding_idx,
---       bool scale_grad_by_freq) -> Tensor
---@param ... any
---@return any ...
function TensorOperators:embedding_sparse_backward(...) end

--- empty_like.
---     empty_like(Tensor self, *, ScalarType? dtype=None, Layout? layout=None, Device? device=None,
---       bool? pin_memory=None, MemoryFormat? memory_format=None) -> Tensor
---@param ... any
---@return any ...
function TensorOperators:empty_like(...) end

--- eq.
---     eq.Scalar(Tensor self, Scalar other) -> Tensor
---     eq.Tensor(Tensor self, Tensor other) -> Tensor
---@param ... any
---@return any ...
function TensorOperators:eq(...) end

--- eq_.
---     eq_.Scalar(Tensor(a!) self, Scalar other) -> Tensor(a!)
---     eq_.Tensor(Tensor(a!) self, Tensor other) -> Tensor(a!)
---@param ... any
---@return any ...
function TensorOperators:eq_(...) end

--- equal.
---     equal(Tensor self, Tensor other) -> bool
---@param ... any
---@return any ...
function TensorOperators:equal(...) end

--- erf.
---     erf(Tensor self) -> Tensor
---@param ... any
---@return any ...
function TensorOperators:erf(...) end

--- erf_.
---     erf_(Tensor(a!) self) -> Tensor(a!)
---@param ... any
---@return any ...
function TensorOperators:erf_(...) end

--- erfc.
---     erfc(Tensor self) -> Tensor
---@param ... any
---@return any ...
function TensorOperators:erfc(...) end

--- erfc_.
---     erfc_(Tensor(a!) self) -> Tensor(a!)
---@param ... any
---@return any ...
function TensorOperators:erfc_(...) end

--- erfinv.
---     erfinv(Tensor self) -> Tensor
---@param ... any
---@return any ...
function TensorOperators:erfinv(...) end

--- erfinv_.
---     erfinv_(Tensor(a!) self) -> Tensor(a!)
---@param ... any
---@return any ...
function TensorOperators:erfinv_(...) end

--- exp.
---     exp(Tensor self) -> Tensor
---@param ... any
---@return any ...
function TensorOperators:exp(...) end

--- exp2.
---     exp2(Tensor self) -> Tensor
---@param ... any
---@return any ...
function TensorOperators:exp2(...) end

--- exp2_.
---     exp2_(Tensor(a!) self) -> Tensor(a!)
---@param ... any
---@return any ...
function TensorOperators:exp2_(...) end

--- exp_.
---     exp_(Tensor(a!) self) -> Tensor(a!)
---@param ... any
---@return any ...
function TensorOperators:exp_(...) end

--- expand.
---     expand(Tensor(a) self, SymInt[] size, *, bool implicit=False) -> Tensor(a)
---@param ... any
---@return any ...
function TensorOperators:expand(...) end

--- expand_as.
---     expand_as(Tensor(a) self, Tensor other) -> Tensor(a)
---@param ... any
---@return any ...
function TensorOperators:expand_as(...) end

--- expand_copy.
---     expand_copy(Tensor self, SymInt[] size, *, bool implicit=False) -> Tensor
---@param ... any
---@return any ...
function TensorOperators:expand_copy(...) end

--- expm1.
---     expm1(Tensor self) -> Tensor
---@param ... any
---@return any ...
function TensorOperators:expm1(...) end

--- expm1_.
---     expm1_(Tensor(a!) self) -> Tensor(a!)
---@param ... any
---@return any ...
function TensorOperators:expm1_(...) end

--- exponential.
---     exponential(Tensor self, float lambd=1., *, Generator? generator=None) -> Tensor
---@param ... any
---@return any ...
function TensorOperators:exponential(...) end

--- exponential_.
---     exponential_(Tensor(a!) self, float lambd=1., *, Generator? generator=None) -> Tensor(a!)
---@param ... any
---@return any ...
function TensorOperators:exponential_(...) end

--- fake_quantize_per_channel_affine.
---     fake_quantize_per_channel_affine(Tensor self, Tensor scale, Tensor zero_point, int axis, int
---       quant_min, int quant_max) -> Tensor
---@param ... any
---@return any ...
function TensorOperators:fake_quantize_per_channel_affine(...) end

--- fake_quantize_per_channel_affine_cachemask.
---     fake_quantize_per_channel_affine_cachemask(Tensor self, Tensor scale, Tensor zero_point, int
---       axis, int quant_min, int quant_max) -> (Tensor output, Tensor mask)
---@param ... any
---@return any ...
function TensorOperators:fake_quantize_per_channel_affine_cachemask(...) end

--- fake_quantize_per_channel_affine_cachemask_backward.
---     fake_quantize_per_channel_affine_cachemask_backward(Tensor grad, Tensor mask) -> Tensor
---@param ... any
---@return any ...
function TensorOperators:fake_quantize_per_channel_affine_cachemask_backward(...) end

--- fake_quantize_per_tensor_affine.
---     fake_quantize_per_tensor_affine(Tensor self, float scale, int zero_point, int quant_min, int
---       quant_max) -> Tensor
---     fake_quantize_per_tensor_affine.tensor_qparams(Tensor self, Tensor scale, Tensor zero_point,
---       int quant_min, int quant_max) -> Tensor
---@param ... any
---@return any ...
function TensorOperators:fake_quantize_per_tensor_affine(...) end

--- fake_quantize_per_tensor_affine_cachemask.
---     fake_quantize_per_tensor_affine_cachemask(Tensor self, float scale, int zero_point, int
---       quant_min, int quant_max) -> (Tensor output, Tensor mask)
---@param ... any
---@return any ...
function TensorOperators:fake_quantize_per_tensor_affine_cachemask(...) end

--- fake_quantize_per_tensor_affine_cachemask_backward.
---     fake_quantize_per_tensor_affine_cachemask_backward(Tensor grad, Tensor mask) -> Tensor
---@param ... any
---@return any ...
function TensorOperators:fake_quantize_per_tensor_affine_cachemask_backward(...) end

--- fbgemm_linear_fp16_weight.
---     fbgemm_linear_fp16_weight(Tensor input, Tensor packed_weight, Tensor bias) -> Tensor
---@param ... any
---@return any ...
function TensorOperators:fbgemm_linear_fp16_weight(...) end

--- fbgemm_linear_fp16_weight_fp32_activation.
---     fbgemm_linear_fp16_weight_fp32_activation(Tensor input, Tensor packed_weight, Tensor? bias)
---       -> Tensor
---@param ... any
---@return any ...
function TensorOperators:fbgemm_linear_fp16_weight_fp32_activation(...) end

--- fbgemm_linear_int8_weight.
---     fbgemm_linear_int8_weight(Tensor input, Tensor weight, Tensor packed, Tensor col_offsets,
---       Scalar weight_scale, Scalar weight_zero_point, Tensor bias) -> Tensor
---@param ... any
---@return any ...
function TensorOperators:fbgemm_linear_int8_weight(...) end

--- fbgemm_linear_int8_weight_fp32_activation.
---     fbgemm_linear_int8_weight_fp32_activation(Tensor input, Tensor weight, Tensor packed, Tensor
---       col_offsets, Scalar weight_scale, Scalar weight_zero_point, Tensor bias) -> Tensor
---@param ... any
---@return any ...
function TensorOperators:fbgemm_linear_int8_weight_fp32_activation(...) end

--- fbgemm_linear_quantize_weight.
---     fbgemm_linear_quantize_weight(Tensor input) -> (Tensor, Tensor, float, int)
---@param ... any
---@return any ...
function TensorOperators:fbgemm_linear_quantize_weight(...) end

--- fbgemm_pack_gemm_matrix_fp16.
---     fbgemm_pack_gemm_matrix_fp16(Tensor input) -> Tensor
---@param ... any
---@return any ...
function TensorOperators:fbgemm_pack_gemm_matrix_fp16(...) end

--- fbgemm_pack_quantized_matrix.
---     fbgemm_pack_quantized_matrix(Tensor input) -> Tensor
---     fbgemm_pack_quantized_matrix.KN(Tensor input, int K, int N) -> Tensor
---@param ... any
---@return any ...
function TensorOperators:fbgemm_pack_quantized_matrix(...) end

--- feature_alpha_dropout.
---     feature_alpha_dropout(Tensor input, float p, bool train) -> Tensor
---@param ... any
---@return any ...
function TensorOperators:feature_alpha_dropout(...) end

--- feature_alpha_dropout_.
---     feature_alpha_dropout_(Tensor(a!) self, float p, bool train) -> Tensor(a!)
---@param ... any
---@return any ...
function TensorOperators:feature_alpha_dropout_(...) end

--- feature_dropout.
---     feature_dropout(Tensor input, float p, bool train) -> Tensor
---@param ... any
---@return any ...
function TensorOperators:feature_dropout(...) end

--- feature_dropout_.
---     feature_dropout_(Tensor(a!) self, float p, bool train) -> Tensor(a!)
---@param ... any
---@return any ...
function TensorOperators:feature_dropout_(...) end

--- fft_fft.
---     fft_fft(Tensor self, SymInt? n=None, int dim=-1, str? norm=None) -> Tensor
---@param ... any
---@return any ...
function TensorOperators:fft_fft(...) end

--- fft_fft2.
---     fft_fft2(Tensor self, SymInt[1]? s=None, int[1] dim=[-2, -1], str? norm=None) -> Tensor
---@param ... any
---@return any ...
function TensorOperators:fft_fft2(...) end

--- fft_fftn.
---     fft_fftn(Tensor self, SymInt[1]? s=None, int[1]? dim=None, str? norm=None) -> Tensor
---@param ... any
---@return any ...
function TensorOperators:fft_fftn(...) end

--- fft_fftshift.
---     fft_fftshift(Tensor self, int[1]? dim=None) -> Tensor
---@param ... any
---@return any ...
function TensorOperators:fft_fftshift(...) end

--- fft_hfft.
---     fft_hfft(Tensor self, SymInt? n=None, int dim=-1, str? norm=None) -> Tensor
---@param ... any
---@return any ...
function TensorOperators:fft_hfft(...) end

--- fft_hfft2.
---     fft_hfft2(Tensor self, SymInt[1]? s=None, int[1] dim=[-2, -1], str? norm=None) -> Tensor
---@param ... any
---@return any ...
function TensorOperators:fft_hfft2(...) end

--- fft_hfftn.
---     fft_hfftn(Tensor self, SymInt[1]? s=None, int[1]? dim=None, str? norm=None) -> Tensor
---@param ... any
---@return any ...
function TensorOperators:fft_hfftn(...) end

--- fft_ifft.
---     fft_ifft(Tensor self, SymInt? n=None, int dim=-1, str? norm=None) -> Tensor
---@param ... any
---@return any ...
function TensorOperators:fft_ifft(...) end

--- fft_ifft2.
---     fft_ifft2(Tensor self, SymInt[1]? s=None, int[1] dim=[-2, -1], str? norm=None) -> Tensor
---@param ... any
---@return any ...
function TensorOperators:fft_ifft2(...) end

--- fft_ifftn.
---     fft_ifftn(Tensor self, SymInt[1]? s=None, int[1]? dim=None, str? norm=None) -> Tensor
---@param ... any
---@return any ...
function TensorOperators:fft_ifftn(...) end

--- fft_ifftshift.
---     fft_ifftshift(Tensor self, int[1]? dim=None) -> Tensor
---@param ... any
---@return any ...
function TensorOperators:fft_ifftshift(...) end

--- fft_ihfft.
---     fft_ihfft(Tensor self, SymInt? n=None, int dim=-1, str? norm=None) -> Tensor
---@param ... any
---@return any ...
function TensorOperators:fft_ihfft(...) end

--- fft_ihfft2.
---     fft_ihfft2(Tensor self, SymInt[1]? s=None, int[1] dim=[-2, -1], str? norm=None) -> Tensor
---@param ... any
---@return any ...
function TensorOperators:fft_ihfft2(...) end

--- fft_ihfftn.
---     fft_ihfftn(Tensor self, SymInt[1]? s=None, int[1]? dim=None, str? norm=None) -> Tensor
---@param ... any
---@return any ...
function TensorOperators:fft_ihfftn(...) end

--- fft_irfft.
---     fft_irfft(Tensor self, SymInt? n=None, int dim=-1, str? norm=None) -> Tensor
---@param ... any
---@return any ...
function TensorOperators:fft_irfft(...) end

--- fft_irfft2.
---     fft_irfft2(Tensor self, SymInt[1]? s=None, int[1] dim=[-2, -1], str? norm=None) -> Tensor
---@param ... any
---@return any ...
function TensorOperators:fft_irfft2(...) end

--- fft_irfftn.
---     fft_irfftn(Tensor self, SymInt[1]? s=None, int[1]? dim=None, str? norm=None) -> Tensor
---@param ... any
---@return any ...
function TensorOperators:fft_irfftn(...) end

--- fft_rfft.
---     fft_rfft(Tensor self, SymInt? n=None, int dim=-1, str? norm=None) -> Tensor
---@param ... any
---@return any ...
function TensorOperators:fft_rfft(...) end

--- fft_rfft2.
---     fft_rfft2(Tensor self, SymInt[1]? s=None, int[1] dim=[-2, -1], str? norm=None) -> Tensor
---@param ... any
---@return any ...
function TensorOperators:fft_rfft2(...) end

--- fft_rfftn.
---     fft_rfftn(Tensor self, SymInt[1]? s=None, int[1]? dim=None, str? norm=None) -> Tensor
---@param ... any
---@return any ...
function TensorOperators:fft_rfftn(...) end

--- fill.
---     fill.Scalar(Tensor self, Scalar value) -> Tensor
---     fill.Tensor(Tensor self, Tensor value) -> Tensor
---@param ... any
---@return any ...
function TensorOperators:fill(...) end

--- fill_.
---     fill_.Scalar(Tensor(a!) self, Scalar value) -> Tensor(a!)
---     fill_.Tensor(Tensor(a!) self, Tensor value) -> Tensor(a!)
---@param ... any
---@return any ...
function TensorOperators:fill_(...) end

--- fill_diagonal_.
---     fill_diagonal_(Tensor(a!) self, Scalar fill_value, bool wrap=False) -> Tensor(a!)
---@param ... any
---@return any ...
function TensorOperators:fill_diagonal_(...) end

--- fix.
---     fix(Tensor self) -> Tensor
---@param ... any
---@return any ...
function TensorOperators:fix(...) end

--- fix_.
---     fix_(Tensor(a!) self) -> Tensor(a!)
---@param ... any
---@return any ...
function TensorOperators:fix_(...) end

--- flatten.
---     flatten.using_ints(Tensor(a) self, int start_dim=0, int end_dim=-1) -> Tensor(a)
---@param ... any
---@return any ...
function TensorOperators:flatten(...) end

--- flip.
---     flip(Tensor self, int[] dims) -> Tensor
---@param ... any
---@return any ...
function TensorOperators:flip(...) end

--- fliplr.
---     fliplr(Tensor self) -> Tensor
---@param ... any
---@return any ...
function TensorOperators:fliplr(...) end

--- flipud.
---     flipud(Tensor self) -> Tensor
---@param ... any
---@return any ...
function TensorOperators:flipud(...) end

--- float_power_.
---     float_power_.Scalar(Tensor(a!) self, Scalar exponent) -> Tensor(a!)
---     float_power_.Tensor(Tensor(a!) self, Tensor exponent) -> Tensor(a!)
---@param ... any
---@return any ...
function TensorOperators:float_power_(...) end

--- floor.
---     floor(Tensor self) -> Tensor
---@param ... any
---@return any ...
function TensorOperators:floor(...) end

--- floor_.
---     floor_(Tensor(a!) self) -> Tensor(a!)
---@param ... any
---@return any ...
function TensorOperators:floor_(...) end

--- floor_divide.
---     floor_divide(Tensor self, Tensor other) -> Tensor
---     floor_divide.Scalar(Tensor self, Scalar other) -> Tensor
---@param ... any
---@return any ...
function TensorOperators:floor_divide(...) end

--- floor_divide_.
---     floor_divide_.Scalar(Tensor(a!) self, Scalar other) -> Tensor(a!)
---     floor_divide_.Tensor(Tensor(a!) self, Tensor other) -> Tensor(a!)
---@param ... any
---@return any ...
function TensorOperators:floor_divide_(...) end

--- fmax.
---     fmax(Tensor self, Tensor other) -> Tensor
---@param ... any
---@return any ...
function TensorOperators:fmax(...) end

--- fmin.
---     fmin(Tensor self, Tensor other) -> Tensor
---@param ... any
---@return any ...
function TensorOperators:fmin(...) end

--- fmod.
---     fmod.Scalar(Tensor self, Scalar other) -> Tensor
---     fmod.Tensor(Tensor self, Tensor other) -> Tensor
---@param ... any
---@return any ...
function TensorOperators:fmod(...) end

--- fmod_.
---     fmod_.Scalar(Tensor(a!) self, Scalar other) -> Tensor(a!)
---     fmod_.Tensor(Tensor(a!) self, Tensor other) -> Tensor(a!)
---@param ... any
---@return any ...
function TensorOperators:fmod_(...) end

--- frac.
---     frac(Tensor self) -> Tensor
---@param ... any
---@return any ...
function TensorOperators:frac(...) end

--- frac_.
---     frac_(Tensor(a!) self) -> Tensor(a!)
---@param ... any
---@return any ...
function TensorOperators:frac_(...) end

--- fractional_max_pool2d.
---     fractional_max_pool2d(Tensor self, int[2] kernel_size, int[2] output_size, Tensor
---       random_samples) -> (Tensor, Tensor)
---@param ... any
---@return any ...
function TensorOperators:fractional_max_pool2d(...) end

--- fractional_max_pool2d_backward.
---     fractional_max_pool2d_backward(Tensor grad_output, Tensor self, int[2] kernel_size, int[2]
---       output_size, Tensor indices) -> Tensor
---     fractional_max_pool2d_backward.grad_input(Tensor grad_output, Tensor self, int[2]
---       kernel_size, int[2] output_size, Tensor indices, *, Tensor(a!) grad_input) -> Tensor(a!)
---@param ... any
---@return any ...
function TensorOperators:fractional_max_pool2d_backward(...) end

--- fractional_max_pool3d.
---     fractional_max_pool3d(Tensor self, int[3] kernel_size, int[3] output_size, Tensor
---       random_samples) -> (Tensor, Tensor)
---@param ... any
---@return any ...
function TensorOperators:fractional_max_pool3d(...) end

--- fractional_max_pool3d_backward.
---     fractional_max_pool3d_backward(Tensor grad_output, Tensor self, int[3] kernel_size, int[3]
---       output_size, Tensor indices) -> Tensor
---     fractional_max_pool3d_backward.grad_input(Tensor grad_output, Tensor self, int[3]
---       kernel_size, int[3] output_size, Tensor indices, *, Tensor(a!) grad_input) -> Tensor(a!)
---@param ... any
---@return any ...
function TensorOperators:fractional_max_pool3d_backward(...) end

--- frexp.
---     frexp.Tensor(Tensor self) -> (Tensor mantissa, Tensor exponent)
---@param ... any
---@return any ...
function TensorOperators:frexp(...) end

--- frobenius_norm.
---     frobenius_norm.dim(Tensor self, int[1] dim, bool keepdim=False) -> Tensor
---@param ... any
---@return any ...
function TensorOperators:frobenius_norm(...) end

--- full_like.
---     full_like(Tensor self, Scalar fill_value, *, ScalarType? dtype=None, Layout? layout=None,
---       Device? device=None, bool? pin_memory=None, MemoryFormat? memory_format=None) -> Tensor
---@param ... any
---@return any ...
function TensorOperators:full_like(...) end

--- fused_moving_avg_obs_fake_quant.
---     fused_moving_avg_obs_fake_quant(Tensor self, Tensor observer_on, Tensor fake_quant_on,
---       Tensor(a!) running_min, Tensor(b!) running_max, Tensor(c!) scale, Tensor(d!) zero_point,
---       float averaging_const, int quant_min, int quant_max, int ch_axis, bool
---       per_row_fake_quant=False, bool symmetric_quant=False) -> Tensor
---@param ... any
---@return any ...
function TensorOperators:fused_moving_avg_obs_fake_quant(...) end

--- gather.
---     gather(Tensor self, int dim, Tensor index, *, bool sparse_grad=False) -> Tensor
---@param ... any
---@return any ...
function TensorOperators:gather(...) end

--- gather_backward.
---     gather_backward(Tensor grad, Tensor self, int dim, Tensor index, bool sparse_grad) -> Tensor
---@param ... any
---@return any ...
function TensorOperators:gather_backward(...) end

--- gcd.
---     gcd(Tensor self, Tensor other) -> Tensor
---@param ... any
---@return any ...
function TensorOperators:gcd(...) end

--- gcd_.
---     gcd_(Tensor(a!) self, Tensor other) -> Tensor(a!)
---@param ... any
---@return any ...
function TensorOperators:gcd_(...) end

--- ge.
---     ge.Scalar(Tensor self, Scalar other) -> Tensor
---     ge.Tensor(Tensor self, Tensor other) -> Tensor
---@param ... any
---@return any ...
function TensorOperators:ge(...) end

--- ge_.
---     ge_.Scalar(Tensor(a!) self, Scalar other) -> Tensor(a!)
---     ge_.Tensor(Tensor(a!) self, Tensor other) -> Tensor(a!)
---@param ... any
---@return any ...
function TensorOperators:ge_(...) end

--- gelu.
---     gelu(Tensor self, *, str approximate="none") -> Tensor
---@param ... any
---@return any ...
function TensorOperators:gelu(...) end

--- gelu_.
---     gelu_(Tensor(a!) self, *, str approximate="none") -> Tensor(a!)
---@param ... any
---@return any ...
function TensorOperators:gelu_(...) end

--- gelu_backward.
---     gelu_backward(Tensor grad_output, Tensor self, *, str approximate="none") -> Tensor
---     gelu_backward.grad_input(Tensor grad_output, Tensor self, *, str approximate="none",
---       Tensor(a!) grad_input) -> Tensor(a!)
---@param ... any
---@return any ...
function TensorOperators:gelu_backward(...) end

--- geometric.
---     geometric(Tensor self, float p, *, Generator? generator=None) -> Tensor
---@param ... any
---@return any ...
function TensorOperators:geometric(...) end

--- geometric_.
---     geometric_(Tensor(a!) self, float p, *, Generator? generator=None) -> Tensor(a!)
---@param ... any
---@return any ...
function TensorOperators:geometric_(...) end

--- geqrf.
---     geqrf(Tensor self) -> (Tensor a, Tensor tau)
---@param ... any
---@return any ...
function TensorOperators:geqrf(...) end

--- ger.
---     ger(Tensor self, Tensor vec2) -> Tensor
---@param ... any
---@return any ...
function TensorOperators:ger(...) end

--- glu.
---     glu(Tensor self, int dim=-1) -> Tensor
---@param ... any
---@return any ...
function TensorOperators:glu(...) end

--- glu_backward.
---     glu_backward(Tensor grad_output, Tensor self, int dim) -> Tensor
---     glu_backward.grad_input(Tensor grad_output, Tensor self, int dim, *, Tensor(a!) grad_input)
---       -> Tensor(a!)
---@param ... any
---@return any ...
function TensorOperators:glu_backward(...) end

--- glu_backward_jvp.
---     glu_backward_jvp(Tensor grad_x, Tensor grad_glu, Tensor x, Tensor dgrad_glu, Tensor dx, int
---       dim) -> Tensor
---@param ... any
---@return any ...
function TensorOperators:glu_backward_jvp(...) end

--- glu_jvp.
---     glu_jvp(Tensor glu, Tensor x, Tensor dx, int dim) -> Tensor
---@param ... any
---@return any ...
function TensorOperators:glu_jvp(...) end

--- gradient.
---     gradient.array(Tensor self, *, int[] dim, int edge_order=1) -> Tensor[]
---     gradient.scalararray(Tensor self, *, Scalar spacing, int[] dim, int edge_order=1) ->
---       Tensor[]
---     gradient.scalarint(Tensor self, *, Scalar? spacing=None, int? dim=None, int edge_order=1) ->
---       Tensor[]
---     gradient.scalarrayarray(Tensor self, *, Scalar[] spacing, int[] dim, int edge_order=1) ->
---       Tensor[]
---     gradient.scalarrayint(Tensor self, *, Scalar[] spacing, int? dim=None, int edge_order=1) ->
---       Tensor[]
---     gradient.tensorarray(Tensor self, *, Tensor[] spacing, int[] dim, int edge_order=1) ->
---       Tensor[]
---     gradient.tensorarrayint(Tensor self, *, Tensor[] spacing, int? dim=None, int edge_order=1)
---       -> Tensor[]
---@param ... any
---@return any ...
function TensorOperators:gradient(...) end

--- greater.
---     greater.Scalar(Tensor self, Scalar other) -> Tensor
---     greater.Tensor(Tensor self, Tensor other) -> Tensor
---@param ... any
---@return any ...
function TensorOperators:greater(...) end

--- greater_.
---     greater_.Scalar(Tensor(a!) self, Scalar other) -> Tensor(a!)
---     greater_.Tensor(Tensor(a!) self, Tensor other) -> Tensor(a!)
---@param ... any
---@return any ...
function TensorOperators:greater_(...) end

--- greater_equal.
---     greater_equal.Scalar(Tensor self, Scalar other) -> Tensor
---     greater_equal.Tensor(Tensor self, Tensor other) -> Tensor
---@param ... any
---@return any ...
function TensorOperators:greater_equal(...) end

--- greater_equal_.
---     greater_equal_.Scalar(Tensor(a!) self, Scalar other) -> Tensor(a!)
---     greater_equal_.Tensor(Tensor(a!) self, Tensor other) -> Tensor(a!)
---@param ... any
---@return any ...
function TensorOperators:greater_equal_(...) end

--- grid_sampler.
---     grid_sampler(Tensor input, Tensor grid, int interpolation_mode, int padding_mode, bool
---       align_corners) -> Tensor
---@param ... any
---@return any ...
function TensorOperators:grid_sampler(...) end

--- grid_sampler_2d.
---     grid_sampler_2d(Tensor input, Tensor grid, int interpolation_mode, int padding_mode, bool
---       align_corners) -> Tensor
---@param ... any
---@return any ...
function TensorOperators:grid_sampler_2d(...) end

--- grid_sampler_2d_backward.
---     grid_sampler_2d_backward(Tensor grad_output, Tensor input, Tensor grid, int
---       interpolation_mode, int padding_mode, bool align_corners, bool[2] output_mask) -> (Tensor,
---       Tensor)
---@param ... any
---@return any ...
function TensorOperators:grid_sampler_2d_backward(...) end

--- grid_sampler_3d.
---     grid_sampler_3d(Tensor input, Tensor grid, int interpolation_mode, int padding_mode, bool
---       align_corners) -> Tensor
---@param ... any
---@return any ...
function TensorOperators:grid_sampler_3d(...) end

--- grid_sampler_3d_backward.
---     grid_sampler_3d_backward(Tensor grad_output, Tensor input, Tensor grid, int
---       interpolation_mode, int padding_mode, bool align_corners, bool[2] output_mask) -> (Tensor,
---       Tensor)
---@param ... any
---@return any ...
function TensorOperators:grid_sampler_3d_backward(...) end

--- group_norm.
---     group_norm(Tensor input, int num_groups, Tensor? weight=None, Tensor? bias=None, float
---       eps=1.0000000000000001e-05, bool cudnn_enabled=True) -> Tensor
---@param ... any
---@return any ...
function TensorOperators:group_norm(...) end

--- gru.
---     gru.data(Tensor data, Tensor batch_sizes, Tensor hx, Tensor[] params, bool has_biases, int
---       num_layers, float dropout, bool train, bool bidirectional) -> (Tensor, Tensor)
---     gru.input(Tensor input, Tensor hx, Tensor[] params, bool has_biases, int num_layers, float
---       dropout, bool train, bool bidirectional, bool batch_first) -> (Tensor, Tensor)
---@param ... any
---@return any ...
function TensorOperators:gru(...) end

--- gru_cell.
---     gru_cell(Tensor input, Tensor hx, Tensor w_ih, Tensor w_hh, Tensor? b_ih=None, Tensor?
---       b_hh=None) -> Tensor
---@param ... any
---@return any ...
function TensorOperators:gru_cell(...) end

--- gt.
---     gt.Scalar(Tensor self, Scalar other) -> Tensor
---     gt.Tensor(Tensor self, Tensor other) -> Tensor
---@param ... any
---@return any ...
function TensorOperators:gt(...) end

--- gt_.
---     gt_.Scalar(Tensor(a!) self, Scalar other) -> Tensor(a!)
---     gt_.Tensor(Tensor(a!) self, Tensor other) -> Tensor(a!)
---@param ... any
---@return any ...
function TensorOperators:gt_(...) end

--- hardshrink.
---     hardshrink(Tensor self, Scalar lambd=0.5) -> Tensor
---@param ... any
---@return any ...
function TensorOperators:hardshrink(...) end

--- hardshrink_backward.
---     hardshrink_backward(Tensor grad_out, Tensor self, Scalar lambd) -> Tensor
---     hardshrink_backward.grad_input(Tensor grad_out, Tensor self, Scalar lambd, *, Tensor(a!)
---       grad_input) -> Tensor(a!)
---@param ... any
---@return any ...
function TensorOperators:hardshrink_backward(...) end

--- hardsigmoid.
---     hardsigmoid(Tensor self) -> Tensor
---@param ... any
---@return any ...
function TensorOperators:hardsigmoid(...) end

--- hardsigmoid_.
---     hardsigmoid_(Tensor(a!) self) -> Tensor(a!)
---@param ... any
---@return any ...
function TensorOperators:hardsigmoid_(...) end

--- hardsigmoid_backward.
---     hardsigmoid_backward(Tensor grad_output, Tensor self) -> Tensor
---     hardsigmoid_backward.grad_input(Tensor grad_output, Tensor self, *, Tensor(a!) grad_input)
---       -> Tensor(a!)
---@param ... any
---@return any ...
function TensorOperators:hardsigmoid_backward(...) end

--- hardswish.
---     hardswish(Tensor self) -> Tensor
---@param ... any
---@return any ...
function TensorOperators:hardswish(...) end

--- hardswish_.
---     hardswish_(Tensor(a!) self) -> Tensor(a!)
---@param ... any
---@return any ...
function TensorOperators:hardswish_(...) end

--- hardswish_backward.
---     hardswish_backward(Tensor grad_output, Tensor self) -> Tensor
---@param ... any
---@return any ...
function TensorOperators:hardswish_backward(...) end

--- hardtanh.
---     hardtanh(Tensor self, Scalar min_val=-1, Scalar max_val=1) -> Tensor
---@param ... any
---@return any ...
function TensorOperators:hardtanh(...) end

--- hardtanh_.
---     hardtanh_(Tensor(a!) self, Scalar min_val=-1, Scalar max_val=1) -> Tensor(a!)
---@param ... any
---@return any ...
function TensorOperators:hardtanh_(...) end

--- hardtanh_backward.
---     hardtanh_backward(Tensor grad_output, Tensor self, Scalar min_val, Scalar max_val) -> Tensor
---     hardtanh_backward.grad_input(Tensor grad_output, Tensor self, Scalar min_val, Scalar
---       max_val, *, Tensor(a!) grad_input) -> Tensor(a!)
---@param ... any
---@return any ...
function TensorOperators:hardtanh_backward(...) end

--- hash_tensor.
---     hash_tensor(Tensor self, int[1] dim=[], *, bool keepdim=False, int mode=0) -> Tensor
---@param ... any
---@return any ...
function TensorOperators:hash_tensor(...) end

--- heaviside.
---     heaviside(Tensor self, Tensor values) -> Tensor
---@param ... any
---@return any ...
function TensorOperators:heaviside(...) end

--- heaviside_.
---     heaviside_(Tensor(a!) self, Tensor values) -> Tensor(a!)
---@param ... any
---@return any ...
function TensorOperators:heaviside_(...) end

--- hinge_embedding_loss.
---     hinge_embedding_loss(Tensor self, Tensor target, float margin=1., int reduction=1) -> Tensor
---@param ... any
---@return any ...
function TensorOperators:hinge_embedding_loss(...) end

--- histc.
---     histc(Tensor self, int bins=100, Scalar min=0, Scalar max=0) -> Tensor
---@param ... any
---@return any ...
function TensorOperators:histc(...) end

--- histogram.
---     histogram.bins_tensor(Tensor self, Tensor bins, *, Tensor? weight=None, bool density=False)
---       -> (Tensor hist, Tensor bin_edges)
---     histogram.bin_ct(Tensor self, int bins=100, *, float[]? range=None, Tensor? weight=None,
---       bool density=False) -> (Tensor hist, Tensor bin_edges)
---     histogram.bins_tensor_out(Tensor self, Tensor bins, *, Tensor? weight=None, bool
---       density=False, Tensor(a!) hist, Tensor(b!) bin_edges) -> (Tensor(a!) hist, Tensor(b!)
---       bin_edges)
---     histogram.bin_ct_out(Tensor self, int bins=100, *, float[]? range=None, Tensor? weight=None,
---       bool density=False, Tensor(a!) hist, Tensor(b!) bin_edges) -> (Tensor(a!) hist, Tensor(b!)
---       bin_edges)
---@param ... any
---@return any ...
function TensorOperators:histogram(...) end

--- histogramdd.
---     histogramdd(Tensor self, int[] bins, float[]? range=None, Tensor? weight=None, bool
---       density=False) -> (Tensor hist, Tensor[] bin_edges)
---     histogramdd.TensorList_bins(Tensor self, Tensor[] bins, float[]? range=None, Tensor?
---       weight=None, bool density=False) -> (Tensor hist, Tensor[] bin_edges)
---     histogramdd.int_bins(Tensor self, int bins, float[]? range=None, Tensor? weight=None, bool
---       density=False) -> (Tensor hist, Tensor[] bin_edges)
---@param ... any
---@return any ...
function TensorOperators:histogramdd(...) end

--- hsplit.
---     hsplit.array(Tensor(a -> *) self, int[] indices) -> Tensor(a)[]
---     hsplit.int(Tensor(a -> *) self, int sections) -> Tensor(a)[]
---@param ... any
---@return any ...
function TensorOperators:hsplit(...) end

--- hspmm.
---     hspmm(Tensor mat1, Tensor mat2) -> Tensor
---@param ... any
---@return any ...
function TensorOperators:hspmm(...) end

--- huber_loss.
---     huber_loss(Tensor self, Tensor target, int reduction=1, float delta=1.) -> Tensor
---@param ... any
---@return any ...
function TensorOperators:huber_loss(...) end

--- huber_loss_backward.
---     huber_loss_backward(Tensor grad_output, Tensor self, Tensor target, int reduction, float
---       delta) -> Tensor
---     huber_loss_backward.out(Tensor grad_output, Tensor self, Tensor target, int reduction, float
---       delta, *, Tensor(a!) grad_input) -> Tensor(a!)
---@param ... any
---@return any ...
function TensorOperators:huber_loss_backward(...) end

--- hypot.
---     hypot(Tensor self, Tensor other) -> Tensor
---@param ... any
---@return any ...
function TensorOperators:hypot(...) end

--- hypot_.
---     hypot_(Tensor(a!) self, Tensor other) -> Tensor(a!)
---@param ... any
---@return any ...
function TensorOperators:hypot_(...) end

--- i0.
---     i0(Tensor self) -> Tensor
---@param ... any
---@return any ...
function TensorOperators:i0(...) end

--- i0_.
---     i0_(Tensor(a!) self) -> Tensor(a!)
---@param ... any
---@return any ...
function TensorOperators:i0_(...) end

--- igamma.
---     igamma(Tensor self, Tensor other) -> Tensor
---@param ... any
---@return any ...
function TensorOperators:igamma(...) end

--- igamma_.
---     igamma_(Tensor(a!) self, Tensor other) -> Tensor(a!)
---@param ... any
---@return any ...
function TensorOperators:igamma_(...) end

--- igammac.
---     igammac(Tensor self, Tensor other) -> Tensor
---@param ... any
---@return any ...
function TensorOperators:igammac(...) end

--- igammac_.
---     igammac_(Tensor(a!) self, Tensor other) -> Tensor(a!)
---@param ... any
---@return any ...
function TensorOperators:igammac_(...) end

--- im2col.
---     im2col(Tensor self, int[2] kernel_size, int[2] dilation, int[2] padding, int[2] stride) ->
---       Tensor
---@param ... any
---@return any ...
function TensorOperators:im2col(...) end

--- imag.
---     imag(Tensor(a) self) -> Tensor(a)
---@param ... any
---@return any ...
function TensorOperators:imag(...) end

--- index.
---     index.Tensor(Tensor self, Tensor?[] indices) -> Tensor
---@param ... any
---@return any ...
function TensorOperators:index(...) end

--- index_add.
---     index_add(Tensor self, int dim, Tensor index, Tensor source, *, Scalar alpha=1) -> Tensor
---@param ... any
---@return any ...
function TensorOperators:index_add(...) end

--- index_add_.
---     index_add_(Tensor(a!) self, int dim, Tensor index, Tensor source, *, Scalar alpha=1) ->
---       Tensor(a!)
---@param ... any
---@return any ...
function TensorOperators:index_add_(...) end

--- index_copy.
---     index_copy(Tensor self, int dim, Tensor index, Tensor source) -> Tensor
---@param ... any
---@return any ...
function TensorOperators:index_copy(...) end

--- index_copy_.
---     index_copy_(Tensor(a!) self, int dim, Tensor index, Tensor source) -> Tensor(a!)
---@param ... any
---@return any ...
function TensorOperators:index_copy_(...) end

--- index_fill.
---     index_fill.int_Scalar(Tensor self, int dim, Tensor index, Scalar value) -> Tensor
---     index_fill.int_Tensor(Tensor self, int dim, Tensor index, Tensor value) -> Tensor
---@param ... any
---@return any ...
function TensorOperators:index_fill(...) end

--- index_fill_.
---     index_fill_.int_Scalar(Tensor(a!) self, int dim, Tensor index, Scalar value) -> Tensor(a!)
---     index_fill_.int_Tensor(Tensor(a!) self, int dim, Tensor index, Tensor value) -> Tensor(a!)
---@param ... any
---@return any ...
function TensorOperators:index_fill_(...) end

--- index_put.
---     index_put(Tensor self, Tensor?[] indices, Tensor values, bool accumulate=False) -> Tensor
---@param ... any
---@return any ...
function TensorOperators:index_put(...) end

--- index_put_.
---     index_put_(Tensor(a!) self, Tensor?[] indices, Tensor values, bool accumulate=False) ->
---       Tensor(a!)
---@param ... any
---@return any ...
function TensorOperators:index_put_(...) end

--- index_reduce.
---     index_reduce(Tensor self, int dim, Tensor index, Tensor source, str reduce, *, bool
---       include_self=True) -> Tensor
---@param ... any
---@return any ...
function TensorOperators:index_reduce(...) end

--- index_reduce_.
---     index_reduce_(Tensor(a!) self, int dim, Tensor index, Tensor source, str reduce, *, bool
---       include_self=True) -> Tensor(a!)
---@param ... any
---@return any ...
function TensorOperators:index_reduce_(...) end

--- index_select.
---     index_select(Tensor self, int dim, Tensor index) -> Tensor
---@param ... any
---@return any ...
function TensorOperators:index_select(...) end

--- index_select_backward.
---     index_select_backward(Tensor grad, SymInt[] self_sizes, int dim, Tensor index) -> Tensor
---@param ... any
---@return any ...
function TensorOperators:index_select_backward(...) end

--- indices.
---     indices(Tensor(a) self) -> Tensor(a)
---@param ... any
---@return any ...
function TensorOperators:indices(...) end

--- indices_copy.
---     indices_copy(Tensor self) -> Tensor
---@param ... any
---@return any ...
function TensorOperators:indices_copy(...) end

--- infinitely_differentiable_gelu_backward.
---     infinitely_differentiable_gelu_backward(Tensor grad, Tensor self) -> Tensor
---@param ... any
---@return any ...
function TensorOperators:infinitely_differentiable_gelu_backward(...) end

--- inner.
---     inner(Tensor self, Tensor other) -> Tensor
---@param ... any
---@return any ...
function TensorOperators:inner(...) end

--- instance_norm.
---     instance_norm(Tensor input, Tensor? weight, Tensor? bias, Tensor? running_mean, Tensor?
---       running_var, bool use_input_stats, float momentum, float eps, bool cudnn_enabled) ->
---       Tensor
---@param ... any
---@return any ...
function TensorOperators:instance_norm(...) end

--- int_repr.
---     int_repr(Tensor self) -> Tensor
---@param ... any
---@return any ...
function TensorOperators:int_repr(...) end

--- inverse.
---     inverse(Tensor self) -> Tensor
---@param ... any
---@return any ...
function TensorOperators:inverse(...) end

--- is_coalesced.
---     is_coalesced(Tensor self) -> bool
---@param ... any
---@return any ...
function TensorOperators:is_coalesced(...) end

--- is_complex.
---     is_complex(Tensor self) -> bool
---@param ... any
---@return any ...
function TensorOperators:is_complex(...) end

--- is_conj.
---     is_conj(Tensor self) -> bool
---@param ... any
---@return any ...
function TensorOperators:is_conj(...) end

--- is_distributed.
---     is_distributed(Tensor self) -> bool
---@param ... any
---@return any ...
function TensorOperators:is_distributed(...) end

--- is_floating_point.
---     is_floating_point(Tensor self) -> bool
---@param ... any
---@return any ...
function TensorOperators:is_floating_point(...) end

--- is_inference.
---     is_inference(Tensor self) -> bool
---@param ... any
---@return any ...
function TensorOperators:is_inference(...) end

--- is_leaf.
---     is_leaf(Tensor self) -> bool
---@param ... any
---@return any ...
function TensorOperators:is_leaf(...) end

--- is_neg.
---     is_neg(Tensor self) -> bool
---@param ... any
---@return any ...
function TensorOperators:is_neg(...) end

--- is_nonzero.
---     is_nonzero(Tensor self) -> bool
---@param ... any
---@return any ...
function TensorOperators:is_nonzero(...) end

--- is_pinned.
---     is_pinned(Tensor self, Device? device=None) -> bool
---@param ... any
---@return any ...
function TensorOperators:is_pinned(...) end

--- is_same_size.
---     is_same_size(Tensor self, Tensor other) -> bool
---@param ... any
---@return any ...
function TensorOperators:is_same_size(...) end

--- is_set_to.
---     is_set_to(Tensor self, Tensor tensor) -> bool
---@param ... any
---@return any ...
function TensorOperators:is_set_to(...) end

--- is_signed.
---     is_signed(Tensor self) -> bool
---@param ... any
---@return any ...
function TensorOperators:is_signed(...) end

--- isclose.
---     isclose(Tensor self, Tensor other, float rtol=1.0000000000000001e-05, float atol=1e-08, bool
---       equal_nan=False) -> Tensor
---@param ... any
---@return any ...
function TensorOperators:isclose(...) end

--- isfinite.
---     isfinite(Tensor self) -> Tensor
---@param ... any
---@return any ...
function TensorOperators:isfinite(...) end

--- isinf.
---     isinf(Tensor self) -> Tensor
---@param ... any
---@return any ...
function TensorOperators:isinf(...) end

--- isnan.
---     isnan(Tensor self) -> Tensor
---@param ... any
---@return any ...
function TensorOperators:isnan(...) end

--- isneginf.
---     isneginf(Tensor self) -> Tensor
---@param ... any
---@return any ...
function TensorOperators:isneginf(...) end

--- isposinf.
---     isposinf(Tensor self) -> Tensor
---@param ... any
---@return any ...
function TensorOperators:isposinf(...) end

--- isreal.
---     isreal(Tensor self) -> Tensor
---@param ... any
---@return any ...
function TensorOperators:isreal(...) end

--- istft.
---     istft(Tensor self, int n_fft, int? hop_length=None, int? win_length=None, Tensor?
---       window=None, bool center=True, bool normalized=False, bool? onesided=None, int?
---       length=None, bool return_complex=False) -> Tensor
---@param ... any
---@return any ...
function TensorOperators:istft(...) end

--- kl_div.
---     kl_div(Tensor self, Tensor target, int reduction=1, *, bool log_target=False) -> Tensor
---@param ... any
---@return any ...
function TensorOperators:kl_div(...) end

--- kron.
---     kron(Tensor self, Tensor other) -> Tensor
---@param ... any
---@return any ...
function TensorOperators:kron(...) end

--- kthvalue.
---     kthvalue(Tensor self, SymInt k, int dim=-1, bool keepdim=False) -> (Tensor values, Tensor
---       indices)
---@param ... any
---@return any ...
function TensorOperators:kthvalue(...) end

--- l1_loss.
---     l1_loss(Tensor self, Tensor target, int reduction=1) -> Tensor
---@param ... any
---@return any ...
function TensorOperators:l1_loss(...) end

--- layer_norm.
---     layer_norm(Tensor input, SymInt[] normalized_shape, Tensor? weight=None, Tensor? bias=None,
---       float eps=1.0000000000000001e-05, bool cudnn_enable=True) -> Tensor
---@param ... any
---@return any ...
function TensorOperators:layer_norm(...) end

--- lcm.
---     lcm(Tensor self, Tensor other) -> Tensor
---@param ... any
---@return any ...
function TensorOperators:lcm(...) end

--- lcm_.
---     lcm_(Tensor(a!) self, Tensor other) -> Tensor(a!)
---@param ... any
---@return any ...
function TensorOperators:lcm_(...) end

--- ldexp.
---     ldexp.Tensor(Tensor self, Tensor other) -> Tensor
---@param ... any
---@return any ...
function TensorOperators:ldexp(...) end

--- ldexp_.
---     ldexp_(Tensor(a!) self, Tensor other) -> Tensor(a!)
---@param ... any
---@return any ...
function TensorOperators:ldexp_(...) end

--- le.
---     le.Scalar(Tensor self, Scalar other) -> Tensor
---     le.Tensor(Tensor self, Tensor other) -> Tensor
---@param ... any
---@return any ...
function TensorOperators:le(...) end

--- le_.
---     le_.Scalar(Tensor(a!) self, Scalar other) -> Tensor(a!)
---     le_.Tensor(Tensor(a!) self, Tensor other) -> Tensor(a!)
---@param ... any
---@return any ...
function TensorOperators:le_(...) end

--- leaky_relu.
---     leaky_relu(Tensor self, Scalar negative_slope=0.01) -> Tensor
---@param ... any
---@return any ...
function TensorOperators:leaky_relu(...) end

--- leaky_relu_.
---     leaky_relu_(Tensor(a!) self, Scalar negative_slope=0.01) -> Tensor(a!)
---@param ... any
---@return any ...
function TensorOperators:leaky_relu_(...) end

--- leaky_relu_backward.
---     leaky_relu_backward(Tensor grad_output, Tensor self, Scalar negative_slope, bool
---       self_is_result) -> Tensor
---     leaky_relu_backward.grad_input(Tensor grad_output, Tensor self, Scalar negative_slope, bool
---       self_is_result, *, Tensor(a!) grad_input) -> Tensor(a!)
---@param ... any
---@return any ...
function TensorOperators:leaky_relu_backward(...) end

--- lerp.
---     lerp.Scalar(Tensor self, Tensor end, Scalar weight) -> Tensor
---     lerp.Tensor(Tensor self, Tensor end, Tensor weight) -> Tensor
---@param ... any
---@return any ...
function TensorOperators:lerp(...) end

--- lerp_.
---     lerp_.Scalar(Tensor(a!) self, Tensor end, Scalar weight) -> Tensor(a!)
---     lerp_.Tensor(Tensor(a!) self, Tensor end, Tensor weight) -> Tensor(a!)
---@param ... any
---@return any ...
function TensorOperators:lerp_(...) end

--- less.
---     less.Scalar(Tensor self, Scalar other) -> Tensor
---     less.Tensor(Tensor self, Tensor other) -> Tensor
---@param ... any
---@return any ...
function TensorOperators:less(...) end

--- less_.
---     less_.Scalar(Tensor(a!) self, Scalar other) -> Tensor(a!)
---     less_.Tensor(Tensor(a!) self, Tensor other) -> Tensor(a!)
---@param ... any
---@return any ...
function TensorOperators:less_(...) end

--- less_equal.
---     less_equal.Scalar(Tensor self, Scalar other) -> Tensor
---     less_equal.Tensor(Tensor self, Tensor other) -> Tensor
---@param ... any
---@return any ...
function TensorOperators:less_equal(...) end

--- less_equal_.
---     less_equal_.Scalar(Tensor(a!) self, Scalar other) -> Tensor(a!)
---     less_equal_.Tensor(Tensor(a!) self, Tensor other) -> Tensor(a!)
---@param ... any
---@return any ...
function TensorOperators:less_equal_(...) end

--- lgamma.
---     lgamma(Tensor self) -> Tensor
---@param ... any
---@return any ...
function TensorOperators:lgamma(...) end

--- lgamma_.
---     lgamma_(Tensor(a!) self) -> Tensor(a!)
---@param ... any
---@return any ...
function TensorOperators:lgamma_(...) end

--- lift.
---     lift(Tensor self) -> Tensor
---@param ... any
---@return any ...
function TensorOperators:lift(...) end

--- lift_fresh.
---     lift_fresh(Tensor(a) self) -> Tensor(a)
---@param ... any
---@return any ...
function TensorOperators:lift_fresh(...) end

--- lift_fresh_copy.
---     lift_fresh_copy(Tensor self) -> Tensor
---@param ... any
---@return any ...
function TensorOperators:lift_fresh_copy(...) end

--- linalg__powsum.
---     linalg__powsum(Tensor self, Scalar ord=2, int[1]? dim=None, bool keepdim=False, *,
---       ScalarType? dtype=None) -> Tensor
---@param ... any
---@return any ...
function TensorOperators:linalg__powsum(...) end

--- linalg_cholesky.
---     linalg_cholesky(Tensor self, *, bool upper=False) -> Tensor
---@param ... any
---@return any ...
function TensorOperators:linalg_cholesky(...) end

--- linalg_cholesky_ex.
---     linalg_cholesky_ex(Tensor self, *, bool upper=False, bool check_errors=False) -> (Tensor L,
---       Tensor info)
---@param ... any
---@return any ...
function TensorOperators:linalg_cholesky_ex(...) end

--- linalg_cond.
---     linalg_cond(Tensor self, Scalar? p=None) -> Tensor
---     linalg_cond.p_str(Tensor self, str p) -> Tensor
---@param ... any
---@return any ...
function TensorOperators:linalg_cond(...) end

--- linalg_cross.
---     linalg_cross(Tensor self, Tensor other, *, int dim=-1) -> Tensor
---@param ... any
---@return any ...
function TensorOperators:linalg_cross(...) end

--- linalg_det.
---     linalg_det(Tensor A) -> Tensor
---@param ... any
---@return any ...
function TensorOperators:linalg_det(...) end

--- linalg_diagonal.
---     linalg_diagonal(Tensor(a) A, *, int offset=0, int dim1=-2, int dim2=-1) -> Tensor(a)
---@param ... any
---@return any ...
function TensorOperators:linalg_diagonal(...) end

--- linalg_eig.
---     linalg_eig(Tensor self) -> (Tensor eigenvalues, Tensor eigenvectors)
---@param ... any
---@return any ...
function TensorOperators:linalg_eig(...) end

--- linalg_eigh.
---     linalg_eigh(Tensor self, str UPLO="L") -> (Tensor eigenvalues, Tensor eigenvectors)
---@param ... any
---@return any ...
function TensorOperators:linalg_eigh(...) end

--- linalg_eigvals.
---     linalg_eigvals(Tensor self) -> Tensor
---@param ... any
---@return any ...
function TensorOperators:linalg_eigvals(...) end

--- linalg_eigvalsh.
---     linalg_eigvalsh(Tensor self, str UPLO="L") -> Tensor
---@param ... any
---@return any ...
function TensorOperators:linalg_eigvalsh(...) end

--- linalg_householder_product.
---     linalg_householder_product(Tensor input, Tensor tau) -> Tensor
---@param ... any
---@return any ...
function TensorOperators:linalg_householder_product(...) end

--- linalg_inv.
---     linalg_inv(Tensor A) -> Tensor
---@param ... any
---@return any ...
function TensorOperators:linalg_inv(...) end

--- linalg_inv_ex.
---     linalg_inv_ex(Tensor A, *, bool check_errors=False) -> (Tensor inverse, Tensor info)
---@param ... any
---@return any ...
function TensorOperators:linalg_inv_ex(...) end

--- linalg_ldl_factor.
---     linalg_ldl_factor(Tensor self, *, bool hermitian=False) -> (Tensor LD, Tensor pivots)
---@param ... any
---@return any ...
function TensorOperators:linalg_ldl_factor(...) end

--- linalg_ldl_factor_ex.
---     linalg_ldl_factor_ex(Tensor self, *, bool hermitian=False, bool check_errors=False) ->
---       (Tensor LD, Tensor pivots, Tensor info)
---@param ... any
---@return any ...
function TensorOperators:linalg_ldl_factor_ex(...) end

--- linalg_ldl_solve.
---     linalg_ldl_solve(Tensor LD, Tensor pivots, Tensor B, *, bool hermitian=False) -> Tensor
---@param ... any
---@return any ...
function TensorOperators:linalg_ldl_solve(...) end

--- linalg_lstsq.
---     linalg_lstsq(Tensor self, Tensor b, float? rcond=None, *, str? driver=None) -> (Tensor
---       solution, Tensor residuals, Tensor rank, Tensor singular_values)
---     linalg_lstsq.out(Tensor self, Tensor b, float? rcond=None, *, str? driver=None, Tensor(a!)
---       solution, Tensor(b!) residuals, Tensor(c!) rank, Tensor(d!) singular_values) ->
---       (Tensor(a!) solution, Tensor(b!) residuals, Tensor(c!) rank, Tensor(d!) singular_values)
---@param ... any
---@return any ...
function TensorOperators:linalg_lstsq(...) end

--- linalg_lu.
---     linalg_lu(Tensor A, *, bool pivot=True) -> (Tensor P, Tensor L, Tensor U)
---@param ... any
---@return any ...
function TensorOperators:linalg_lu(...) end

--- linalg_lu_factor.
---     linalg_lu_factor(Tensor A, *, bool pivot=True) -> (Tensor LU, Tensor pivots)
---@param ... any
---@return any ...
function TensorOperators:linalg_lu_factor(...) end

--- linalg_lu_factor_ex.
---     linalg_lu_factor_ex(Tensor A, *, bool pivot=True, bool check_errors=False) -> (Tensor LU,
---       Tensor pivots, Tensor info)
---@param ... any
---@return any ...
function TensorOperators:linalg_lu_factor_ex(...) end

--- linalg_lu_solve.
---     linalg_lu_solve(Tensor LU, Tensor pivots, Tensor B, *, bool left=True, bool adjoint=False)
---       -> Tensor
---@param ... any
---@return any ...
function TensorOperators:linalg_lu_solve(...) end

--- linalg_matmul.
---     linalg_matmul(Tensor self, Tensor other) -> Tensor
---@param ... any
---@return any ...
function TensorOperators:linalg_matmul(...) end

--- linalg_matrix_exp.
---     linalg_matrix_exp(Tensor self) -> Tensor
---@param ... any
---@return any ...
function TensorOperators:linalg_matrix_exp(...) end

--- linalg_matrix_norm.
---     linalg_matrix_norm(Tensor self, Scalar ord, int[] dim=[-2, -1], bool keepdim=False, *,
---       ScalarType? dtype=None) -> Tensor
---     linalg_matrix_norm.str_ord(Tensor self, str ord="fro", int[] dim=[-2, -1], bool
---       keepdim=False, *, ScalarType? dtype=None) -> Tensor
---@param ... any
---@return any ...
function TensorOperators:linalg_matrix_norm(...) end

--- linalg_matrix_power.
---     linalg_matrix_power(Tensor self, int n) -> Tensor
---@param ... any
---@return any ...
function TensorOperators:linalg_matrix_power(...) end

--- linalg_matrix_rank.
---     linalg_matrix_rank(Tensor self, float tol, bool hermitian=False) -> Tensor
---     linalg_matrix_rank.tol_tensor(Tensor input, Tensor tol, bool hermitian=False) -> Tensor
---     linalg_matrix_rank.atol_rtol_float(Tensor self, *, float? atol=None, float? rtol=None, bool
---       hermitian=False) -> Tensor
---     linalg_matrix_rank.atol_rtol_tensor(Tensor input, *, Tensor? atol=None, Tensor? rtol=None,
---       bool hermitian=False) -> Tensor
---@param ... any
---@return any ...
function TensorOperators:linalg_matrix_rank(...) end

--- linalg_norm.
---     linalg_norm(Tensor self, Scalar? ord=None, int[1]? dim=None, bool keepdim=False, *,
---       ScalarType? dtype=None) -> Tensor
---     linalg_norm.ord_str(Tensor self, str ord, int[1]? dim=None, bool keepdim=False, *,
---       ScalarType? dtype=None) -> Tensor
---@param ... any
---@return any ...
function TensorOperators:linalg_norm(...) end

--- linalg_pinv.
---     linalg_pinv(Tensor self, float rcond, bool hermitian=False) -> Tensor
---     linalg_pinv.rcond_tensor(Tensor self, Tensor rcond, bool hermitian=False) -> Tensor
---     linalg_pinv.atol_rtol_float(Tensor self, *, float? atol=None, float? rtol=None, bool
---       hermitian=False) -> Tensor
---     linalg_pinv.atol_rtol_tensor(Tensor self, *, Tensor? atol=None, Tensor? rtol=None, bool
---       hermitian=False) -> Tensor
---@param ... any
---@return any ...
function TensorOperators:linalg_pinv(...) end

--- linalg_qr.
---     linalg_qr(Tensor A, str mode="reduced") -> (Tensor Q, Tensor R)
---@param ... any
---@return any ...
function TensorOperators:linalg_qr(...) end

--- linalg_slogdet.
---     linalg_slogdet(Tensor A) -> (Tensor sign, Tensor logabsdet)
---@param ... any
---@return any ...
function TensorOperators:linalg_slogdet(...) end

--- linalg_solve.
---     linalg_solve(Tensor A, Tensor B, *, bool left=True) -> Tensor
---@param ... any
---@return any ...
function TensorOperators:linalg_solve(...) end

--- linalg_solve_ex.
---     linalg_solve_ex(Tensor A, Tensor B, *, bool left=True, bool check_errors=False) -> (Tensor
---       result, Tensor info)
---@param ... any
---@return any ...
function TensorOperators:linalg_solve_ex(...) end

--- linalg_solve_triangular.
---     linalg_solve_triangular(Tensor self, Tensor B, *, bool upper, bool left=True, bool
---       unitriangular=False) -> Tensor
---@param ... any
---@return any ...
function TensorOperators:linalg_solve_triangular(...) end

--- linalg_svd.
---     linalg_svd(Tensor A, bool full_matrices=True, *, str? driver=None) -> (Tensor U, Tensor S,
---       Tensor Vh)
---@param ... any
---@return any ...
function TensorOperators:linalg_svd(...) end

--- linalg_svdvals.
---     linalg_svdvals(Tensor A, *, str? driver=None) -> Tensor
---@param ... any
---@return any ...
function TensorOperators:linalg_svdvals(...) end

--- linalg_tensorinv.
---     linalg_tensorinv(Tensor self, int ind=2) -> Tensor
---@param ... any
---@return any ...
function TensorOperators:linalg_tensorinv(...) end

--- linalg_tensorsolve.
---     linalg_tensorsolve(Tensor self, Tensor other, int[]? dims=None) -> Tensor
---@param ... any
---@return any ...
function TensorOperators:linalg_tensorsolve(...) end

--- linalg_vander.
---     linalg_vander(Tensor x, *, SymInt? N=None) -> Tensor
---@param ... any
---@return any ...
function TensorOperators:linalg_vander(...) end

--- linalg_vecdot.
---     linalg_vecdot(Tensor x, Tensor y, *, int dim=-1) -> Tensor
---@param ... any
---@return any ...
function TensorOperators:linalg_vecdot(...) end

--- linalg_vector_norm.
---     linalg_vector_norm(Tensor self, Scalar ord=2, int[1]? dim=None, bool keepdim=False, *,
---       ScalarType? dtype=None) -> Tensor
---@param ... any
---@return any ...
function TensorOperators:linalg_vector_norm(...) end

--- linear.
---     linear(Tensor input, Tensor weight, Tensor? bias=None) -> Tensor
---@param ... any
---@return any ...
function TensorOperators:linear(...) end

--- linear_backward.
---     linear_backward(Tensor self, Tensor grad_output, Tensor weight, bool[3] output_mask) ->
---       (Tensor, Tensor, Tensor)
---@param ... any
---@return any ...
function TensorOperators:linear_backward(...) end

--- log.
---     log(Tensor self) -> Tensor
---@param ... any
---@return any ...
function TensorOperators:log(...) end

--- log10.
---     log10(Tensor self) -> Tensor
---@param ... any
---@return any ...
function TensorOperators:log10(...) end

--- log10_.
---     log10_(Tensor(a!) self) -> Tensor(a!)
---@param ... any
---@return any ...
function TensorOperators:log10_(...) end

--- log1p.
---     log1p(Tensor self) -> Tensor
---@param ... any
---@return any ...
function TensorOperators:log1p(...) end

--- log1p_.
---     log1p_(Tensor(a!) self) -> Tensor(a!)
---@param ... any
---@return any ...
function TensorOperators:log1p_(...) end

--- log2.
---     log2(Tensor self) -> Tensor
---@param ... any
---@return any ...
function TensorOperators:log2(...) end

--- log2_.
---     log2_(Tensor(a!) self) -> Tensor(a!)
---@param ... any
---@return any ...
function TensorOperators:log2_(...) end

--- log_.
---     log_(Tensor(a!) self) -> Tensor(a!)
---@param ... any
---@return any ...
function TensorOperators:log_(...) end

--- log_normal.
---     log_normal(Tensor self, float mean=1., float std=2., *, Generator? generator=None) -> Tensor
---@param ... any
---@return any ...
function TensorOperators:log_normal(...) end

--- log_normal_.
---     log_normal_(Tensor(a!) self, float mean=1., float std=2., *, Generator? generator=None) ->
---       Tensor(a!)
---@param ... any
---@return any ...
function TensorOperators:log_normal_(...) end

--- log_sigmoid.
---     log_sigmoid(Tensor self) -> Tensor
---@param ... any
---@return any ...
function TensorOperators:log_sigmoid(...) end

--- log_sigmoid_backward.
---     log_sigmoid_backward(Tensor grad_output, Tensor self, Tensor buffer) -> Tensor
---     log_sigmoid_backward.grad_input(Tensor grad_output, Tensor self, Tensor buffer, *,
---       Tensor(a!) grad_input) -> Tensor(a!)
---@param ... any
---@return any ...
function TensorOperators:log_sigmoid_backward(...) end

--- log_sigmoid_forward.
---     log_sigmoid_forward(Tensor self) -> (Tensor output, Tensor buffer)
---@param ... any
---@return any ...
function TensorOperators:log_sigmoid_forward(...) end

--- log_softmax.
---     log_softmax.int(Tensor self, int dim, ScalarType? dtype=None) -> Tensor
---@param ... any
---@return any ...
function TensorOperators:log_softmax(...) end

--- logaddexp.
---     logaddexp(Tensor self, Tensor other) -> Tensor
---@param ... any
---@return any ...
function TensorOperators:logaddexp(...) end

--- logaddexp2.
---     logaddexp2(Tensor self, Tensor other) -> Tensor
---@param ... any
---@return any ...
function TensorOperators:logaddexp2(...) end

--- logcumsumexp.
---     logcumsumexp(Tensor self, int dim) -> Tensor
---@param ... any
---@return any ...
function TensorOperators:logcumsumexp(...) end

--- logdet.
---     logdet(Tensor self) -> Tensor
---@param ... any
---@return any ...
function TensorOperators:logdet(...) end

--- logical_and.
---     logical_and(Tensor self, Tensor other) -> Tensor
---@param ... any
---@return any ...
function TensorOperators:logical_and(...) end

--- logical_and_.
---     logical_and_(Tensor(a!) self, Tensor other) -> Tensor(a!)
---@param ... any
---@return any ...
function TensorOperators:logical_and_(...) end

--- logical_not.
---     logical_not(Tensor self) -> Tensor
---@param ... any
---@return any ...
function TensorOperators:logical_not(...) end

--- logical_not_.
---     logical_not_(Tensor(a!) self) -> Tensor(a!)
---@param ... any
---@return any ...
function TensorOperators:logical_not_(...) end

--- logical_or.
---     logical_or(Tensor self, Tensor other) -> Tensor
---@param ... any
---@return any ...
function TensorOperators:logical_or(...) end

--- logical_or_.
---     logical_or_(Tensor(a!) self, Tensor other) -> Tensor(a!)
---@param ... any
---@return any ...
function TensorOperators:logical_or_(...) end

--- logical_xor.
---     logical_xor(Tensor self, Tensor other) -> Tensor
---@param ... any
---@return any ...
function TensorOperators:logical_xor(...) end

--- logical_xor_.
---     logical_xor_(Tensor(a!) self, Tensor other) -> Tensor(a!)
---@param ... any
---@return any ...
function TensorOperators:logical_xor_(...) end

--- logit.
---     logit(Tensor self, float? eps=None) -> Tensor
---@param ... any
---@return any ...
function TensorOperators:logit(...) end

--- logit_.
---     logit_(Tensor(a!) self, float? eps=None) -> Tensor(a!)
---@param ... any
---@return any ...
function TensorOperators:logit_(...) end

--- logit_backward.
---     logit_backward(Tensor grad_output, Tensor self, float? eps=None) -> Tensor
---     logit_backward.grad_input(Tensor grad_output, Tensor self, float? eps=None, *, Tensor(a!)
---       grad_input) -> Tensor(a!)
---@param ... any
---@return any ...
function TensorOperators:logit_backward(...) end

--- logsumexp.
---     logsumexp(Tensor self, int[1] dim, bool keepdim=False) -> Tensor
---@param ... any
---@return any ...
function TensorOperators:logsumexp(...) end

--- lstm.
---     lstm.data(Tensor data, Tensor batch_sizes, Tensor[] hx, Tensor[] params, bool has_biases,
---       int num_layers, float dropout, bool train, bool bidirectional) -> (Tensor, Tensor, Tensor)
---     lstm.input(Tensor input, Tensor[] hx, Tensor[] params, bool has_biases, int num_layers,
---       float dropout, bool train, bool bidirectional, bool batch_first) -> (Tensor, Tensor,
---       Tensor)
---@param ... any
---@return any ...
function TensorOperators:lstm(...) end

--- lstm_cell.
---     lstm_cell(Tensor input, Tensor[] hx, Tensor w_ih, Tensor w_hh, Tensor? b_ih=None, Tensor?
---       b_hh=None) -> (Tensor, Tensor)
---@param ... any
---@return any ...
function TensorOperators:lstm_cell(...) end

--- lstm_mps_backward.
---     lstm_mps_backward(Tensor? grad_y, Tensor? grad_hy, Tensor? grad_cy, Tensor z_state, Tensor
---       cell_state_fwd, Tensor input, Tensor layersOutputs, Tensor[] hx, Tensor[] params, bool
---       has_biases, int num_layers, float dropout, bool train, bool bidirectional, bool
---       batch_first) -> (Tensor, Tensor[], Tensor[])
---     lstm_mps_backward.out(Tensor? grad_y, Tensor? grad_hy, Tensor? grad_cy, Tensor z_state,
---       Tensor cell_state_fwd, Tensor input, Tensor layersOutputs, Tensor[] hx, Tensor[] params,
---       bool has_biases, int num_layers, float dropout, bool train, bool bidirectional, bool
---       batch_first, *, Tensor(a!) out0, Tensor(b!)[] out1, Tensor(c!)[] out2) -> ()
---@param ... any
---@return any ...
function TensorOperators:lstm_mps_backward(...) end

--- lt.
---     lt.Scalar(Tensor self, Scalar other) -> Tensor
---     lt.Tensor(Tensor self, Tensor other) -> Tensor
---@param ... any
---@return any ...
function TensorOperators:lt(...) end

--- lt_.
---     lt_.Scalar(Tensor(a!) self, Scalar other) -> Tensor(a!)
---     lt_.Tensor(Tensor(a!) self, Tensor other) -> Tensor(a!)
---@param ... any
---@return any ...
function TensorOperators:lt_(...) end

--- lu_solve.
---     lu_solve(Tensor self, Tensor LU_data, Tensor LU_pivots) -> Tensor
---@param ... any
---@return any ...
function TensorOperators:lu_solve(...) end

--- lu_unpack.
---     lu_unpack(Tensor LU_data, Tensor LU_pivots, bool unpack_data=True, bool unpack_pivots=True)
---       -> (Tensor P, Tensor L, Tensor U)
---@param ... any
---@return any ...
function TensorOperators:lu_unpack(...) end

--- mH.
---     mH(Tensor(a) self) -> Tensor(a)
---@param ... any
---@return any ...
function TensorOperators:mH(...) end

--- mT.
---     mT(Tensor(a) self) -> Tensor(a)
---@param ... any
---@return any ...
function TensorOperators:mT(...) end

--- margin_ranking_loss.
---     margin_ranking_loss(Tensor input1, Tensor input2, Tensor target, float margin=0., int
---       reduction=1) -> Tensor
---@param ... any
---@return any ...
function TensorOperators:margin_ranking_loss(...) end

--- masked_fill.
---     masked_fill.Scalar(Tensor self, Tensor mask, Scalar value) -> Tensor
---     masked_fill.Tensor(Tensor self, Tensor mask, Tensor value) -> Tensor
---@param ... any
---@return any ...
function TensorOperators:masked_fill(...) end

--- masked_fill_.
---     masked_fill_.Scalar(Tensor(a!) self, Tensor mask, Scalar value) -> Tensor(a!)
---     masked_fill_.Tensor(Tensor(a!) self, Tensor mask, Tensor value) -> Tensor(a!)
---@param ... any
---@return any ...
function TensorOperators:masked_fill_(...) end

--- masked_scatter.
---     masked_scatter(Tensor self, Tensor mask, Tensor source) -> Tensor
---@param ... any
---@return any ...
function TensorOperators:masked_scatter(...) end

--- masked_scatter_.
---     masked_scatter_(Tensor(a!) self, Tensor mask, Tensor source) -> Tensor(a!)
---@param ... any
---@return any ...
function TensorOperators:masked_scatter_(...) end

--- masked_scatter_backward.
---     masked_scatter_backward(Tensor grad_output, Tensor mask, SymInt[] sizes) -> Tensor
---@param ... any
---@return any ...
function TensorOperators:masked_scatter_backward(...) end

--- masked_select.
---     masked_select(Tensor self, Tensor mask) -> Tensor
---@param ... any
---@return any ...
function TensorOperators:masked_select(...) end

--- masked_select_backward.
---     masked_select_backward(Tensor grad, Tensor input, Tensor mask) -> Tensor
---@param ... any
---@return any ...
function TensorOperators:masked_select_backward(...) end

--- matmul.
---     matmul(Tensor self, Tensor other) -> Tensor
---@param ... any
---@return any ...
function TensorOperators:matmul(...) end

--- matmul_backward.
---     matmul_backward(Tensor grad, Tensor self, Tensor other, bool[2] mask) -> (Tensor, Tensor)
---@param ... any
---@return any ...
function TensorOperators:matmul_backward(...) end

--- matrix_H.
---     matrix_H(Tensor(a) self) -> Tensor(a)
---@param ... any
---@return any ...
function TensorOperators:matrix_H(...) end

--- matrix_exp.
---     matrix_exp(Tensor self) -> Tensor
---@param ... any
---@return any ...
function TensorOperators:matrix_exp(...) end

--- matrix_exp_backward.
---     matrix_exp_backward(Tensor self, Tensor grad) -> Tensor
---@param ... any
---@return any ...
function TensorOperators:matrix_exp_backward(...) end

--- matrix_power.
---     matrix_power(Tensor self, int n) -> Tensor
---@param ... any
---@return any ...
function TensorOperators:matrix_power(...) end

--- max.
---     max(Tensor self) -> Tensor
---     max.other(Tensor self, Tensor other) -> Tensor
---     max.dim(Tensor self, int dim, bool keepdim=False) -> (Tensor values, Tensor indices)
---     max.dim_max(Tensor self, int dim, bool keepdim=False, *, Tensor(a!) max, Tensor(b!)
---       max_values) -> (Tensor(a!) values, Tensor(b!) indices)
---@param ... any
---@return any ...
function TensorOperators:max(...) end

--- max_pool1d.
---     max_pool1d(Tensor self, int[1] kernel_size, int[1] stride=[], int[1] padding=[0], int[1]
---       dilation=[1], bool ceil_mode=False) -> Tensor
---@param ... any
---@return any ...
function TensorOperators:max_pool1d(...) end

--- max_pool1d_with_indices.
---     max_pool1d_with_indices(Tensor self, int[1] kernel_size, int[1] stride=[], int[1]
---       padding=[0], int[1] dilation=[1], bool ceil_mode=False) -> (Tensor, Tensor)
---@param ... any
---@return any ...
function TensorOperators:max_pool1d_with_indices(...) end

--- max_pool2d.
---     max_pool2d(Tensor self, int[2] kernel_size, int[2] stride=[], int[2] padding=0, int[2]
---       dilation=1, bool ceil_mode=False) -> Tensor
---@param ... any
---@return any ...
function TensorOperators:max_pool2d(...) end

--- max_pool2d_backward.
---     max_pool2d_backward(Tensor grad_output, Tensor self, int[2] kernel_size, int[2] stride=[],
---       int[2] padding=0, int[2] dilation=1, bool ceil_mode=False) -> Tensor
---@param ... any
---@return any ...
function TensorOperators:max_pool2d_backward(...) end

--- max_pool2d_with_indices.
---     max_pool2d_with_indices(Tensor self, int[2] kernel_size, int[2] stride=[], int[2] padding=0,
---       int[2] dilation=1, bool ceil_mode=False) -> (Tensor, Tensor)
---@param ... any
---@return any ...
function TensorOperators:max_pool2d_with_indices(...) end

--- max_pool2d_with_indices_backward.
---     max_pool2d_with_indices_backward(Tensor grad_output, Tensor self, int[2] kernel_size, int[2]
---       stride, int[2] padding, int[2] dilation, bool ceil_mode, Tensor indices) -> Tensor
---     max_pool2d_with_indices_backward.grad_input(Tensor grad_output, Tensor self, int[2]
---       kernel_size, int[2] stride, int[2] padding, int[2] dilation, bool ceil_mode, Tensor
---       indices, *, Tensor(a!) grad_input) -> Tensor(a!)
---@param ... any
---@return any ...
function TensorOperators:max_pool2d_with_indices_backward(...) end

--- max_pool3d.
---     max_pool3d(Tensor self, int[3] kernel_size, int[3] stride=[], int[3] padding=0, int[3]
---       dilation=1, bool ceil_mode=False) -> Tensor
---@param ... any
---@return any ...
function TensorOperators:max_pool3d(...) end

--- max_pool3d_with_indices.
---     max_pool3d_with_indices(Tensor self, int[3] kernel_size, int[3] stride=[], int[3] padding=0,
---       int[3] dilation=1, bool ceil_mode=False) -> (Tensor, Tensor)
---@param ... any
---@return any ...
function TensorOperators:max_pool3d_with_indices(...) end

--- max_pool3d_with_indices_backward.
---     max_pool3d_with_indices_backward(Tensor grad_output, Tensor self, int[3] kernel_size, int[3]
---       stride, int[3] padding, int[3] dilation, bool ceil_mode, Tensor indices) -> Tensor
---     max_pool3d_with_indices_backward.grad_input(Tensor grad_output, Tensor self, int[3]
---       kernel_size, int[3] stride, int[3] padding, int[3] dilation, bool ceil_mode, Tensor
---       indices, *, Tensor(a!) grad_input) -> Tensor(a!)
---@param ... any
---@return any ...
function TensorOperators:max_pool3d_with_indices_backward(...) end

--- max_unpool2d.
---     max_unpool2d(Tensor self, Tensor indices, SymInt[2] output_size) -> Tensor
---@param ... any
---@return any ...
function TensorOperators:max_unpool2d(...) end

--- max_unpool3d.
---     max_unpool3d(Tensor self, Tensor indices, SymInt[3] output_size, int[3] stride, int[3]
---       padding) -> Tensor
---@param ... any
---@return any ...
function TensorOperators:max_unpool3d(...) end

--- maximum.
---     maximum(Tensor self, Tensor other) -> Tensor
---@param ... any
---@return any ...
function TensorOperators:maximum(...) end

--- mean.
---     mean(Tensor self, *, ScalarType? dtype=None) -> Tensor
---     mean.dim(Tensor self, int[1]? dim, bool keepdim=False, *, ScalarType? dtype=None) -> Tensor
---@param ... any
---@return any ...
function TensorOperators:mean(...) end

--- median.
---     median(Tensor self) -> Tensor
---     median.dim(Tensor self, int dim, bool keepdim=False) -> (Tensor values, Tensor indices)
---@param ... any
---@return any ...
function TensorOperators:median(...) end

--- min.
---     min(Tensor self) -> Tensor
---     min.other(Tensor self, Tensor other) -> Tensor
---     min.dim(Tensor self, int dim, bool keepdim=False) -> (Tensor values, Tensor indices)
---     min.dim_min(Tensor self, int dim, bool keepdim=False, *, Tensor(a!) min, Tensor(b!)
---       min_indices) -> (Tensor(a!) values, Tensor(b!) indices)
---@param ... any
---@return any ...
function TensorOperators:min(...) end

--- minimum.
---     minimum(Tensor self, Tensor other) -> Tensor
---@param ... any
---@return any ...
function TensorOperators:minimum(...) end

--- miopen_batch_norm.
---     miopen_batch_norm(Tensor input, Tensor weight, Tensor? bias, Tensor? running_mean, Tensor?
---       running_var, bool training, float exponential_average_factor, float epsilon) -> (Tensor,
---       Tensor, Tensor)
---@param ... any
---@return any ...
function TensorOperators:miopen_batch_norm(...) end

--- miopen_batch_norm_backward.
---     miopen_batch_norm_backward(Tensor input, Tensor grad_output, Tensor weight, Tensor?
---       running_mean, Tensor? running_var, Tensor? save_mean, Tensor? save_var, float epsilon) ->
---       (Tensor, Tensor, Tensor)
---@param ... any
---@return any ...
function TensorOperators:miopen_batch_norm_backward(...) end

--- miopen_convolution.
---     miopen_convolution(Tensor self, Tensor weight, Tensor? bias, SymInt[] padding, SymInt[]
---       stride, SymInt[] dilation, SymInt groups, bool benchmark, bool deterministic) -> Tensor
---@param ... any
---@return any ...
function TensorOperators:miopen_convolution(...) end

--- miopen_convolution_add_relu.
---     miopen_convolution_add_relu(Tensor self, Tensor weight, Tensor z, Scalar? alpha, Tensor?
---       bias, SymInt[] stride, SymInt[] padding, SymInt[] dilation, SymInt groups) -> Tensor
---@param ... any
---@return any ...
function TensorOperators:miopen_convolution_add_relu(...) end

--- miopen_convolution_relu.
---     miopen_convolution_relu(Tensor self, Tensor weight, Tensor? bias, SymInt[] stride, SymInt[]
---       padding, SymInt[] dilation, SymInt groups) -> Tensor
---@param ... any
---@return any ...
function TensorOperators:miopen_convolution_relu(...) end

--- miopen_convolution_transpose.
---     miopen_convolution_transpose(Tensor self, Tensor weight, Tensor? bias, SymInt[] padding,
---       SymInt[] output_padding, SymInt[] stride, SymInt[] dilation, SymInt groups, bool
---       benchmark, bool deterministic) -> Tensor
---@param ... any
---@return any ...
function TensorOperators:miopen_convolution_transpose(...) end

--- miopen_ctc_loss.
---     miopen_ctc_loss(Tensor log_probs, Tensor targets, int[] input_lengths, int[] target_lengths,
---       int blank, bool deterministic, bool zero_infinity) -> (Tensor, Tensor)
---     miopen_ctc_loss.Tensor(Tensor log_probs, Tensor targets, Tensor input_lengths, Tensor
---       target_lengths, int blank, bool deterministic, bool zero_infinity) -> (Tensor, Tensor)
---@param ... any
---@return any ...
function TensorOperators:miopen_ctc_loss(...) end

--- miopen_depthwise_convolution.
---     miopen_depthwise_convolution(Tensor self, Tensor weight, Tensor? bias, SymInt[] padding,
---       SymInt[] stride, SymInt[] dilation, SymInt groups, bool benchmark, bool deterministic) ->
---       Tensor
---@param ... any
---@return any ...
function TensorOperators:miopen_depthwise_convolution(...) end

--- miopen_rnn.
---     miopen_rnn(Tensor input, Tensor[] weight, int weight_stride0, Tensor hx, Tensor? cx, int
---       mode, int hidden_size, int num_layers, bool batch_first, float dropout, bool train, bool
---       bidirectional, int[] batch_sizes, Tensor? dropout_state) -> (Tensor, Tensor, Tensor,
---       Tensor, Tensor)
---@param ... any
---@return any ...
function TensorOperators:miopen_rnn(...) end

--- miopen_rnn_backward.
---     miopen_rnn_backward(Tensor input, Tensor[] weight, int weight_stride0, Tensor weight_buf,
---       Tensor hx, Tensor? cx, Tensor output, Tensor? grad_output, Tensor? grad_hy, Tensor?
---       grad_cy, int mode, int hidden_size, int num_layers, bool batch_first, float dropout, bool
---       train, bool bidirectional, int[] batch_sizes, Tensor? dropout_state, Tensor reserve,
---       bool[4] output_mask) -> (Tensor, Tensor, Tensor, Tensor[])
---     miopen_rnn_backward.out(Tensor input, Tensor[] weight, int weight_stride0, Tensor
---       weight_buf, Tensor hx, Tensor? cx, Tensor output, Tensor? grad_output, Tensor? grad_hy,
---       Tensor? grad_cy, int mode, int hidden_size, int num_layers, bool batch_first, float
---       dropout, bool train, bool bidirectional, int[] batch_sizes, Tensor? dropout_state, Tensor
---       reserve, bool[4] output_mask, *, Tensor(a!) out0, Tensor(b!) out1, Tensor(c!) out2,
---       Tensor(d!)[] out3) -> ()
---@param ... any
---@return any ...
function TensorOperators:miopen_rnn_backward(...) end

--- mish.
---     mish(Tensor self) -> Tensor
---@param ... any
---@return any ...
function TensorOperators:mish(...) end

--- mish_.
---     mish_(Tensor(a!) self) -> Tensor(a!)
---@param ... any
---@return any ...
function TensorOperators:mish_(...) end

--- mish_backward.
---     mish_backward(Tensor grad_output, Tensor self) -> Tensor
---@param ... any
---@return any ...
function TensorOperators:mish_backward(...) end

--- mkldnn_adaptive_avg_pool2d.
---     mkldnn_adaptive_avg_pool2d(Tensor self, int[2] output_size) -> Tensor
---@param ... any
---@return any ...
function TensorOperators:mkldnn_adaptive_avg_pool2d(...) end

--- mkldnn_adaptive_avg_pool2d_backward.
---     mkldnn_adaptive_avg_pool2d_backward(Tensor grad_output, Tensor self) -> Tensor
---@param ... any
---@return any ...
function TensorOperators:mkldnn_adaptive_avg_pool2d_backward(...) end

--- mkldnn_convolution.
---     mkldnn_convolution(Tensor self, Tensor weight, Tensor? bias, SymInt[] padding, SymInt[]
---       stride, SymInt[] dilation, SymInt groups) -> Tensor
---@param ... any
---@return any ...
function TensorOperators:mkldnn_convolution(...) end

--- mkldnn_linear.
---     mkldnn_linear(Tensor self, Tensor weight, Tensor? bias=None) -> Tensor
---@param ... any
---@return any ...
function TensorOperators:mkldnn_linear(...) end

--- mkldnn_linear_backward.
---     mkldnn_linear_backward(Tensor self, Tensor grad_output, Tensor weight, bool[3] output_mask)
---       -> (Tensor, Tensor, Tensor)
---@param ... any
---@return any ...
function TensorOperators:mkldnn_linear_backward(...) end

--- mkldnn_linear_backward_weights.
---     mkldnn_linear_backward_weights(Tensor grad_output, Tensor input, Tensor weight, bool
---       bias_defined) -> (Tensor, Tensor)
---@param ... any
---@return any ...
function TensorOperators:mkldnn_linear_backward_weights(...) end

--- mkldnn_max_pool2d.
---     mkldnn_max_pool2d(Tensor self, int[2] kernel_size, int[2] stride=[], int[2] padding=0,
---       int[2] dilation=1, bool ceil_mode=False) -> Tensor
---@param ... any
---@return any ...
function TensorOperators:mkldnn_max_pool2d(...) end

--- mkldnn_max_pool2d_backward.
---     mkldnn_max_pool2d_backward(Tensor grad_output, Tensor output, Tensor input, int[2]
---       kernel_size, int[2] stride=[], int[2] padding=0, int[2] dilation=1, bool ceil_mode=False)
---       -> Tensor
---@param ... any
---@return any ...
function TensorOperators:mkldnn_max_pool2d_backward(...) end

--- mkldnn_max_pool3d.
---     mkldnn_max_pool3d(Tensor self, int[3] kernel_size, int[3] stride=[], int[3] padding=0,
---       int[3] dilation=1, bool ceil_mode=False) -> Tensor
---@param ... any
---@return any ...
function TensorOperators:mkldnn_max_pool3d(...) end

--- mkldnn_max_pool3d_backward.
---     mkldnn_max_pool3d_backward(Tensor grad_output, Tensor output, Tensor input, int[3]
---       kernel_size, int[3] stride=[], int[3] padding=0, int[3] dilation=1, bool ceil_mode=False)
---       -> Tensor
---@param ... any
---@return any ...
function TensorOperators:mkldnn_max_pool3d_backward(...) end

--- mkldnn_reorder_conv2d_weight.
---     mkldnn_reorder_conv2d_weight(Tensor self, SymInt[2] padding=[0, 0], SymInt[2] stride=[1, 1],
---       SymInt[2] dilation=[1, 1], SymInt groups=1, SymInt[]? input_size=None) -> Tensor
---@param ... any
---@return any ...
function TensorOperators:mkldnn_reorder_conv2d_weight(...) end

--- mkldnn_reorder_conv3d_weight.
---     mkldnn_reorder_conv3d_weight(Tensor self, SymInt[3] padding=[0, 0, 0], SymInt[3] stride=[1,
---       1, 1], SymInt[3] dilation=[1, 1, 1], SymInt groups=1, SymInt[]? input_size=None) -> Tensor
---@param ... any
---@return any ...
function TensorOperators:mkldnn_reorder_conv3d_weight(...) end

--- mkldnn_rnn_layer.
---     mkldnn_rnn_layer(Tensor input, Tensor weight0, Tensor weight1, Tensor weight2, Tensor
---       weight3, Tensor hx_, Tensor cx_, bool reverse, int[] batch_sizes, int mode, int
---       hidden_size, int num_layers, bool has_biases, bool bidirectional, bool batch_first, bool
---       train) -> (Tensor, Tensor, Tensor, Tensor)
---@param ... any
---@return any ...
function TensorOperators:mkldnn_rnn_layer(...) end

--- mkldnn_rnn_layer_backward.
---     mkldnn_rnn_layer_backward(Tensor input, Tensor weight1, Tensor weight2, Tensor weight3,
---       Tensor weight4, Tensor hx_, Tensor cx_tmp, Tensor output, Tensor hy_, Tensor cy_, Tensor?
---       grad_output, Tensor? grad_hy, Tensor? grad_cy, bool reverse, int mode, int hidden_size,
---       int num_layers, bool has_biases, bool train, bool bidirectional, int[] batch_sizes, bool
---       batch_first, Tensor workspace) -> (Tensor, Tensor, Tensor, Tensor, Tensor, Tensor, Tensor)
---@param ... any
---@return any ...
function TensorOperators:mkldnn_rnn_layer_backward(...) end

--- mm.
---     mm(Tensor self, Tensor mat2) -> Tensor
---     mm.dtype(Tensor self, Tensor mat2, ScalarType out_dtype) -> Tensor
---@param ... any
---@return any ...
function TensorOperators:mm(...) end

--- mode.
---     mode(Tensor self, int dim=-1, bool keepdim=False) -> (Tensor values, Tensor indices)
---@param ... any
---@return any ...
function TensorOperators:mode(...) end

--- moveaxis.
---     moveaxis.int(Tensor(a) self, int source, int destination) -> Tensor(a)
---     moveaxis.intlist(Tensor(a) self, int[] source, int[] destination) -> Tensor(a)
---@param ... any
---@return any ...
function TensorOperators:moveaxis(...) end

--- movedim.
---     movedim.int(Tensor(a) self, int source, int destination) -> Tensor(a)
---     movedim.intlist(Tensor(a) self, int[] source, int[] destination) -> Tensor(a)
---@param ... any
---@return any ...
function TensorOperators:movedim(...) end

--- mps_convolution_backward.
---     mps_convolution_backward(Tensor self, Tensor grad_output, Tensor weight, SymInt[] padding,
---       SymInt[] stride, SymInt[] dilation, SymInt groups, bool[3] output_mask) -> (Tensor,
---       Tensor, Tensor)
---@param ... any
---@return any ...
function TensorOperators:mps_convolution_backward(...) end

--- mps_convolution_transpose_backward.
---     mps_convolution_transpose_backward(Tensor self, Tensor grad_output, Tensor weight, SymInt[]
---       padding, SymInt[] output_padding, SymInt[] stride, SymInt[] dilation, SymInt groups,
---       bool[2] output_mask) -> (Tensor, Tensor)
---@param ... any
---@return any ...
function TensorOperators:mps_convolution_transpose_backward(...) end

--- mse_loss.
---     mse_loss(Tensor self, Tensor target, int reduction=1) -> Tensor
---@param ... any
---@return any ...
function TensorOperators:mse_loss(...) end

--- mse_loss_backward.
---     mse_loss_backward(Tensor grad_output, Tensor self, Tensor target, int reduction) -> Tensor
---     mse_loss_backward.grad_input(Tensor grad_output, Tensor self, Tensor target, int reduction,
---       *, Tensor(a!) grad_input) -> Tensor(a!)
---@param ... any
---@return any ...
function TensorOperators:mse_loss_backward(...) end

--- msort.
---     msort(Tensor self) -> Tensor
---@param ... any
---@return any ...
function TensorOperators:msort(...) end

--- mul.
---     mul.Scalar(Tensor self, Scalar other) -> Tensor
---     mul.Tensor(Tensor self, Tensor other) -> Tensor
---@param ... any
---@return any ...
function TensorOperators:mul(...) end

--- mul_.
---     mul_.Scalar(Tensor(a!) self, Scalar other) -> Tensor(a!)
---     mul_.Tensor(Tensor(a!) self, Tensor other) -> Tensor(a!)
---@param ... any
---@return any ...
function TensorOperators:mul_(...) end

--- multi_margin_loss.
---     multi_margin_loss(Tensor self, Tensor target, Scalar p=1, Scalar margin=1, Tensor?
---       weight=None, int reduction=1) -> Tensor
---@param ... any
---@return any ...
function TensorOperators:multi_margin_loss(...) end

--- multi_margin_loss_backward.
---     multi_margin_loss_backward(Tensor grad_output, Tensor self, Tensor target, Scalar p, Scalar
---       margin, Tensor? weight=None, int reduction=1) -> Tensor
---     multi_margin_loss_backward.grad_input(Tensor grad_output, Tensor self, Tensor target, Scalar
---       p, Scalar margin, Tensor? weight=None, int reduction=1, *, Tensor(a!) grad_input) ->
---       Tensor(a!)
---@param ... any
---@return any ...
function TensorOperators:multi_margin_loss_backward(...) end

--- multilabel_margin_loss.
---     multilabel_margin_loss(Tensor self, Tensor target, int reduction=1) -> Tensor
---@param ... any
---@return any ...
function TensorOperators:multilabel_margin_loss(...) end

--- multilabel_margin_loss_backward.
---     multilabel_margin_loss_backward(Tensor grad_output, Tensor self, Tensor target, int
---       reduction, Tensor is_target) -> Tensor
---     multilabel_margin_loss_backward.grad_input(Tensor grad_output, Tensor self, Tensor target,
---       int reduction, Tensor is_target, *, Tensor(a!) grad_input) -> Tensor(a!)
---@param ... any
---@return any ...
function TensorOperators:multilabel_margin_loss_backward(...) end

--- multilabel_margin_loss_forward.
---     multilabel_margin_loss_forward(Tensor self, Tensor target, int reduction) -> (Tensor output,
---       Tensor is_target)
---     multilabel_margin_loss_forward.output(Tensor self, Tensor target, int reduction, *,
---       Tensor(a!) output, Tensor(b!) is_target) -> (Tensor(a!), Tensor(b!))
---@param ... any
---@return any ...
function TensorOperators:multilabel_margin_loss_forward(...) end

--- multinomial.
---     multinomial(Tensor self, SymInt num_samples, bool replacement=False, *, Generator?
---       generator=None) -> Tensor
---@param ... any
---@return any ...
function TensorOperators:multinomial(...) end

--- multiply.
---     multiply.Scalar(Tensor self, Scalar other) -> Tensor
---     multiply.Tensor(Tensor self, Tensor other) -> Tensor
---@param ... any
---@return any ...
function TensorOperators:multiply(...) end

--- multiply_.
---     multiply_.Scalar(Tensor(a!) self, Scalar other) -> Tensor(a!)
---     multiply_.Tensor(Tensor(a!) self, Tensor other) -> Tensor(a!)
---@param ... any
---@return any ...
function TensorOperators:multiply_(...) end

--- mv.
---     mv(Tensor self, Tensor vec) -> Tensor
---@param ... any
---@return any ...
function TensorOperators:mv(...) end

--- mvlgamma.
---     mvlgamma(Tensor self, int p) -> Tensor
---@param ... any
---@return any ...
function TensorOperators:mvlgamma(...) end

--- mvlgamma_.
---     mvlgamma_(Tensor(a!) self, int p) -> Tensor(a!)
---@param ... any
---@return any ...
function TensorOperators:mvlgamma_(...) end

--- nan_to_num.
---     nan_to_num(Tensor self, float? nan=None, float? posinf=None, float? neginf=None) -> Tensor
---@param ... any
---@return any ...
function TensorOperators:nan_to_num(...) end

--- nan_to_num_.
---     nan_to_num_(Tensor(a!) self, float? nan=None, float? posinf=None, float? neginf=None) ->
---       Tensor(a!)
---@param ... any
---@return any ...
function TensorOperators:nan_to_num_(...) end

--- nanmean.
---     nanmean(Tensor self, int[1]? dim=None, bool keepdim=False, *, ScalarType? dtype=None) ->
---       Tensor
---@param ... any
---@return any ...
function TensorOperators:nanmean(...) end

--- nanmedian.
---     nanmedian(Tensor self) -> Tensor
---     nanmedian.dim(Tensor self, int dim, bool keepdim=False) -> (Tensor values, Tensor indices)
---@param ... any
---@return any ...
function TensorOperators:nanmedian(...) end

--- nanquantile.
---     nanquantile(Tensor self, Tensor q, int? dim=None, bool keepdim=False, *, str
---       interpolation="linear") -> Tensor
---     nanquantile.scalar(Tensor self, float q, int? dim=None, bool keepdim=False, *, str
---       interpolation="linear") -> Tensor
---@param ... any
---@return any ...
function TensorOperators:nanquantile(...) end

--- nansum.
---     nansum(Tensor self, int[1]? dim=None, bool keepdim=False, *, ScalarType? dtype=None) ->
---       Tensor
---@param ... any
---@return any ...
function TensorOperators:nansum(...) end

--- narrow.
---     narrow(Tensor(a) self, int dim, SymInt start, SymInt length) -> Tensor(a)
---     narrow.Tensor(Tensor(a) self, int dim, Tensor start, SymInt length) -> Tensor(a)
---@param ... any
---@return any ...
function TensorOperators:narrow(...) end

--- narrow_copy.
---     narrow_copy(Tensor self, int dim, SymInt start, SymInt length) -> Tensor
---@param ... any
---@return any ...
function TensorOperators:narrow_copy(...) end

--- native_batch_norm.
---     native_batch_norm(Tensor input, Tensor? weight, Tensor? bias, Tensor? running_mean, Tensor?
---       running_var, bool training, float momentum, float eps) -> (Tensor, Tensor, Tensor)
---     native_batch_norm.out(Tensor input, Tensor? weight, Tensor? bias, Tensor? running_mean,
---       Tensor? running_var, bool training, float momentum, float eps, *, Tensor(a!) out,
---       Tensor(b!) save_mean, Tensor(c!) save_invstd) -> (Tensor(a!), Tensor(b!), Tensor(c!))
---@param ... any
---@return any ...
function TensorOperators:native_batch_norm(...) end

--- native_batch_norm_backward.
---     native_batch_norm_backward(Tensor grad_out, Tensor input, Tensor? weight, Tensor?
---       running_mean, Tensor? running_var, Tensor? save_mean, Tensor? save_invstd, bool train,
---       float eps, bool[3] output_mask) -> (Tensor, Tensor, Tensor)
---@param ... any
---@return any ...
function TensorOperators:native_batch_norm_backward(...) end

--- native_channel_shuffle.
---     native_channel_shuffle(Tensor self, SymInt groups) -> Tensor
---@param ... any
---@return any ...
function TensorOperators:native_channel_shuffle(...) end

--- native_dropout.
---     native_dropout(Tensor input, float p, bool? train) -> (Tensor, Tensor)
---@param ... any
---@return any ...
function TensorOperators:native_dropout(...) end

--- native_dropout_backward.
---     native_dropout_backward(Tensor grad_output, Tensor mask, float scale) -> Tensor
---@param ... any
---@return any ...
function TensorOperators:native_dropout_backward(...) end

--- native_group_norm.
---     native_group_norm(Tensor input, Tensor? weight, Tensor? bias, SymInt N, SymInt C, SymInt
---       HxW, int group, float eps) -> (Tensor, Tensor, Tensor)
---@param ... any
---@return any ...
function TensorOperators:native_group_norm(...) end

--- native_group_norm_backward.
---     native_group_norm_backward(Tensor grad_out, Tensor input, Tensor mean, Tensor rstd, Tensor?
---       weight, SymInt N, SymInt C, SymInt HxW, int group, bool[3] output_mask) -> (Tensor,
---       Tensor, Tensor)
---@param ... any
---@return any ...
function TensorOperators:native_group_norm_backward(...) end

--- native_layer_norm.
---     native_layer_norm(Tensor input, SymInt[] normalized_shape, Tensor? weight, Tensor? bias,
---       float eps) -> (Tensor, Tensor, Tensor)
---@param ... any
---@return any ...
function TensorOperators:native_layer_norm(...) end

--- native_layer_norm_backward.
---     native_layer_norm_backward(Tensor grad_out, Tensor input, SymInt[] normalized_shape, Tensor
---       mean, Tensor rstd, Tensor? weight, Tensor? bias, bool[3] output_mask) -> (Tensor, Tensor,
---       Tensor)
---@param ... any
---@return any ...
function TensorOperators:native_layer_norm_backward(...) end

--- native_norm.
---     native_norm(Tensor self, Scalar p=2) -> Tensor
---     native_norm.ScalarOpt_dim_dtype(Tensor self, Scalar? p, int[1] dim, bool keepdim,
---       ScalarType? dtype) -> Tensor
---@param ... any
---@return any ...
function TensorOperators:native_norm(...) end

--- ne.
---     ne.Scalar(Tensor self, Scalar other) -> Tensor
---     ne.Tensor(Tensor self, Tensor other) -> Tensor
---@param ... any
---@return any ...
function TensorOperators:ne(...) end

--- ne_.
---     ne_.Scalar(Tensor(a!) self, Scalar other) -> Tensor(a!)
---     ne_.Tensor(Tensor(a!) self, Tensor other) -> Tensor(a!)
---@param ... any
---@return any ...
function TensorOperators:ne_(...) end

--- neg.
---     neg(Tensor self) -> Tensor
---@param ... any
---@return any ...
function TensorOperators:neg(...) end

--- neg_.
---     neg_(Tensor(a!) self) -> Tensor(a!)
---@param ... any
---@return any ...
function TensorOperators:neg_(...) end

--- negative.
---     negative(Tensor self) -> Tensor
---@param ... any
---@return any ...
function TensorOperators:negative(...) end

--- negative_.
---     negative_(Tensor(a!) self) -> Tensor(a!)
---@param ... any
---@return any ...
function TensorOperators:negative_(...) end

--- nested_to_padded_tensor.
---     nested_to_padded_tensor(Tensor self, float padding, int[]? output_size=None) -> Tensor
---@param ... any
---@return any ...
function TensorOperators:nested_to_padded_tensor(...) end

--- new_empty.
---     new_empty(Tensor self, SymInt[] size, *, ScalarType? dtype=None, Layout? layout=None,
---       Device? device=None, bool? pin_memory=None) -> Tensor
---@param ... any
---@return any ...
function TensorOperators:new_empty(...) end

--- new_empty_strided.
---     new_empty_strided(Tensor self, SymInt[] size, SymInt[] stride, *, ScalarType? dtype=None,
---       Layout? layout=None, Device? device=None, bool? pin_memory=None) -> Tensor
---@param ... any
---@return any ...
function TensorOperators:new_empty_strided(...) end

--- new_full.
---     new_full(Tensor self, SymInt[] size, Scalar fill_value, *, ScalarType? dtype=None, Layout?
---       layout=None, Device? device=None, bool? pin_memory=None) -> Tensor
---@param ... any
---@return any ...
function TensorOperators:new_full(...) end

--- new_ones.
---     new_ones(Tensor self, SymInt[] size, *, ScalarType? dtype=None, Layout? layout=None, Device?
---       device=None, bool? pin_memory=None) -> Tensor
---@param ... any
---@return any ...
function TensorOperators:new_ones(...) end

--- new_zeros.
---     new_zeros(Tensor self, SymInt[] size, *, ScalarType? dtype=None, Layout? layout=None,
---       Device? device=None, bool? pin_memory=None) -> Tensor
---@param ... any
---@return any ...
function TensorOperators:new_zeros(...) end

--- nextafter.
---     nextafter(Tensor self, Tensor other) -> Tensor
---@param ... any
---@return any ...
function TensorOperators:nextafter(...) end

--- nextafter_.
---     nextafter_(Tensor(a!) self, Tensor other) -> Tensor(a!)
---@param ... any
---@return any ...
function TensorOperators:nextafter_(...) end

--- nll_loss.
---     nll_loss(Tensor self, Tensor target, Tensor? weight=None, int reduction=1, SymInt
---       ignore_index=-100) -> Tensor
---@param ... any
---@return any ...
function TensorOperators:nll_loss(...) end

--- nll_loss2d.
---     nll_loss2d(Tensor self, Tensor target, Tensor? weight=None, int reduction=1, SymInt
---       ignore_index=-100) -> Tensor
---@param ... any
---@return any ...
function TensorOperators:nll_loss2d(...) end

--- nll_loss2d_backward.
---     nll_loss2d_backward(Tensor grad_output, Tensor self, Tensor target, Tensor? weight, int
---       reduction, SymInt ignore_index, Tensor total_weight) -> Tensor
---     nll_loss2d_backward.grad_input(Tensor grad_output, Tensor self, Tensor target, Tensor?
---       weight, int reduction, SymInt ignore_index, Tensor total_weight, *, Tensor(a!) grad_input)
---       -> Tensor(a!)
---@param ... any
---@return any ...
function TensorOperators:nll_loss2d_backward(...) end

--- nll_loss2d_forward.
---     nll_loss2d_forward(Tensor self, Tensor target, Tensor? weight, int reduction, SymInt
---       ignore_index) -> (Tensor output, Tensor total_weight)
---     nll_loss2d_forward.output(Tensor self, Tensor target, Tensor? weight, int reduction, SymInt
---       ignore_index, *, Tensor(a!) output, Tensor(b!) total_weight) -> (Tensor(a!), Tensor(b!))
---@param ... any
---@return any ...
function TensorOperators:nll_loss2d_forward(...) end

--- nll_loss_backward.
---     nll_loss_backward(Tensor grad_output, Tensor self, Tensor target, Tensor? weight, int
---       reduction, SymInt ignore_index, Tensor total_weight) -> Tensor
---     nll_loss_backward.grad_input(Tensor grad_output, Tensor self, Tensor target, Tensor? weight,
---       int reduction, SymInt ignore_index, Tensor total_weight, *, Tensor(a!) grad_input) ->
---       Tensor(a!)
---@param ... any
---@return any ...
function TensorOperators:nll_loss_backward(...) end

--- nll_loss_forward.
---     nll_loss_forward(Tensor self, Tensor target, Tensor? weight, int reduction, SymInt
---       ignore_index) -> (Tensor output, Tensor total_weight)
---     nll_loss_forward.output(Tensor self, Tensor target, Tensor? weight, int reduction, SymInt
---       ignore_index, *, Tensor(a!) output, Tensor(b!) total_weight) -> (Tensor(a!), Tensor(b!))
---@param ... any
---@return any ...
function TensorOperators:nll_loss_forward(...) end

--- nll_loss_nd.
---     nll_loss_nd(Tensor self, Tensor target, Tensor? weight=None, int reduction=1, SymInt
---       ignore_index=-100) -> Tensor
---@param ... any
---@return any ...
function TensorOperators:nll_loss_nd(...) end

--- nonzero.
---     nonzero(Tensor self) -> Tensor
---@param ... any
---@return any ...
function TensorOperators:nonzero(...) end

--- nonzero_numpy.
---     nonzero_numpy(Tensor self) -> Tensor[]
---@param ... any
---@return any ...
function TensorOperators:nonzero_numpy(...) end

--- nonzero_static.
---     nonzero_static(Tensor self, *, SymInt size, int fill_value=-1) -> Tensor
---@param ... any
---@return any ...
function TensorOperators:nonzero_static(...) end

--- norm.
---     norm.Scalar(Tensor self, Scalar p=2) -> Tensor
---     norm.ScalarOpt_dtype(Tensor self, Scalar? p, *, ScalarType dtype) -> Tensor
---     norm.ScalarOpt_dim(Tensor self, Scalar? p, int[1] dim, bool keepdim=False) -> Tensor
---     norm.ScalarOpt_dim_dtype(Tensor self, Scalar? p, int[1] dim, bool keepdim, *, ScalarType
---       dtype) -> Tensor
---@param ... any
---@return any ...
function TensorOperators:norm(...) end

--- norm_except_dim.
---     norm_except_dim(Tensor v, int pow=2, int dim=0) -> Tensor
---@param ... any
---@return any ...
function TensorOperators:norm_except_dim(...) end

--- normal.
---     normal.Tensor_Tensor(Tensor mean, Tensor std, *, Generator? generator=None) -> Tensor
---     normal.Tensor_float(Tensor mean, float std=1., *, Generator? generator=None) -> Tensor
---     normal.float_Tensor(float mean, Tensor std, *, Generator? generator=None) -> Tensor
---     normal.float_float(float mean, float std, SymInt[] size, *, Generator? generator=None,
---       ScalarType? dtype=None, Layout? layout=None, Device? device=None, bool? pin_memory=None)
---       -> Tensor
---@param ... any
---@return any ...
function TensorOperators:normal(...) end

--- normal_.
---     normal_(Tensor(a!) self, float mean=0., float std=1., *, Generator? generator=None) ->
---       Tensor(a!)
---@param ... any
---@return any ...
function TensorOperators:normal_(...) end

--- normal_functional.
---     normal_functional(Tensor self, float mean=0., float std=1., *, Generator? generator=None) ->
---       Tensor
---@param ... any
---@return any ...
function TensorOperators:normal_functional(...) end

--- not_equal.
---     not_equal.Scalar(Tensor self, Scalar other) -> Tensor
---     not_equal.Tensor(Tensor self, Tensor other) -> Tensor
---@param ... any
---@return any ...
function TensorOperators:not_equal(...) end

--- not_equal_.
---     not_equal_.Scalar(Tensor(a!) self, Scalar other) -> Tensor(a!)
---     not_equal_.Tensor(Tensor(a!) self, Tensor other) -> Tensor(a!)
---@param ... any
---@return any ...
function TensorOperators:not_equal_(...) end

--- nuclear_norm.
---     nuclear_norm(Tensor self, bool keepdim=False) -> Tensor
---     nuclear_norm.dim(Tensor self, int[2] dim, bool keepdim=False) -> Tensor
---@param ... any
---@return any ...
function TensorOperators:nuclear_norm(...) end

--- numpy_T.
---     numpy_T(Tensor(a) self) -> Tensor(a)
---@param ... any
---@return any ...
function TensorOperators:numpy_T(...) end

--- one_hot.
---     one_hot(Tensor self, int num_classes=-1) -> Tensor
---@param ... any
---@return any ...
function TensorOperators:one_hot(...) end

--- ones_like.
---     ones_like(Tensor self, *, ScalarType? dtype=None, Layout? layout=None, Device? device=None,
---       bool? pin_memory=None, MemoryFormat? memory_format=None) -> Tensor
---@param ... any
---@return any ...
function TensorOperators:ones_like(...) end

--- orgqr.
---     orgqr(Tensor self, Tensor input2) -> Tensor
---@param ... any
---@return any ...
function TensorOperators:orgqr(...) end

--- ormqr.
---     ormqr(Tensor self, Tensor input2, Tensor input3, bool left=True, bool transpose=False) ->
---       Tensor
---@param ... any
---@return any ...
function TensorOperators:ormqr(...) end

--- outer.
---     outer(Tensor self, Tensor vec2) -> Tensor
---@param ... any
---@return any ...
function TensorOperators:outer(...) end

--- output_nr.
---     output_nr(Tensor self) -> int
---@param ... any
---@return any ...
function TensorOperators:output_nr(...) end

--- pad.
---     pad(Tensor self, SymInt[] pad, str mode="constant", float? value=None) -> Tensor
---@param ... any
---@return any ...
function TensorOperators:pad(...) end

--- pairwise_distance.
---     pairwise_distance(Tensor x1, Tensor x2, float p=2., float eps=9.9999999999999995e-07, bool
---       keepdim=False) -> Tensor
---@param ... any
---@return any ...
function TensorOperators:pairwise_distance(...) end

--- pdist.
---     pdist(Tensor self, float p=2.) -> Tensor
---@param ... any
---@return any ...
function TensorOperators:pdist(...) end

--- permute.
---     permute(Tensor(a) self, int[] dims) -> Tensor(a)
---@param ... any
---@return any ...
function TensorOperators:permute(...) end

--- permute_copy.
---     permute_copy(Tensor self, int[] dims) -> Tensor
---@param ... any
---@return any ...
function TensorOperators:permute_copy(...) end

--- pin_memory.
---     pin_memory(Tensor(a) self, Device? device=None) -> Tensor(a)
---@param ... any
---@return any ...
function TensorOperators:pin_memory(...) end

--- pinverse.
---     pinverse(Tensor self, float rcond=1.0000000000000001e-15) -> Tensor
---@param ... any
---@return any ...
function TensorOperators:pinverse(...) end

--- pixel_shuffle.
---     pixel_shuffle(Tensor self, int upscale_factor) -> Tensor
---@param ... any
---@return any ...
function TensorOperators:pixel_shuffle(...) end

--- pixel_unshuffle.
---     pixel_unshuffle(Tensor self, int downscale_factor) -> Tensor
---@param ... any
---@return any ...
function TensorOperators:pixel_unshuffle(...) end

--- poisson.
---     poisson(Tensor self, Generator? generator=None) -> Tensor
---@param ... any
---@return any ...
function TensorOperators:poisson(...) end

--- poisson_nll_loss.
---     poisson_nll_loss(Tensor input, Tensor target, bool log_input, bool full, float eps, int
---       reduction) -> Tensor
---@param ... any
---@return any ...
function TensorOperators:poisson_nll_loss(...) end

--- polar.
---     polar(Tensor abs, Tensor angle) -> Tensor
---@param ... any
---@return any ...
function TensorOperators:polar(...) end

--- polygamma_.
---     polygamma_(Tensor(a!) self, int n) -> Tensor(a!)
---@param ... any
---@return any ...
function TensorOperators:polygamma_(...) end

--- positive.
---     positive(Tensor(a) self) -> Tensor(a)
---@param ... any
---@return any ...
function TensorOperators:positive(...) end

--- pow_.
---     pow_.Scalar(Tensor(a!) self, Scalar exponent) -> Tensor(a!)
---     pow_.Tensor(Tensor(a!) self, Tensor exponent) -> Tensor(a!)
---@param ... any
---@return any ...
function TensorOperators:pow_(...) end

--- prelu.
---     prelu(Tensor self, Tensor weight) -> Tensor
---@param ... any
---@return any ...
function TensorOperators:prelu(...) end

--- prod.
---     prod(Tensor self, *, ScalarType? dtype=None) -> Tensor
---     prod.dim_int(Tensor self, int dim, bool keepdim=False, *, ScalarType? dtype=None) -> Tensor
---@param ... any
---@return any ...
function TensorOperators:prod(...) end

--- put.
---     put(Tensor self, Tensor index, Tensor source, bool accumulate=False) -> Tensor
---@param ... any
---@return any ...
function TensorOperators:put(...) end

--- put_.
---     put_(Tensor(a!) self, Tensor index, Tensor source, bool accumulate=False) -> Tensor(a!)
---@param ... any
---@return any ...
function TensorOperators:put_(...) end

--- q_per_channel_axis.
---     q_per_channel_axis(Tensor self) -> int
---@param ... any
---@return any ...
function TensorOperators:q_per_channel_axis(...) end

--- q_per_channel_scales.
---     q_per_channel_scales(Tensor self) -> Tensor
---@param ... any
---@return any ...
function TensorOperators:q_per_channel_scales(...) end

--- q_per_channel_zero_points.
---     q_per_channel_zero_points(Tensor self) -> Tensor
---@param ... any
---@return any ...
function TensorOperators:q_per_channel_zero_points(...) end

--- q_scale.
---     q_scale(Tensor self) -> float
---@param ... any
---@return any ...
function TensorOperators:q_scale(...) end

--- q_zero_point.
---     q_zero_point(Tensor self) -> int
---@param ... any
---@return any ...
function TensorOperators:q_zero_point(...) end

--- qr.
---     qr(Tensor self, bool some=True) -> (Tensor Q, Tensor R)
---@param ... any
---@return any ...
function TensorOperators:qr(...) end

--- quantile.
---     quantile(Tensor self, Tensor q, int? dim=None, bool keepdim=False, *, str
---       interpolation="linear") -> Tensor
---     quantile.scalar(Tensor self, float q, int? dim=None, bool keepdim=False, *, str
---       interpolation="linear") -> Tensor
---@param ... any
---@return any ...
function TensorOperators:quantile(...) end

--- quantize_per_channel.
---     quantize_per_channel(Tensor self, Tensor scales, Tensor zero_points, int axis, ScalarType
---       dtype) -> Tensor
---@param ... any
---@return any ...
function TensorOperators:quantize_per_channel(...) end

--- quantize_per_tensor.
---     quantize_per_tensor(Tensor self, float scale, int zero_point, ScalarType dtype) -> Tensor
---     quantize_per_tensor.tensor_qparams(Tensor self, Tensor scale, Tensor zero_point, ScalarType
---       dtype) -> Tensor
---     quantize_per_tensor.tensors(Tensor[] tensors, Tensor scales, Tensor zero_points, ScalarType
---       dtype) -> Tensor[]
---     quantize_per_tensor.tensors_out(Tensor[] tensors, Tensor scales, Tensor zero_points,
---       ScalarType dtype, *, Tensor(a!)[] out) -> ()
---@param ... any
---@return any ...
function TensorOperators:quantize_per_tensor(...) end

--- quantize_per_tensor_dynamic.
---     quantize_per_tensor_dynamic(Tensor self, ScalarType dtype, bool reduce_range) -> Tensor
---@param ... any
---@return any ...
function TensorOperators:quantize_per_tensor_dynamic(...) end

--- quantized_batch_norm.
---     quantized_batch_norm(Tensor input, Tensor? weight, Tensor? bias, Tensor mean, Tensor var,
---       float eps, float output_scale, int output_zero_point) -> Tensor
---@param ... any
---@return any ...
function TensorOperators:quantized_batch_norm(...) end

--- quantized_gru.
---     quantized_gru.data_legacy(Tensor data, Tensor batch_sizes, Tensor hx, Tensor[] params, bool
---       has_biases, int num_layers, float dropout, bool train, bool bidirectional) -> (Tensor,
---       Tensor)
---     quantized_gru.input_legacy(Tensor input, Tensor hx, Tensor[] params, bool has_biases, int
---       num_layers, float dropout, bool train, bool bidirectional, bool batch_first) -> (Tensor,
---       Tensor)
---@param ... any
---@return any ...
function TensorOperators:quantized_gru(...) end

--- quantized_gru_cell.
---     quantized_gru_cell(Tensor input, Tensor hx, Tensor w_ih, Tensor w_hh, Tensor b_ih, Tensor
---       b_hh, Tensor packed_ih, Tensor packed_hh, Tensor col_offsets_ih, Tensor col_offsets_hh,
---       Scalar scale_ih, Scalar scale_hh, Scalar zero_point_ih, Scalar zero_point_hh) -> Tensor
---@param ... any
---@return any ...
function TensorOperators:quantized_gru_cell(...) end

--- quantized_lstm.
---     quantized_lstm.data_legacy(Tensor data, Tensor batch_sizes, Tensor[] hx, Tensor[] params,
---       bool has_biases, int num_layers, float dropout, bool train, bool bidirectional, *,
---       ScalarType? dtype=None, bool use_dynamic=False) -> (Tensor, Tensor, Tensor)
---     quantized_lstm.input_legacy(Tensor input, Tensor[] hx, Tensor[] params, bool has_biases, int
---       num_layers, float dropout, bool train, bool bidirectional, bool batch_first, *,
---       ScalarType? dtype=None, bool use_dynamic=False) -> (Tensor, Tensor, Tensor)
---@param ... any
---@return any ...
function TensorOperators:quantized_lstm(...) end

--- quantized_lstm_cell.
---     quantized_lstm_cell(Tensor input, Tensor[] hx, Tensor w_ih, Tensor w_hh, Tensor b_ih, Tensor
---       b_hh, Tensor packed_ih, Tensor packed_hh, Tensor col_offsets_ih, Tensor col_offsets_hh,
---       Scalar scale_ih, Scalar scale_hh, Scalar zero_point_ih, Scalar zero_point_hh) -> (Tensor,
---       Tensor)
---@param ... any
---@return any ...
function TensorOperators:quantized_lstm_cell(...) end

--- quantized_max_pool1d.
---     quantized_max_pool1d(Tensor self, int[1] kernel_size, int[1] stride=[], int[1] padding=[0],
---       int[1] dilation=[1], bool ceil_mode=False) -> Tensor
---@param ... any
---@return any ...
function TensorOperators:quantized_max_pool1d(...) end

--- quantized_max_pool2d.
---     quantized_max_pool2d(Tensor self, int[2] kernel_size, int[2] stride=[], int[2] padding=0,
---       int[2] dilation=1, bool ceil_mode=False) -> Tensor
---@param ... any
---@return any ...
function TensorOperators:quantized_max_pool2d(...) end

--- quantized_max_pool3d.
---     quantized_max_pool3d(Tensor self, int[3] kernel_size, int[3] stride=[], int[3] padding=0,
---       int[3] dilation=1, bool ceil_mode=False) -> Tensor
---@param ... any
---@return any ...
function TensorOperators:quantized_max_pool3d(...) end

--- quantized_rnn_relu_cell.
---     quantized_rnn_relu_cell(Tensor input, Tensor hx, Tensor w_ih, Tensor w_hh, Tensor b_ih,
---       Tensor b_hh, Tensor packed_ih, Tensor packed_hh, Tensor col_offsets_ih, Tensor
---       col_offsets_hh, Scalar scale_ih, Scalar scale_hh, Scalar zero_point_ih, Scalar
---       zero_point_hh) -> Tensor
---@param ... any
---@return any ...
function TensorOperators:quantized_rnn_relu_cell(...) end

--- quantized_rnn_tanh_cell.
---     quantized_rnn_tanh_cell(Tensor input, Tensor hx, Tensor w_ih, Tensor w_hh, Tensor b_ih,
---       Tensor b_hh, Tensor packed_ih, Tensor packed_hh, Tensor col_offsets_ih, Tensor
---       col_offsets_hh, Scalar scale_ih, Scalar scale_hh, Scalar zero_point_ih, Scalar
---       zero_point_hh) -> Tensor
---@param ... any
---@return any ...
function TensorOperators:quantized_rnn_tanh_cell(...) end

--- rad2deg.
---     rad2deg(Tensor self) -> Tensor
---@param ... any
---@return any ...
function TensorOperators:rad2deg(...) end

--- rad2deg_.
---     rad2deg_(Tensor(a!) self) -> Tensor(a!)
---@param ... any
---@return any ...
function TensorOperators:rad2deg_(...) end

--- rand_like.
---     rand_like(Tensor self, *, ScalarType? dtype=None, Layout? layout=None, Device? device=None,
---       bool? pin_memory=None, MemoryFormat? memory_format=None) -> Tensor
---     rand_like.generator(Tensor self, *, Generator? generator, ScalarType? dtype=None, Layout?
---       layout=None, Device? device=None, bool? pin_memory=None, MemoryFormat? memory_format=None)
---       -> Tensor
---@param ... any
---@return any ...
function TensorOperators:rand_like(...) end

--- randint_like.
---     randint_like(Tensor self, SymInt high, *, ScalarType? dtype=None, Layout? layout=None,
---       Device? device=None, bool? pin_memory=None, MemoryFormat? memory_format=None) -> Tensor
---     randint_like.Tensor(Tensor self, Tensor high, *, ScalarType? dtype=None, Layout?
---       layout=None, Device? device=None, bool? pin_memory=None, MemoryFormat? memory_format=None)
---       -> Tensor
---     randint_like.Tensor_generator(Tensor self, Tensor high, *, Generator? generator, ScalarType?
---       dtype=None, Layout? layout=None, Device? device=None, bool? pin_memory=None, MemoryFormat?
---       memory_format=None) -> Tensor
---     randint_like.generator(Tensor self, SymInt high, *, Generator? generator, ScalarType?
---       dtype=None, Layout? layout=None, Device? device=None, bool? pin_memory=None, MemoryFormat?
---       memory_format=None) -> Tensor
---     randint_like.low_dtype(Tensor self, SymInt low, SymInt high, *, ScalarType? dtype=None,
---       Layout? layout=None, Device? device=None, bool? pin_memory=None, MemoryFormat?
---       memory_format=None) -> Tensor
---     randint_like.low_generator_dtype(Tensor self, SymInt low, SymInt high, *, Generator?
---       generator, ScalarType? dtype=None, Layout? layout=None, Device? device=None, bool?
---       pin_memory=None, MemoryFormat? memory_format=None) -> Tensor
---@param ... any
---@return any ...
function TensorOperators:randint_like(...) end

--- randn_like.
---     randn_like(Tensor self, *, ScalarType? dtype=None, Layout? layout=None, Device? device=None,
---       bool? pin_memory=None, MemoryFormat? memory_format=None) -> Tensor
---     randn_like.generator(Tensor self, *, Generator? generator, ScalarType? dtype=None, Layout?
---       layout=None, Device? device=None, bool? pin_memory=None, MemoryFormat? memory_format=None)
---       -> Tensor
---@param ... any
---@return any ...
function TensorOperators:randn_like(...) end

--- random.
---     random(Tensor self, *, Generator? generator=None) -> Tensor
---     random.to(Tensor self, int to, *, Generator? generator=None) -> Tensor
---     random.from(Tensor self, int from, int? to, *, Generator? generator=None) -> Tensor
---@param ... any
---@return any ...
function TensorOperators:random(...) end

--- random_.
---     random_(Tensor(a!) self, *, Generator? generator=None) -> Tensor(a!)
---     random_.to(Tensor(a!) self, int to, *, Generator? generator=None) -> Tensor(a!)
---     random_.from(Tensor(a!) self, int from, int? to, *, Generator? generator=None) -> Tensor(a!)
---@param ... any
---@return any ...
function TensorOperators:random_(...) end

--- ravel.
---     ravel(Tensor(a) self) -> Tensor(a)
---@param ... any
---@return any ...
function TensorOperators:ravel(...) end

--- real.
---     real(Tensor(a) self) -> Tensor(a)
---@param ... any
---@return any ...
function TensorOperators:real(...) end

--- reciprocal.
---     reciprocal(Tensor self) -> Tensor
---@param ... any
---@return any ...
function TensorOperators:reciprocal(...) end

--- reciprocal_.
---     reciprocal_(Tensor(a!) self) -> Tensor(a!)
---@param ... any
---@return any ...
function TensorOperators:reciprocal_(...) end

--- reflection_pad1d.
---     reflection_pad1d(Tensor self, SymInt[2] padding) -> Tensor
---@param ... any
---@return any ...
function TensorOperators:reflection_pad1d(...) end

--- reflection_pad1d_backward.
---     reflection_pad1d_backward(Tensor grad_output, Tensor self, SymInt[2] padding) -> Tensor
---     reflection_pad1d_backward.grad_input(Tensor grad_output, Tensor self, SymInt[2] padding, *,
---       Tensor(a!) grad_input) -> Tensor(a!)
---@param ... any
---@return any ...
function TensorOperators:reflection_pad1d_backward(...) end

--- reflection_pad2d.
---     reflection_pad2d(Tensor self, SymInt[4] padding) -> Tensor
---@param ... any
---@return any ...
function TensorOperators:reflection_pad2d(...) end

--- reflection_pad2d_backward.
---     reflection_pad2d_backward(Tensor grad_output, Tensor self, SymInt[4] padding) -> Tensor
---     reflection_pad2d_backward.grad_input(Tensor grad_output, Tensor self, SymInt[4] padding, *,
---       Tensor(a!) grad_input) -> Tensor(a!)
---@param ... any
---@return any ...
function TensorOperators:reflection_pad2d_backward(...) end

--- reflection_pad3d.
---     reflection_pad3d(Tensor self, SymInt[6] padding) -> Tensor
---@param ... any
---@return any ...
function TensorOperators:reflection_pad3d(...) end

--- reflection_pad3d_backward.
---     reflection_pad3d_backward(Tensor grad_output, Tensor self, SymInt[6] padding) -> Tensor
---     reflection_pad3d_backward.grad_input(Tensor grad_output, Tensor self, SymInt[6] padding, *,
---       Tensor(a!) grad_input) -> Tensor(a!)
---@param ... any
---@return any ...
function TensorOperators:reflection_pad3d_backward(...) end

--- relu.
---     relu(Tensor self) -> Tensor
---@param ... any
---@return any ...
function TensorOperators:relu(...) end

--- relu6.
---     relu6(Tensor self) -> Tensor
---@param ... any
---@return any ...
function TensorOperators:relu6(...) end

--- relu6_.
---     relu6_(Tensor(a!) self) -> Tensor(a!)
---@param ... any
---@return any ...
function TensorOperators:relu6_(...) end

--- relu_.
---     relu_(Tensor(a!) self) -> Tensor(a!)
---@param ... any
---@return any ...
function TensorOperators:relu_(...) end

--- remainder.
---     remainder.Scalar(Tensor self, Scalar other) -> Tensor
---     remainder.Scalar_Tensor(Scalar self, Tensor other) -> Tensor
---     remainder.Tensor(Tensor self, Tensor other) -> Tensor
---@param ... any
---@return any ...
function TensorOperators:remainder(...) end

--- remainder_.
---     remainder_.Scalar(Tensor(a!) self, Scalar other) -> Tensor(a!)
---     remainder_.Tensor(Tensor(a!) self, Tensor other) -> Tensor(a!)
---@param ... any
---@return any ...
function TensorOperators:remainder_(...) end

--- renorm.
---     renorm(Tensor self, Scalar p, int dim, Scalar maxnorm) -> Tensor
---@param ... any
---@return any ...
function TensorOperators:renorm(...) end

--- renorm_.
---     renorm_(Tensor(a!) self, Scalar p, int dim, Scalar maxnorm) -> Tensor(a!)
---@param ... any
---@return any ...
function TensorOperators:renorm_(...) end

--- repeat_.
---     repeat(Tensor self, SymInt[] repeats) -> Tensor
---@param ... any
---@return any ...
function TensorOperators:repeat_(...) end

--- repeat_interleave.
---     repeat_interleave.Tensor(Tensor repeats, *, SymInt? output_size=None) -> Tensor
---     repeat_interleave.self_Tensor(Tensor self, Tensor repeats, int? dim=None, *, SymInt?
---       output_size=None) -> Tensor
---     repeat_interleave.self_int(Tensor self, SymInt repeats, int? dim=None, *, SymInt?
---       output_size=None) -> Tensor
---@param ... any
---@return any ...
function TensorOperators:repeat_interleave(...) end

--- replication_pad1d.
---     replication_pad1d(Tensor self, SymInt[2] padding) -> Tensor
---@param ... any
---@return any ...
function TensorOperators:replication_pad1d(...) end

--- replication_pad1d_backward.
---     replication_pad1d_backward(Tensor grad_output, Tensor self, SymInt[2] padding) -> Tensor
---     replication_pad1d_backward.grad_input(Tensor grad_output, Tensor self, SymInt[2] padding, *,
---       Tensor(a!) grad_input) -> Tensor(a!)
---@param ... any
---@return any ...
function TensorOperators:replication_pad1d_backward(...) end

--- replication_pad2d.
---     replication_pad2d(Tensor self, SymInt[4] padding) -> Tensor
---@param ... any
---@return any ...
function TensorOperators:replication_pad2d(...) end

--- replication_pad2d_backward.
---     replication_pad2d_backward(Tensor grad_output, Tensor self, SymInt[4] padding) -> Tensor
---     replication_pad2d_backward.grad_input(Tensor grad_output, Tensor self, SymInt[4] padding, *,
---       Tensor(a!) grad_input) -> Tensor(a!)
---@param ... any
---@return any ...
function TensorOperators:replication_pad2d_backward(...) end

--- replication_pad3d.
---     replication_pad3d(Tensor self, SymInt[6] padding) -> Tensor
---@param ... any
---@return any ...
function TensorOperators:replication_pad3d(...) end

--- replication_pad3d_backward.
---     replication_pad3d_backward(Tensor grad_output, Tensor self, SymInt[6] padding) -> Tensor
---     replication_pad3d_backward.grad_input(Tensor grad_output, Tensor self, SymInt[6] padding, *,
---       Tensor(a!) grad_input) -> Tensor(a!)
---@param ... any
---@return any ...
function TensorOperators:replication_pad3d_backward(...) end

--- requires_grad_.
---     requires_grad_(Tensor(a!) self, bool requires_grad=True) -> Tensor(a!)
---@param ... any
---@return any ...
function TensorOperators:requires_grad_(...) end

--- reshape.
---     reshape(Tensor(a) self, SymInt[] shape) -> Tensor(a)
---@param ... any
---@return any ...
function TensorOperators:reshape(...) end

--- reshape_as.
---     reshape_as(Tensor(a) self, Tensor other) -> Tensor(a)
---@param ... any
---@return any ...
function TensorOperators:reshape_as(...) end

--- resize.
---     resize(Tensor self, SymInt[] size, *, MemoryFormat? memory_format=None) -> Tensor
---@param ... any
---@return any ...
function TensorOperators:resize(...) end

--- resize_.
---     resize_(Tensor(a!) self, SymInt[] size, *, MemoryFormat? memory_format=None) -> Tensor(a!)
---@param ... any
---@return any ...
function TensorOperators:resize_(...) end

--- resize_as.
---     resize_as(Tensor self, Tensor the_template, *, MemoryFormat? memory_format=None) -> Tensor
---@param ... any
---@return any ...
function TensorOperators:resize_as(...) end

--- resize_as_.
---     resize_as_(Tensor(a!) self, Tensor the_template, *, MemoryFormat? memory_format=None) ->
---       Tensor(a!)
---@param ... any
---@return any ...
function TensorOperators:resize_as_(...) end

--- resize_as_sparse.
---     resize_as_sparse(Tensor self, Tensor the_template) -> Tensor
---@param ... any
---@return any ...
function TensorOperators:resize_as_sparse(...) end

--- resize_as_sparse_.
---     resize_as_sparse_(Tensor(a!) self, Tensor the_template) -> Tensor(a!)
---@param ... any
---@return any ...
function TensorOperators:resize_as_sparse_(...) end

--- resolve_conj.
---     resolve_conj(Tensor(a) self) -> Tensor(a)
---@param ... any
---@return any ...
function TensorOperators:resolve_conj(...) end

--- resolve_neg.
---     resolve_neg(Tensor(a) self) -> Tensor(a)
---@param ... any
---@return any ...
function TensorOperators:resolve_neg(...) end

--- result_type.
---     result_type.Scalar(Tensor tensor, Scalar other) -> ScalarType
---     result_type.Scalar_Scalar(Scalar scalar1, Scalar scalar2) -> ScalarType
---     result_type.Scalar_Tensor(Scalar scalar, Tensor tensor) -> ScalarType
---     result_type.Tensor(Tensor tensor, Tensor other) -> ScalarType
---@param ... any
---@return any ...
function TensorOperators:result_type(...) end

--- retain_grad.
---     retain_grad(Tensor(a!) self) -> ()
---@param ... any
---@return any ...
function TensorOperators:retain_grad(...) end

--- retains_grad.
---     retains_grad(Tensor self) -> bool
---@param ... any
---@return any ...
function TensorOperators:retains_grad(...) end

--- rms_norm.
---     rms_norm(Tensor input, SymInt[] normalized_shape, Tensor? weight=None, float? eps=None) ->
---       Tensor
---@param ... any
---@return any ...
function TensorOperators:rms_norm(...) end

--- rnn_relu.
---     rnn_relu.data(Tensor data, Tensor batch_sizes, Tensor hx, Tensor[] params, bool has_biases,
---       int num_layers, float dropout, bool train, bool bidirectional) -> (Tensor, Tensor)
---     rnn_relu.input(Tensor input, Tensor hx, Tensor[] params, bool has_biases, int num_layers,
---       float dropout, bool train, bool bidirectional, bool batch_first) -> (Tensor, Tensor)
---@param ... any
---@return any ...
function TensorOperators:rnn_relu(...) end

--- rnn_relu_cell.
---     rnn_relu_cell(Tensor input, Tensor hx, Tensor w_ih, Tensor w_hh, Tensor? b_ih=None, Tensor?
---       b_hh=None) -> Tensor
---@param ... any
---@return any ...
function TensorOperators:rnn_relu_cell(...) end

--- rnn_tanh.
---     rnn_tanh.data(Tensor data, Tensor batch_sizes, Tensor hx, Tensor[] params, bool has_biases,
---       int num_layers, float dropout, bool train, bool bidirectional) -> (Tensor, Tensor)
---     rnn_tanh.input(Tensor input, Tensor hx, Tensor[] params, bool has_biases, int num_layers,
---       float dropout, bool train, bool bidirectional, bool batch_first) -> (Tensor, Tensor)
---@param ... any
---@return any ...
function TensorOperators:rnn_tanh(...) end

--- rnn_tanh_cell.
---     rnn_tanh_cell(Tensor input, Tensor hx, Tensor w_ih, Tensor w_hh, Tensor? b_ih=None, Tensor?
---       b_hh=None) -> Tensor
---@param ... any
---@return any ...
function TensorOperators:rnn_tanh_cell(...) end

--- roll.
---     roll(Tensor self, SymInt[1] shifts, int[1] dims=[]) -> Tensor
---@param ... any
---@return any ...
function TensorOperators:roll(...) end

--- rot90.
---     rot90(Tensor self, int k=1, int[] dims=[0, 1]) -> Tensor
---@param ... any
---@return any ...
function TensorOperators:rot90(...) end

--- round.
---     round(Tensor self) -> Tensor
---     round.decimals(Tensor self, *, int decimals) -> Tensor
---@param ... any
---@return any ...
function TensorOperators:round(...) end

--- round_.
---     round_(Tensor(a!) self) -> Tensor(a!)
---     round_.decimals(Tensor(a!) self, *, int decimals) -> Tensor(a!)
---@param ... any
---@return any ...
function TensorOperators:round_(...) end

--- row_indices.
---     row_indices(Tensor(a) self) -> Tensor(a)
---@param ... any
---@return any ...
function TensorOperators:row_indices(...) end

--- row_indices_copy.
---     row_indices_copy(Tensor self) -> Tensor
---@param ... any
---@return any ...
function TensorOperators:row_indices_copy(...) end

--- rrelu.
---     rrelu(Tensor self, Scalar lower=0.125, Scalar upper=0.33333333333333331, bool
---       training=False, Generator? generator=None) -> Tensor
---@param ... any
---@return any ...
function TensorOperators:rrelu(...) end

--- rrelu_.
---     rrelu_(Tensor(a!) self, Scalar lower=0.125, Scalar upper=0.33333333333333331, bool
---       training=False, Generator? generator=None) -> Tensor(a!)
---@param ... any
---@return any ...
function TensorOperators:rrelu_(...) end

--- rrelu_with_noise.
---     rrelu_with_noise(Tensor self, Tensor(b!) noise, Scalar lower=0.125, Scalar
---       upper=0.33333333333333331, bool training=False, Generator? generator=None) -> Tensor
---@param ... any
---@return any ...
function TensorOperators:rrelu_with_noise(...) end

--- rrelu_with_noise_.
---     rrelu_with_noise_(Tensor(a!) self, Tensor(b!) noise, Scalar lower=0.125, Scalar
---       upper=0.33333333333333331, bool training=False, Generator? generator=None) -> Tensor(a!)
---@param ... any
---@return any ...
function TensorOperators:rrelu_with_noise_(...) end

--- rrelu_with_noise_backward.
---     rrelu_with_noise_backward(Tensor grad_output, Tensor self, Tensor noise, Scalar lower,
---       Scalar upper, bool training, bool self_is_result) -> Tensor
---@param ... any
---@return any ...
function TensorOperators:rrelu_with_noise_backward(...) end

--- rrelu_with_noise_functional.
---     rrelu_with_noise_functional(Tensor self, Tensor noise, Scalar lower=0.125, Scalar
---       upper=0.33333333333333331, bool training=False, Generator? generator=None) -> (Tensor,
---       Tensor noise_out)
---@param ... any
---@return any ...
function TensorOperators:rrelu_with_noise_functional(...) end

--- rsqrt.
---     rsqrt(Tensor self) -> Tensor
---@param ... any
---@return any ...
function TensorOperators:rsqrt(...) end

--- rsqrt_.
---     rsqrt_(Tensor(a!) self) -> Tensor(a!)
---@param ... any
---@return any ...
function TensorOperators:rsqrt_(...) end

--- rsub.
---     rsub.Scalar(Tensor self, Scalar other, Scalar alpha=1) -> Tensor
---     rsub.Tensor(Tensor self, Tensor other, *, Scalar alpha=1) -> Tensor
---@param ... any
---@return any ...
function TensorOperators:rsub(...) end

--- scaled_dot_product_attention.
---     scaled_dot_product_attention(Tensor query, Tensor key, Tensor value, Tensor? attn_mask=None,
---       float dropout_p=0., bool is_causal=False, *, float? scale=None, bool enable_gqa=False) ->
---       Tensor
---@param ... any
---@return any ...
function TensorOperators:scaled_dot_product_attention(...) end

--- scatter.
---     scatter.src(Tensor self, int dim, Tensor index, Tensor src) -> Tensor
---     scatter.value(Tensor self, int dim, Tensor index, Scalar value) -> Tensor
---     scatter.reduce(Tensor self, int dim, Tensor index, Tensor src, *, str reduce) -> Tensor
---     scatter.value_reduce(Tensor self, int dim, Tensor index, Scalar value, *, str reduce) ->
---       Tensor
---@param ... any
---@return any ...
function TensorOperators:scatter(...) end

--- scatter_.
---     scatter_.src(Tensor(a!) self, int dim, Tensor index, Tensor src) -> Tensor(a!)
---     scatter_.value(Tensor(a!) self, int dim, Tensor index, Scalar value) -> Tensor(a!)
---     scatter_.reduce(Tensor(a!) self, int dim, Tensor index, Tensor src, *, str reduce) ->
---       Tensor(a!)
---     scatter_.value_reduce(Tensor(a!) self, int dim, Tensor index, Scalar value, *, str reduce)
---       -> Tensor(a!)
---@param ... any
---@return any ...
function TensorOperators:scatter_(...) end

--- scatter_add.
---     scatter_add(Tensor self, int dim, Tensor index, Tensor src) -> Tensor
---@param ... any
---@return any ...
function TensorOperators:scatter_add(...) end

--- scatter_add_.
---     scatter_add_(Tensor(a!) self, int dim, Tensor index, Tensor src) -> Tensor(a!)
---@param ... any
---@return any ...
function TensorOperators:scatter_add_(...) end

--- scatter_reduce.
---     scatter_reduce.two(Tensor self, int dim, Tensor index, Tensor src, str reduce, *, bool
---       include_self=True) -> Tensor
---@param ... any
---@return any ...
function TensorOperators:scatter_reduce(...) end

--- scatter_reduce_.
---     scatter_reduce_.two(Tensor(a!) self, int dim, Tensor index, Tensor src, str reduce, *, bool
---       include_self=True) -> Tensor(a!)
---@param ... any
---@return any ...
function TensorOperators:scatter_reduce_(...) end

--- searchsorted.
---     searchsorted.Scalar(Tensor sorted_sequence, Scalar self, *, bool out_int32=False, bool
---       right=False, str? side=None, Tensor? sorter=None) -> Tensor
---     searchsorted.Tensor(Tensor sorted_sequence, Tensor self, *, bool out_int32=False, bool
---       right=False, str? side=None, Tensor? sorter=None) -> Tensor
---@param ... any
---@return any ...
function TensorOperators:searchsorted(...) end

--- segment_reduce.
---     segment_reduce(Tensor data, str reduce, *, Tensor? lengths=None, Tensor? indices=None,
---       Tensor? offsets=None, int axis=0, bool unsafe=False, Scalar? initial=None) -> Tensor
---@param ... any
---@return any ...
function TensorOperators:segment_reduce(...) end

--- select.
---     select.int(Tensor(a) self, int dim, SymInt index) -> Tensor(a)
---@param ... any
---@return any ...
function TensorOperators:select(...) end

--- select_backward.
---     select_backward(Tensor grad_output, SymInt[] input_sizes, int dim, SymInt index) -> Tensor
---@param ... any
---@return any ...
function TensorOperators:select_backward(...) end

--- select_copy.
---     select_copy.int(Tensor self, int dim, SymInt index) -> Tensor
---@param ... any
---@return any ...
function TensorOperators:select_copy(...) end

--- select_scatter.
---     select_scatter(Tensor self, Tensor src, int dim, SymInt index) -> Tensor
---@param ... any
---@return any ...
function TensorOperators:select_scatter(...) end

--- selu.
---     selu(Tensor self) -> Tensor
---@param ... any
---@return any ...
function TensorOperators:selu(...) end

--- selu_.
---     selu_(Tensor(a!) self) -> Tensor(a!)
---@param ... any
---@return any ...
function TensorOperators:selu_(...) end

--- set.
---     set(Tensor self) -> Tensor
---     set.source_Tensor(Tensor self, Tensor source) -> Tensor
---@param ... any
---@return any ...
function TensorOperators:set(...) end

--- set_.
---     set_(Tensor(a!) self) -> Tensor(a!)
---     set_.source_Tensor(Tensor(a!) self, Tensor source) -> Tensor(a!)
---     set_.source_Tensor_storage_offset(Tensor(a!) self, Tensor source, SymInt storage_offset,
---       SymInt[] size, SymInt[] stride=[]) -> Tensor(a!)
---@param ... any
---@return any ...
function TensorOperators:set_(...) end

--- set_data.
---     set_data(Tensor(a!) self, Tensor new_data) -> ()
---@param ... any
---@return any ...
function TensorOperators:set_data(...) end

--- sgn.
---     sgn(Tensor self) -> Tensor
---@param ... any
---@return any ...
function TensorOperators:sgn(...) end

--- sgn_.
---     sgn_(Tensor(a!) self) -> Tensor(a!)
---@param ... any
---@return any ...
function TensorOperators:sgn_(...) end

--- sigmoid.
---     sigmoid(Tensor self) -> Tensor
---@param ... any
---@return any ...
function TensorOperators:sigmoid(...) end

--- sigmoid_.
---     sigmoid_(Tensor(a!) self) -> Tensor(a!)
---@param ... any
---@return any ...
function TensorOperators:sigmoid_(...) end

--- sigmoid_backward.
---     sigmoid_backward(Tensor grad_output, Tensor output) -> Tensor
---     sigmoid_backward.grad_input(Tensor grad_output, Tensor output, *, Tensor(a!) grad_input) ->
---       Tensor(a!)
---@param ... any
---@return any ...
function TensorOperators:sigmoid_backward(...) end

--- sign.
---     sign(Tensor self) -> Tensor
---@param ... any
---@return any ...
function TensorOperators:sign(...) end

--- sign_.
---     sign_(Tensor(a!) self) -> Tensor(a!)
---@param ... any
---@return any ...
function TensorOperators:sign_(...) end

--- signbit.
---     signbit(Tensor self) -> Tensor
---@param ... any
---@return any ...
function TensorOperators:signbit(...) end

--- silu.
---     silu(Tensor self) -> Tensor
---@param ... any
---@return any ...
function TensorOperators:silu(...) end

--- silu_.
---     silu_(Tensor(a!) self) -> Tensor(a!)
---@param ... any
---@return any ...
function TensorOperators:silu_(...) end

--- silu_backward.
---     silu_backward(Tensor grad_output, Tensor self) -> Tensor
---     silu_backward.grad_input(Tensor grad_output, Tensor self, *, Tensor(a!) grad_input) ->
---       Tensor(a!)
---@param ... any
---@return any ...
function TensorOperators:silu_backward(...) end

--- sin.
---     sin(Tensor self) -> Tensor
---@param ... any
---@return any ...
function TensorOperators:sin(...) end

--- sin_.
---     sin_(Tensor(a!) self) -> Tensor(a!)
---@param ... any
---@return any ...
function TensorOperators:sin_(...) end

--- sinc.
---     sinc(Tensor self) -> Tensor
---@param ... any
---@return any ...
function TensorOperators:sinc(...) end

--- sinc_.
---     sinc_(Tensor(a!) self) -> Tensor(a!)
---@param ... any
---@return any ...
function TensorOperators:sinc_(...) end

--- sinh.
---     sinh(Tensor self) -> Tensor
---@param ... any
---@return any ...
function TensorOperators:sinh(...) end

--- sinh_.
---     sinh_(Tensor(a!) self) -> Tensor(a!)
---@param ... any
---@return any ...
function TensorOperators:sinh_(...) end

--- slice.
---     slice.Tensor(Tensor(a) self, int dim=0, SymInt? start=None, SymInt? end=None, SymInt step=1)
---       -> Tensor(a)
---@param ... any
---@return any ...
function TensorOperators:slice(...) end

--- slice_backward.
---     slice_backward(Tensor grad_output, SymInt[] input_sizes, int dim, SymInt start, SymInt end,
---       SymInt step) -> Tensor
---@param ... any
---@return any ...
function TensorOperators:slice_backward(...) end

--- slice_copy.
---     slice_copy.Tensor(Tensor self, int dim=0, SymInt? start=None, SymInt? end=None, SymInt
---       step=1) -> Tensor
---@param ... any
---@return any ...
function TensorOperators:slice_copy(...) end

--- slice_inverse.
---     slice_inverse(Tensor(a) self, Tensor src, int dim=0, SymInt? start=None, SymInt? end=None,
---       SymInt step=1) -> Tensor(a)
---@param ... any
---@return any ...
function TensorOperators:slice_inverse(...) end

--- slice_scatter.
---     slice_scatter(Tensor self, Tensor src, int dim=0, SymInt? start=None, SymInt? end=None,
---       SymInt step=1) -> Tensor
---@param ... any
---@return any ...
function TensorOperators:slice_scatter(...) end

--- slogdet.
---     slogdet(Tensor self) -> (Tensor sign, Tensor logabsdet)
---@param ... any
---@return any ...
function TensorOperators:slogdet(...) end

--- slow_conv3d.
---     slow_conv3d(Tensor self, Tensor weight, SymInt[3] kernel_size, Tensor? bias=None, SymInt[3]
---       stride=[1, 1, 1], SymInt[3] padding=[0, 0, 0]) -> Tensor
---@param ... any
---@return any ...
function TensorOperators:slow_conv3d(...) end

--- slow_conv3d_forward.
---     slow_conv3d_forward(Tensor self, Tensor weight, SymInt[3] kernel_size, Tensor? bias,
---       SymInt[3] stride, SymInt[3] padding) -> Tensor
---@param ... any
---@return any ...
function TensorOperators:slow_conv3d_forward(...) end

--- slow_conv_dilated2d.
---     slow_conv_dilated2d(Tensor self, Tensor weight, SymInt[2] kernel_size, Tensor? bias=None,
---       SymInt[2] stride=[1, 1], SymInt[2] padding=[0, 0], SymInt[2] dilation=[1, 1]) -> Tensor
---@param ... any
---@return any ...
function TensorOperators:slow_conv_dilated2d(...) end

--- slow_conv_dilated3d.
---     slow_conv_dilated3d(Tensor self, Tensor weight, SymInt[3] kernel_size, Tensor? bias=None,
---       SymInt[3] stride=[1, 1, 1], SymInt[3] padding=[0, 0, 0], SymInt[3] dilation=[1, 1, 1]) ->
---       Tensor
---@param ... any
---@return any ...
function TensorOperators:slow_conv_dilated3d(...) end

--- slow_conv_transpose2d.
---     slow_conv_transpose2d(Tensor self, Tensor weight, SymInt[2] kernel_size, Tensor? bias=None,
---       SymInt[2] stride=[1, 1], SymInt[2] padding=[0, 0], SymInt[2] output_padding=[0, 0],
---       SymInt[2] dilation=[1, 1]) -> Tensor
---@param ... any
---@return any ...
function TensorOperators:slow_conv_transpose2d(...) end

--- slow_conv_transpose3d.
---     slow_conv_transpose3d(Tensor self, Tensor weight, SymInt[3] kernel_size, Tensor? bias=None,
---       SymInt[3] stride=[1, 1, 1], SymInt[3] padding=[0, 0, 0], SymInt[3] output_padding=[0, 0,
---       0], SymInt[3] dilation=[1, 1, 1]) -> Tensor
---@param ... any
---@return any ...
function TensorOperators:slow_conv_transpose3d(...) end

--- smm.
---     smm(Tensor self, Tensor mat2) -> Tensor
---@param ... any
---@return any ...
function TensorOperators:smm(...) end

--- smooth_l1_loss.
---     smooth_l1_loss(Tensor self, Tensor target, int reduction=1, float beta=1.) -> Tensor
---@param ... any
---@return any ...
function TensorOperators:smooth_l1_loss(...) end

--- smooth_l1_loss_backward.
---     smooth_l1_loss_backward(Tensor grad_output, Tensor self, Tensor target, int reduction, float
---       beta) -> Tensor
---     smooth_l1_loss_backward.grad_input(Tensor grad_output, Tensor self, Tensor target, int
---       reduction, float beta, *, Tensor(a!) grad_input) -> Tensor(a!)
---@param ... any
---@return any ...
function TensorOperators:smooth_l1_loss_backward(...) end

--- soft_margin_loss.
---     soft_margin_loss(Tensor self, Tensor target, int reduction=1) -> Tensor
---@param ... any
---@return any ...
function TensorOperators:soft_margin_loss(...) end

--- soft_margin_loss_backward.
---     soft_margin_loss_backward(Tensor grad_output, Tensor self, Tensor target, int reduction) ->
---       Tensor
---     soft_margin_loss_backward.grad_input(Tensor grad_output, Tensor self, Tensor target, int
---       reduction, *, Tensor(a!) grad_input) -> Tensor(a!)
---@param ... any
---@return any ...
function TensorOperators:soft_margin_loss_backward(...) end

--- softmax.
---     softmax.int(Tensor self, int dim, ScalarType? dtype=None) -> Tensor
---@param ... any
---@return any ...
function TensorOperators:softmax(...) end

--- softplus.
---     softplus(Tensor self, Scalar beta=1, Scalar threshold=20) -> Tensor
---@param ... any
---@return any ...
function TensorOperators:softplus(...) end

--- softplus_backward.
---     softplus_backward(Tensor grad_output, Tensor self, Scalar beta, Scalar threshold) -> Tensor
---     softplus_backward.grad_input(Tensor grad_output, Tensor self, Scalar beta, Scalar threshold,
---       *, Tensor(a!) grad_input) -> Tensor(a!)
---@param ... any
---@return any ...
function TensorOperators:softplus_backward(...) end

--- softshrink.
---     softshrink(Tensor self, Scalar lambd=0.5) -> Tensor
---@param ... any
---@return any ...
function TensorOperators:softshrink(...) end

--- softshrink_backward.
---     softshrink_backward(Tensor grad_output, Tensor self, Scalar lambd) -> Tensor
---     softshrink_backward.grad_input(Tensor grad_output, Tensor self, Scalar lambd, *, Tensor(a!)
---       grad_input) -> Tensor(a!)
---@param ... any
---@return any ...
function TensorOperators:softshrink_backward(...) end

--- sort.
---     sort(Tensor self, int dim=-1, bool descending=False) -> (Tensor values, Tensor indices)
---     sort.stable(Tensor self, *, bool? stable, int dim=-1, bool descending=False) -> (Tensor
---       values, Tensor indices)
---@param ... any
---@return any ...
function TensorOperators:sort(...) end

--- sparse_bsc_tensor.
---     sparse_bsc_tensor.ccol_row_value(Tensor ccol_indices, Tensor row_indices, Tensor values, *,
---       ScalarType? dtype=None, Layout? layout=None, Device? device=None, bool? pin_memory=False)
---       -> Tensor
---     sparse_bsc_tensor.ccol_row_value_size(Tensor ccol_indices, Tensor row_indices, Tensor
---       values, int[] size, *, ScalarType? dtype=None, Layout? layout=None, Device? device=None,
---       bool? pin_memory=False) -> Tensor
---@param ... any
---@return any ...
function TensorOperators:sparse_bsc_tensor(...) end

--- sparse_bsr_tensor.
---     sparse_bsr_tensor.crow_col_value(Tensor crow_indices, Tensor col_indices, Tensor values, *,
---       ScalarType? dtype=None, Layout? layout=None, Device? device=None, bool? pin_memory=False)
---       -> Tensor
---     sparse_bsr_tensor.crow_col_value_size(Tensor crow_indices, Tensor col_indices, Tensor
---       values, int[] size, *, ScalarType? dtype=None, Layout? layout=None, Device? device=None,
---       bool? pin_memory=False) -> Tensor
---@param ... any
---@return any ...
function TensorOperators:sparse_bsr_tensor(...) end

--- sparse_compressed_tensor.
---     sparse_compressed_tensor.comp_plain_value(Tensor compressed_indices, Tensor plain_indices,
---       Tensor values, *, ScalarType? dtype=None, Layout? layout=None, Device? device=None, bool?
---       pin_memory=False) -> Tensor
---     sparse_compressed_tensor.comp_plain_value_size(Tensor compressed_indices, Tensor
---       plain_indices, Tensor values, SymInt[] size, *, ScalarType? dtype=None, Layout?
---       layout=None, Device? device=None, bool? pin_memory=False) -> Tensor
---@param ... any
---@return any ...
function TensorOperators:sparse_compressed_tensor(...) end

--- sparse_csc_tensor.
---     sparse_csc_tensor.ccol_row_value(Tensor ccol_indices, Tensor row_indices, Tensor values, *,
---       ScalarType? dtype=None, Layout? layout=None, Device? device=None, bool? pin_memory=False)
---       -> Tensor
---     sparse_csc_tensor.ccol_row_value_size(Tensor ccol_indices, Tensor row_indices, Tensor
---       values, int[] size, *, ScalarType? dtype=None, Layout? layout=None, Device? device=None,
---       bool? pin_memory=False) -> Tensor
---@param ... any
---@return any ...
function TensorOperators:sparse_csc_tensor(...) end

--- sparse_csr_tensor.
---     sparse_csr_tensor.crow_col_value(Tensor crow_indices, Tensor col_indices, Tensor values, *,
---       ScalarType? dtype=None, Layout? layout=None, Device? device=None, bool? pin_memory=False)
---       -> Tensor
---     sparse_csr_tensor.crow_col_value_size(Tensor crow_indices, Tensor col_indices, Tensor
---       values, int[] size, *, ScalarType? dtype=None, Layout? layout=None, Device? device=None,
---       bool? pin_memory=False) -> Tensor
---@param ... any
---@return any ...
function TensorOperators:sparse_csr_tensor(...) end

--- sparse_dim.
---     sparse_dim(Tensor self) -> int
---@param ... any
---@return any ...
function TensorOperators:sparse_dim(...) end

--- sparse_mask.
---     sparse_mask(Tensor self, Tensor mask) -> Tensor
---@param ... any
---@return any ...
function TensorOperators:sparse_mask(...) end

--- sparse_resize.
---     sparse_resize(Tensor self, int[] size, int sparse_dim, int dense_dim) -> Tensor
---@param ... any
---@return any ...
function TensorOperators:sparse_resize(...) end

--- sparse_resize_.
---     sparse_resize_(Tensor(a!) self, int[] size, int sparse_dim, int dense_dim) -> Tensor(a!)
---@param ... any
---@return any ...
function TensorOperators:sparse_resize_(...) end

--- sparse_resize_and_clear.
---     sparse_resize_and_clear(Tensor self, int[] size, int sparse_dim, int dense_dim) -> Tensor
---@param ... any
---@return any ...
function TensorOperators:sparse_resize_and_clear(...) end

--- sparse_resize_and_clear_.
---     sparse_resize_and_clear_(Tensor(a!) self, int[] size, int sparse_dim, int dense_dim) ->
---       Tensor(a!)
---@param ... any
---@return any ...
function TensorOperators:sparse_resize_and_clear_(...) end

--- sparse_sampled_addmm.
---     sparse_sampled_addmm(Tensor self, Tensor mat1, Tensor mat2, *, Scalar beta=1, Scalar
---       alpha=1) -> Tensor
---@param ... any
---@return any ...
function TensorOperators:sparse_sampled_addmm(...) end

--- special_airy_ai.
---     special_airy_ai(Tensor x) -> Tensor
---@param ... any
---@return any ...
function TensorOperators:special_airy_ai(...) end

--- special_bessel_j0.
---     special_bessel_j0(Tensor self) -> Tensor
---@param ... any
---@return any ...
function TensorOperators:special_bessel_j0(...) end

--- special_bessel_j1.
---     special_bessel_j1(Tensor self) -> Tensor
---@param ... any
---@return any ...
function TensorOperators:special_bessel_j1(...) end

--- special_bessel_y0.
---     special_bessel_y0(Tensor self) -> Tensor
---@param ... any
---@return any ...
function TensorOperators:special_bessel_y0(...) end

--- special_bessel_y1.
---     special_bessel_y1(Tensor self) -> Tensor
---@param ... any
---@return any ...
function TensorOperators:special_bessel_y1(...) end

--- special_chebyshev_polynomial_t.
---     special_chebyshev_polynomial_t(Tensor x, Tensor n) -> Tensor
---     special_chebyshev_polynomial_t.n_scalar(Tensor x, Scalar n) -> Tensor
---     special_chebyshev_polynomial_t.x_scalar(Scalar x, Tensor n) -> Tensor
---@param ... any
---@return any ...
function TensorOperators:special_chebyshev_polynomial_t(...) end

--- special_chebyshev_polynomial_u.
---     special_chebyshev_polynomial_u(Tensor x, Tensor n) -> Tensor
---     special_chebyshev_polynomial_u.n_scalar(Tensor x, Scalar n) -> Tensor
---     special_chebyshev_polynomial_u.x_scalar(Scalar x, Tensor n) -> Tensor
---@param ... any
---@return any ...
function TensorOperators:special_chebyshev_polynomial_u(...) end

--- special_chebyshev_polynomial_v.
---     special_chebyshev_polynomial_v(Tensor x, Tensor n) -> Tensor
---     special_chebyshev_polynomial_v.n_scalar(Tensor x, Scalar n) -> Tensor
---     special_chebyshev_polynomial_v.x_scalar(Scalar x, Tensor n) -> Tensor
---@param ... any
---@return any ...
function TensorOperators:special_chebyshev_polynomial_v(...) end

--- special_chebyshev_polynomial_w.
---     special_chebyshev_polynomial_w(Tensor x, Tensor n) -> Tensor
---     special_chebyshev_polynomial_w.n_scalar(Tensor x, Scalar n) -> Tensor
---     special_chebyshev_polynomial_w.x_scalar(Scalar x, Tensor n) -> Tensor
---@param ... any
---@return any ...
function TensorOperators:special_chebyshev_polynomial_w(...) end

--- special_digamma.
---     special_digamma(Tensor self) -> Tensor
---@param ... any
---@return any ...
function TensorOperators:special_digamma(...) end

--- special_entr.
---     special_entr(Tensor self) -> Tensor
---@param ... any
---@return any ...
function TensorOperators:special_entr(...) end

--- special_erf.
---     special_erf(Tensor self) -> Tensor
---@param ... any
---@return any ...
function TensorOperators:special_erf(...) end

--- special_erfc.
---     special_erfc(Tensor self) -> Tensor
---@param ... any
---@return any ...
function TensorOperators:special_erfc(...) end

--- special_erfcx.
---     special_erfcx(Tensor self) -> Tensor
---@param ... any
---@return any ...
function TensorOperators:special_erfcx(...) end

--- special_erfinv.
---     special_erfinv(Tensor self) -> Tensor
---@param ... any
---@return any ...
function TensorOperators:special_erfinv(...) end

--- special_exp2.
---     special_exp2(Tensor self) -> Tensor
---@param ... any
---@return any ...
function TensorOperators:special_exp2(...) end

--- special_expit.
---     special_expit(Tensor self) -> Tensor
---@param ... any
---@return any ...
function TensorOperators:special_expit(...) end

--- special_expm1.
---     special_expm1(Tensor self) -> Tensor
---@param ... any
---@return any ...
function TensorOperators:special_expm1(...) end

--- special_gammainc.
---     special_gammainc(Tensor self, Tensor other) -> Tensor
---@param ... any
---@return any ...
function TensorOperators:special_gammainc(...) end

--- special_gammaincc.
---     special_gammaincc(Tensor self, Tensor other) -> Tensor
---@param ... any
---@return any ...
function TensorOperators:special_gammaincc(...) end

--- special_gammaln.
---     special_gammaln(Tensor self) -> Tensor
---@param ... any
---@return any ...
function TensorOperators:special_gammaln(...) end

--- special_hermite_polynomial_h.
---     special_hermite_polynomial_h(Tensor x, Tensor n) -> Tensor
---     special_hermite_polynomial_h.n_scalar(Tensor x, Scalar n) -> Tensor
---     special_hermite_polynomial_h.x_scalar(Scalar x, Tensor n) -> Tensor
---@param ... any
---@return any ...
function TensorOperators:special_hermite_polynomial_h(...) end

--- special_hermite_polynomial_he.
---     special_hermite_polynomial_he(Tensor x, Tensor n) -> Tensor
---     special_hermite_polynomial_he.n_scalar(Tensor x, Scalar n) -> Tensor
---     special_hermite_polynomial_he.x_scalar(Scalar x, Tensor n) -> Tensor
---@param ... any
---@return any ...
function TensorOperators:special_hermite_polynomial_he(...) end

--- special_i0.
---     special_i0(Tensor self) -> Tensor
---@param ... any
---@return any ...
function TensorOperators:special_i0(...) end

--- special_i0e.
---     special_i0e(Tensor self) -> Tensor
---@param ... any
---@return any ...
function TensorOperators:special_i0e(...) end

--- special_i1.
---     special_i1(Tensor self) -> Tensor
---@param ... any
---@return any ...
function TensorOperators:special_i1(...) end

--- special_i1e.
---     special_i1e(Tensor self) -> Tensor
---@param ... any
---@return any ...
function TensorOperators:special_i1e(...) end

--- special_laguerre_polynomial_l.
---     special_laguerre_polynomial_l(Tensor x, Tensor n) -> Tensor
---     special_laguerre_polynomial_l.n_scalar(Tensor x, Scalar n) -> Tensor
---     special_laguerre_polynomial_l.x_scalar(Scalar x, Tensor n) -> Tensor
---@param ... any
---@return any ...
function TensorOperators:special_laguerre_polynomial_l(...) end

--- special_legendre_polynomial_p.
---     special_legendre_polynomial_p(Tensor x, Tensor n) -> Tensor
---     special_legendre_polynomial_p.n_scalar(Tensor x, Scalar n) -> Tensor
---     special_legendre_polynomial_p.x_scalar(Scalar x, Tensor n) -> Tensor
---@param ... any
---@return any ...
function TensorOperators:special_legendre_polynomial_p(...) end

--- special_log1p.
---     special_log1p(Tensor self) -> Tensor
---@param ... any
---@return any ...
function TensorOperators:special_log1p(...) end

--- special_log_ndtr.
---     special_log_ndtr(Tensor self) -> Tensor
---@param ... any
---@return any ...
function TensorOperators:special_log_ndtr(...) end

--- special_log_softmax.
---     special_log_softmax(Tensor self, int dim, *, ScalarType? dtype=None) -> Tensor
---@param ... any
---@return any ...
function TensorOperators:special_log_softmax(...) end

--- special_logit.
---     special_logit(Tensor self, float? eps=None) -> Tensor
---@param ... any
---@return any ...
function TensorOperators:special_logit(...) end

--- special_logsumexp.
---     special_logsumexp(Tensor self, int[1] dim, bool keepdim=False) -> Tensor
---@param ... any
---@return any ...
function TensorOperators:special_logsumexp(...) end

--- special_modified_bessel_i0.
---     special_modified_bessel_i0(Tensor self) -> Tensor
---@param ... any
---@return any ...
function TensorOperators:special_modified_bessel_i0(...) end

--- special_modified_bessel_i1.
---     special_modified_bessel_i1(Tensor self) -> Tensor
---@param ... any
---@return any ...
function TensorOperators:special_modified_bessel_i1(...) end

--- special_modified_bessel_k0.
---     special_modified_bessel_k0(Tensor self) -> Tensor
---@param ... any
---@return any ...
function TensorOperators:special_modified_bessel_k0(...) end

--- special_modified_bessel_k1.
---     special_modified_bessel_k1(Tensor self) -> Tensor
---@param ... any
---@return any ...
function TensorOperators:special_modified_bessel_k1(...) end

--- special_multigammaln.
---     special_multigammaln(Tensor self, int p) -> Tensor
---@param ... any
---@return any ...
function TensorOperators:special_multigammaln(...) end

--- special_ndtr.
---     special_ndtr(Tensor self) -> Tensor
---@param ... any
---@return any ...
function TensorOperators:special_ndtr(...) end

--- special_ndtri.
---     special_ndtri(Tensor self) -> Tensor
---@param ... any
---@return any ...
function TensorOperators:special_ndtri(...) end

--- special_psi.
---     special_psi(Tensor self) -> Tensor
---@param ... any
---@return any ...
function TensorOperators:special_psi(...) end

--- special_round.
---     special_round(Tensor self, *, int decimals=0) -> Tensor
---@param ... any
---@return any ...
function TensorOperators:special_round(...) end

--- special_scaled_modified_bessel_k0.
---     special_scaled_modified_bessel_k0(Tensor x) -> Tensor
---@param ... any
---@return any ...
function TensorOperators:special_scaled_modified_bessel_k0(...) end

--- special_scaled_modified_bessel_k1.
---     special_scaled_modified_bessel_k1(Tensor x) -> Tensor
---@param ... any
---@return any ...
function TensorOperators:special_scaled_modified_bessel_k1(...) end

--- special_shifted_chebyshev_polynomial_t.
---     special_shifted_chebyshev_polynomial_t(Tensor x, Tensor n) -> Tensor
---     special_shifted_chebyshev_polynomial_t.n_scalar(Tensor x, Scalar n) -> Tensor
---     special_shifted_chebyshev_polynomial_t.x_scalar(Scalar x, Tensor n) -> Tensor
---@param ... any
---@return any ...
function TensorOperators:special_shifted_chebyshev_polynomial_t(...) end

--- special_shifted_chebyshev_polynomial_u.
---     special_shifted_chebyshev_polynomial_u(Tensor x, Tensor n) -> Tensor
---     special_shifted_chebyshev_polynomial_u.n_scalar(Tensor x, Scalar n) -> Tensor
---     special_shifted_chebyshev_polynomial_u.x_scalar(Scalar x, Tensor n) -> Tensor
---@param ... any
---@return any ...
function TensorOperators:special_shifted_chebyshev_polynomial_u(...) end

--- special_shifted_chebyshev_polynomial_v.
---     special_shifted_chebyshev_polynomial_v(Tensor x, Tensor n) -> Tensor
---     special_shifted_chebyshev_polynomial_v.n_scalar(Tensor x, Scalar n) -> Tensor
---     special_shifted_chebyshev_polynomial_v.x_scalar(Scalar x, Tensor n) -> Tensor
---@param ... any
---@return any ...
function TensorOperators:special_shifted_chebyshev_polynomial_v(...) end

--- special_shifted_chebyshev_polynomial_w.
---     special_shifted_chebyshev_polynomial_w(Tensor x, Tensor n) -> Tensor
---     special_shifted_chebyshev_polynomial_w.n_scalar(Tensor x, Scalar n) -> Tensor
---     special_shifted_chebyshev_polynomial_w.x_scalar(Scalar x, Tensor n) -> Tensor
---@param ... any
---@return any ...
function TensorOperators:special_shifted_chebyshev_polynomial_w(...) end

--- special_sinc.
---     special_sinc(Tensor self) -> Tensor
---@param ... any
---@return any ...
function TensorOperators:special_sinc(...) end

--- special_softmax.
---     special_softmax(Tensor self, int dim, ScalarType? dtype=None) -> Tensor
---@param ... any
---@return any ...
function TensorOperators:special_softmax(...) end

--- special_spherical_bessel_j0.
---     special_spherical_bessel_j0(Tensor x) -> Tensor
---@param ... any
---@return any ...
function TensorOperators:special_spherical_bessel_j0(...) end

--- special_xlog1py.
---     special_xlog1py(Tensor self, Tensor other) -> Tensor
---     special_xlog1py.other_scalar(Tensor self, Scalar other) -> Tensor
---     special_xlog1py.self_scalar(Scalar self, Tensor other) -> Tensor
---@param ... any
---@return any ...
function TensorOperators:special_xlog1py(...) end

--- special_xlogy.
---     special_xlogy(Tensor self, Tensor other) -> Tensor
---     special_xlogy.other_scalar(Tensor self, Scalar other) -> Tensor
---     special_xlogy.self_scalar(Scalar self, Tensor other) -> Tensor
---@param ... any
---@return any ...
function TensorOperators:special_xlogy(...) end

--- special_zeta.
---     special_zeta(Tensor self, Tensor other) -> Tensor
---     special_zeta.other_scalar(Tensor self, Scalar other) -> Tensor
---     special_zeta.self_scalar(Scalar self, Tensor other) -> Tensor
---@param ... any
---@return any ...
function TensorOperators:special_zeta(...) end

--- split.
---     split.Tensor(Tensor(a -> *) self, SymInt split_size, int dim=0) -> Tensor(a)[]
---     split.sizes(Tensor(a -> *) self, SymInt[] split_size, int dim=0) -> Tensor(a)[]
---@param ... any
---@return any ...
function TensorOperators:split(...) end

--- split_copy.
---     split_copy.Tensor(Tensor self, SymInt split_size, int dim=0) -> Tensor[]
---     split_copy.Tensor_out(Tensor self, SymInt split_size, int dim=0, *, Tensor(a!)[] out) -> ()
---@param ... any
---@return any ...
function TensorOperators:split_copy(...) end

--- split_with_sizes.
---     split_with_sizes(Tensor(a -> *) self, SymInt[] split_sizes, int dim=0) -> Tensor(a)[]
---@param ... any
---@return any ...
function TensorOperators:split_with_sizes(...) end

--- split_with_sizes_copy.
---     split_with_sizes_copy(Tensor self, SymInt[] split_sizes, int dim=0) -> Tensor[]
---     split_with_sizes_copy.out(Tensor self, SymInt[] split_sizes, int dim=0, *, Tensor(a!)[] out)
---       -> ()
---@param ... any
---@return any ...
function TensorOperators:split_with_sizes_copy(...) end

--- sqrt.
---     sqrt(Tensor self) -> Tensor
---@param ... any
---@return any ...
function TensorOperators:sqrt(...) end

--- sqrt_.
---     sqrt_(Tensor(a!) self) -> Tensor(a!)
---@param ... any
---@return any ...
function TensorOperators:sqrt_(...) end

--- square.
---     square(Tensor self) -> Tensor
---@param ... any
---@return any ...
function TensorOperators:square(...) end

--- square_.
---     square_(Tensor(a!) self) -> Tensor(a!)
---@param ... any
---@return any ...
function TensorOperators:square_(...) end

--- squeeze.
---     squeeze(Tensor(a) self) -> Tensor(a)
---     squeeze.dim(Tensor(a) self, int dim) -> Tensor(a)
---     squeeze.dims(Tensor(a) self, int[] dim) -> Tensor(a)
---@param ... any
---@return any ...
function TensorOperators:squeeze(...) end

--- squeeze_.
---     squeeze_(Tensor(a!) self) -> Tensor(a!)
---     squeeze_.dim(Tensor(a!) self, int dim) -> Tensor(a!)
---     squeeze_.dims(Tensor(a!) self, int[] dim) -> Tensor(a!)
---@param ... any
---@return any ...
function TensorOperators:squeeze_(...) end

--- squeeze_copy.
---     squeeze_copy(Tensor self) -> Tensor
---     squeeze_copy.dim(Tensor self, int dim) -> Tensor
---     squeeze_copy.dims(Tensor self, int[] dim) -> Tensor
---@param ... any
---@return any ...
function TensorOperators:squeeze_copy(...) end

--- sspaddmm.
---     sspaddmm(Tensor self, Tensor mat1, Tensor mat2, *, Scalar beta=1, Scalar alpha=1) -> Tensor
---@param ... any
---@return any ...
function TensorOperators:sspaddmm(...) end

--- std.
---     std(Tensor self, bool unbiased=True) -> Tensor
---     std.correction(Tensor self, int[1]? dim=None, *, Scalar? correction=None, bool
---       keepdim=False) -> Tensor
---     std.dim(Tensor self, int[1]? dim, bool unbiased=True, bool keepdim=False) -> Tensor
---@param ... any
---@return any ...
function TensorOperators:std(...) end

--- std_mean.
---     std_mean(Tensor self, bool unbiased=True) -> (Tensor, Tensor)
---     std_mean.correction(Tensor self, int[1]? dim=None, *, Scalar? correction=None, bool
---       keepdim=False) -> (Tensor, Tensor)
---     std_mean.dim(Tensor self, int[1]? dim, bool unbiased=True, bool keepdim=False) -> (Tensor,
---       Tensor)
---@param ... any
---@return any ...
function TensorOperators:std_mean(...) end

--- stft.
---     stft(Tensor self, int n_fft, int? hop_length=None, int? win_length=None, Tensor?
---       window=None, bool normalized=False, bool? onesided=None, bool? return_complex=None, bool?
---       align_to_window=None) -> Tensor
---     stft.center(Tensor self, int n_fft, int? hop_length=None, int? win_length=None, Tensor?
---       window=None, bool center=True, str pad_mode="reflect", bool normalized=False, bool?
---       onesided=None, bool? return_complex=None, bool? align_to_window=None) -> Tensor
---@param ... any
---@return any ...
function TensorOperators:stft(...) end

--- stride.
---     stride.int(Tensor self, int dim) -> int
---@param ... any
---@return any ...
function TensorOperators:stride(...) end

--- sub.
---     sub.Scalar(Tensor self, Scalar other, Scalar alpha=1) -> Tensor
---     sub.Tensor(Tensor self, Tensor other, *, Scalar alpha=1) -> Tensor
---@param ... any
---@return any ...
function TensorOperators:sub(...) end

--- sub_.
---     sub_.Scalar(Tensor(a!) self, Scalar other, Scalar alpha=1) -> Tensor(a!)
---     sub_.Tensor(Tensor(a!) self, Tensor other, *, Scalar alpha=1) -> Tensor(a!)
---@param ... any
---@return any ...
function TensorOperators:sub_(...) end

--- subtract.
---     subtract.Scalar(Tensor self, Scalar other, Scalar alpha=1) -> Tensor
---     subtract.Tensor(Tensor self, Tensor other, *, Scalar alpha=1) -> Tensor
---@param ... any
---@return any ...
function TensorOperators:subtract(...) end

--- subtract_.
---     subtract_.Scalar(Tensor(a!) self, Scalar other, Scalar alpha=1) -> Tensor(a!)
---     subtract_.Tensor(Tensor(a!) self, Tensor other, *, Scalar alpha=1) -> Tensor(a!)
---@param ... any
---@return any ...
function TensorOperators:subtract_(...) end

--- sum.
---     sum(Tensor self, *, ScalarType? dtype=None) -> Tensor
---     sum.dim_IntList(Tensor self, int[1]? dim, bool keepdim=False, *, ScalarType? dtype=None) ->
---       Tensor
---@param ... any
---@return any ...
function TensorOperators:sum(...) end

--- sum_to_size.
---     sum_to_size(Tensor self, SymInt[] size) -> Tensor
---@param ... any
---@return any ...
function TensorOperators:sum_to_size(...) end

--- svd.
---     svd(Tensor self, bool some=True, bool compute_uv=True) -> (Tensor U, Tensor S, Tensor V)
---@param ... any
---@return any ...
function TensorOperators:svd(...) end

--- swapaxes.
---     swapaxes(Tensor(a) self, int axis0, int axis1) -> Tensor(a)
---@param ... any
---@return any ...
function TensorOperators:swapaxes(...) end

--- swapaxes_.
---     swapaxes_(Tensor(a!) self, int axis0, int axis1) -> Tensor(a!)
---@param ... any
---@return any ...
function TensorOperators:swapaxes_(...) end

--- swapdims.
---     swapdims(Tensor(a) self, int dim0, int dim1) -> Tensor(a)
---@param ... any
---@return any ...
function TensorOperators:swapdims(...) end

--- swapdims_.
---     swapdims_(Tensor(a!) self, int dim0, int dim1) -> Tensor(a!)
---@param ... any
---@return any ...
function TensorOperators:swapdims_(...) end

--- sym_is_contiguous.
---     sym_is_contiguous(Tensor self, MemoryFormat memory_format=0) -> SymBool
---@param ... any
---@return any ...
function TensorOperators:sym_is_contiguous(...) end

--- sym_numel.
---     sym_numel(Tensor self) -> SymInt
---@param ... any
---@return any ...
function TensorOperators:sym_numel(...) end

--- sym_size.
---     sym_size.int(Tensor self, int dim) -> SymInt
---@param ... any
---@return any ...
function TensorOperators:sym_size(...) end

--- sym_storage_offset.
---     sym_storage_offset(Tensor self) -> SymInt
---@param ... any
---@return any ...
function TensorOperators:sym_storage_offset(...) end

--- sym_stride.
---     sym_stride.int(Tensor self, int dim) -> SymInt
---@param ... any
---@return any ...
function TensorOperators:sym_stride(...) end

--- t.
---     t(Tensor(a) self) -> Tensor(a)
---@param ... any
---@return any ...
function TensorOperators:t(...) end

--- t_.
---     t_(Tensor(a!) self) -> Tensor(a!)
---@param ... any
---@return any ...
function TensorOperators:t_(...) end

--- t_copy.
---     t_copy(Tensor self) -> Tensor
---@param ... any
---@return any ...
function TensorOperators:t_copy(...) end

--- take.
---     take(Tensor self, Tensor index) -> Tensor
---@param ... any
---@return any ...
function TensorOperators:take(...) end

--- take_along_dim.
---     take_along_dim(Tensor self, Tensor indices, int? dim=None) -> Tensor
---@param ... any
---@return any ...
function TensorOperators:take_along_dim(...) end

--- tan.
---     tan(Tensor self) -> Tensor
---@param ... any
---@return any ...
function TensorOperators:tan(...) end

--- tan_.
---     tan_(Tensor(a!) self) -> Tensor(a!)
---@param ... any
---@return any ...
function TensorOperators:tan_(...) end

--- tanh.
---     tanh(Tensor self) -> Tensor
---@param ... any
---@return any ...
function TensorOperators:tanh(...) end

--- tanh_.
---     tanh_(Tensor(a!) self) -> Tensor(a!)
---@param ... any
---@return any ...
function TensorOperators:tanh_(...) end

--- tanh_backward.
---     tanh_backward(Tensor grad_output, Tensor output) -> Tensor
---     tanh_backward.grad_input(Tensor grad_output, Tensor output, *, Tensor(a!) grad_input) ->
---       Tensor(a!)
---@param ... any
---@return any ...
function TensorOperators:tanh_backward(...) end

--- tensor_split.
---     tensor_split.indices(Tensor(a -> *) self, SymInt[] indices, int dim=0) -> Tensor(a)[]
---     tensor_split.sections(Tensor(a -> *) self, SymInt sections, int dim=0) -> Tensor(a)[]
---     tensor_split.tensor_indices_or_sections(Tensor(a -> *) self, Tensor
---       tensor_indices_or_sections, int dim=0) -> Tensor(a)[]
---@param ... any
---@return any ...
function TensorOperators:tensor_split(...) end

--- tensordot.
---     tensordot(Tensor self, Tensor other, int[] dims_self, int[] dims_other) -> Tensor
---@param ... any
---@return any ...
function TensorOperators:tensordot(...) end

--- thnn_conv2d.
---     thnn_conv2d(Tensor self, Tensor weight, SymInt[2] kernel_size, Tensor? bias=None, SymInt[2]
---       stride=[1, 1], SymInt[2] padding=[0, 0]) -> Tensor
---@param ... any
---@return any ...
function TensorOperators:thnn_conv2d(...) end

--- threshold.
---     threshold(Tensor self, Scalar threshold, Scalar value) -> Tensor
---@param ... any
---@return any ...
function TensorOperators:threshold(...) end

--- threshold_.
---     threshold_(Tensor(a!) self, Scalar threshold, Scalar value) -> Tensor(a!)
---@param ... any
---@return any ...
function TensorOperators:threshold_(...) end

--- threshold_backward.
---     threshold_backward(Tensor grad_output, Tensor self, Scalar threshold) -> Tensor
---     threshold_backward.grad_input(Tensor grad_output, Tensor self, Scalar threshold, *,
---       Tensor(a!) grad_input) -> Tensor(a!)
---@param ... any
---@return any ...
function TensorOperators:threshold_backward(...) end

--- tile.
---     tile(Tensor self, SymInt[] dims) -> Tensor
---@param ... any
---@return any ...
function TensorOperators:tile(...) end

--- to_dense.
---     to_dense(Tensor self, ScalarType? dtype=None, *, bool? masked_grad=None) -> Tensor
---@param ... any
---@return any ...
function TensorOperators:to_dense(...) end

--- to_dense_backward.
---     to_dense_backward(Tensor grad, Tensor input, bool? masked_grad=None) -> Tensor
---@param ... any
---@return any ...
function TensorOperators:to_dense_backward(...) end

--- to_mkldnn.
---     to_mkldnn(Tensor self, ScalarType? dtype=None) -> Tensor
---@param ... any
---@return any ...
function TensorOperators:to_mkldnn(...) end

--- to_mkldnn_backward.
---     to_mkldnn_backward(Tensor grad, Tensor input) -> Tensor
---@param ... any
---@return any ...
function TensorOperators:to_mkldnn_backward(...) end

--- to_padded_tensor.
---     to_padded_tensor(Tensor self, float padding, SymInt[]? output_size=None) -> Tensor
---@param ... any
---@return any ...
function TensorOperators:to_padded_tensor(...) end

--- to_sparse.
---     to_sparse.sparse_dim(Tensor self, int sparse_dim) -> Tensor
---     to_sparse(Tensor self, *, Layout? layout=None, int[2]? blocksize=None, int? dense_dim=None)
---       -> Tensor
---@param ... any
---@return any ...
function TensorOperators:to_sparse(...) end

--- to_sparse_bsc.
---     to_sparse_bsc(Tensor self, int[2] blocksize, int? dense_dim=None) -> Tensor
---@param ... any
---@return any ...
function TensorOperators:to_sparse_bsc(...) end

--- to_sparse_bsr.
---     to_sparse_bsr(Tensor self, int[2] blocksize, int? dense_dim=None) -> Tensor
---@param ... any
---@return any ...
function TensorOperators:to_sparse_bsr(...) end

--- to_sparse_csc.
---     to_sparse_csc(Tensor self, int? dense_dim=None) -> Tensor
---@param ... any
---@return any ...
function TensorOperators:to_sparse_csc(...) end

--- to_sparse_csr.
---     to_sparse_csr(Tensor self, int? dense_dim=None) -> Tensor
---@param ... any
---@return any ...
function TensorOperators:to_sparse_csr(...) end

--- topk.
---     topk(Tensor self, SymInt k, int dim=-1, bool largest=True, bool sorted=True) -> (Tensor
---       values, Tensor indices)
---@param ... any
---@return any ...
function TensorOperators:topk(...) end

--- trace.
---     trace(Tensor self) -> Tensor
---@param ... any
---@return any ...
function TensorOperators:trace(...) end

--- trace_backward.
---     trace_backward(Tensor grad, SymInt[] sizes) -> Tensor
---@param ... any
---@return any ...
function TensorOperators:trace_backward(...) end

--- transpose.
---     transpose.int(Tensor(a) self, int dim0, int dim1) -> Tensor(a)
---@param ... any
---@return any ...
function TensorOperators:transpose(...) end

--- transpose_.
---     transpose_(Tensor(a!) self, int dim0, int dim1) -> Tensor(a!)
---@param ... any
---@return any ...
function TensorOperators:transpose_(...) end

--- transpose_copy.
---     transpose_copy.int(Tensor self, int dim0, int dim1) -> Tensor
---@param ... any
---@return any ...
function TensorOperators:transpose_copy(...) end

--- trapezoid.
---     trapezoid.dx(Tensor y, *, Scalar dx=1, int dim=-1) -> Tensor
---     trapezoid.x(Tensor y, Tensor x, *, int dim=-1) -> Tensor
---@param ... any
---@return any ...
function TensorOperators:trapezoid(...) end

--- trapz.
---     trapz.dx(Tensor y, *, float dx=1., int dim=-1) -> Tensor
---     trapz.x(Tensor y, Tensor x, *, int dim=-1) -> Tensor
---@param ... any
---@return any ...
function TensorOperators:trapz(...) end

--- triangular_solve.
---     triangular_solve(Tensor self, Tensor A, bool upper=True, bool transpose=False, bool
---       unitriangular=False) -> (Tensor solution, Tensor cloned_coefficient)
---@param ... any
---@return any ...
function TensorOperators:triangular_solve(...) end

--- tril.
---     tril(Tensor self, SymInt diagonal=0) -> Tensor
---@param ... any
---@return any ...
function TensorOperators:tril(...) end

--- tril_.
---     tril_(Tensor(a!) self, SymInt diagonal=0) -> Tensor(a!)
---@param ... any
---@return any ...
function TensorOperators:tril_(...) end

--- triplet_margin_loss.
---     triplet_margin_loss(Tensor anchor, Tensor positive, Tensor negative, float margin=1., float
---       p=2., float eps=9.9999999999999995e-07, bool swap=False, int reduction=1) -> Tensor
---@param ... any
---@return any ...
function TensorOperators:triplet_margin_loss(...) end

--- triu.
---     triu(Tensor self, SymInt diagonal=0) -> Tensor
---@param ... any
---@return any ...
function TensorOperators:triu(...) end

--- triu_.
---     triu_(Tensor(a!) self, SymInt diagonal=0) -> Tensor(a!)
---@param ... any
---@return any ...
function TensorOperators:triu_(...) end

--- true_divide.
---     true_divide.Scalar(Tensor self, Scalar other) -> Tensor
---     true_divide.Tensor(Tensor self, Tensor other) -> Tensor
---@param ... any
---@return any ...
function TensorOperators:true_divide(...) end

--- true_divide_.
---     true_divide_.Scalar(Tensor(a!) self, Scalar other) -> Tensor(a!)
---     true_divide_.Tensor(Tensor(a!) self, Tensor other) -> Tensor(a!)
---@param ... any
---@return any ...
function TensorOperators:true_divide_(...) end

--- trunc.
---     trunc(Tensor self) -> Tensor
---@param ... any
---@return any ...
function TensorOperators:trunc(...) end

--- trunc_.
---     trunc_(Tensor(a!) self) -> Tensor(a!)
---@param ... any
---@return any ...
function TensorOperators:trunc_(...) end

--- type_as.
---     type_as(Tensor self, Tensor other) -> Tensor
---@param ... any
---@return any ...
function TensorOperators:type_as(...) end

--- unbind.
---     unbind.int(Tensor(a -> *) self, int dim=0) -> Tensor(a)[]
---@param ... any
---@return any ...
function TensorOperators:unbind(...) end

--- unbind_copy.
---     unbind_copy.int(Tensor self, int dim=0) -> Tensor[]
---     unbind_copy.int_out(Tensor self, int dim=0, *, Tensor(a!)[] out) -> ()
---@param ... any
---@return any ...
function TensorOperators:unbind_copy(...) end

--- unflatten.
---     unflatten.int(Tensor(a) self, int dim, SymInt[] sizes) -> Tensor(a)
---@param ... any
---@return any ...
function TensorOperators:unflatten(...) end

--- unflatten_dense_tensors.
---     unflatten_dense_tensors(Tensor flat, Tensor[] tensors) -> Tensor[]
---@param ... any
---@return any ...
function TensorOperators:unflatten_dense_tensors(...) end

--- unfold.
---     unfold(Tensor(a) self, int dimension, int size, int step) -> Tensor(a)
---@param ... any
---@return any ...
function TensorOperators:unfold(...) end

--- unfold_backward.
---     unfold_backward(Tensor grad_in, SymInt[] input_sizes, int dim, int size, int step) -> Tensor
---@param ... any
---@return any ...
function TensorOperators:unfold_backward(...) end

--- unfold_copy.
---     unfold_copy(Tensor self, int dimension, int size, int step) -> Tensor
---@param ... any
---@return any ...
function TensorOperators:unfold_copy(...) end

--- uniform.
---     uniform(Tensor self, float from=0., float to=1., *, Generator? generator=None) -> Tensor
---@param ... any
---@return any ...
function TensorOperators:uniform(...) end

--- uniform_.
---     uniform_(Tensor(a!) self, float from=0., float to=1., *, Generator? generator=None) ->
---       Tensor(a!)
---@param ... any
---@return any ...
function TensorOperators:uniform_(...) end

--- unique_consecutive.
---     unique_consecutive(Tensor self, bool return_inverse=False, bool return_counts=False, int?
---       dim=None) -> (Tensor, Tensor, Tensor)
---@param ... any
---@return any ...
function TensorOperators:unique_consecutive(...) end

--- unique_dim.
---     unique_dim(Tensor self, int dim, bool sorted=True, bool return_inverse=False, bool
---       return_counts=False) -> (Tensor, Tensor, Tensor)
---@param ... any
---@return any ...
function TensorOperators:unique_dim(...) end

--- unique_dim_consecutive.
---     unique_dim_consecutive(Tensor self, int dim, bool return_inverse=False, bool
---       return_counts=False) -> (Tensor, Tensor, Tensor)
---@param ... any
---@return any ...
function TensorOperators:unique_dim_consecutive(...) end

--- unsafe_chunk.
---     unsafe_chunk(Tensor self, int chunks, int dim=0) -> Tensor[]
---@param ... any
---@return any ...
function TensorOperators:unsafe_chunk(...) end

--- unsafe_split.
---     unsafe_split.Tensor(Tensor self, SymInt split_size, int dim=0) -> Tensor[]
---     unsafe_split.Tensor_out(Tensor self, SymInt split_size, int dim=0, *, Tensor(a!)[] out) ->
---       ()
---@param ... any
---@return any ...
function TensorOperators:unsafe_split(...) end

--- unsafe_split_with_sizes.
---     unsafe_split_with_sizes(Tensor self, SymInt[] split_sizes, int dim=0) -> Tensor[]
---     unsafe_split_with_sizes.out(Tensor self, SymInt[] split_sizes, int dim=0, *, Tensor(a!)[]
---       out) -> ()
---@param ... any
---@return any ...
function TensorOperators:unsafe_split_with_sizes(...) end

--- unsqueeze.
---     unsqueeze(Tensor(a) self, int dim) -> Tensor(a)
---@param ... any
---@return any ...
function TensorOperators:unsqueeze(...) end

--- unsqueeze_.
---     unsqueeze_(Tensor(a!) self, int dim) -> Tensor(a!)
---@param ... any
---@return any ...
function TensorOperators:unsqueeze_(...) end

--- unsqueeze_copy.
---     unsqueeze_copy(Tensor self, int dim) -> Tensor
---@param ... any
---@return any ...
function TensorOperators:unsqueeze_copy(...) end

--- upsample_bicubic2d.
---     upsample_bicubic2d.vec(Tensor input, SymInt[]? output_size, bool align_corners, float[]?
---       scale_factors) -> Tensor
---     upsample_bicubic2d(Tensor self, SymInt[2] output_size, bool align_corners, float?
---       scales_h=None, float? scales_w=None) -> Tensor
---@param ... any
---@return any ...
function TensorOperators:upsample_bicubic2d(...) end

--- upsample_bicubic2d_backward.
---     upsample_bicubic2d_backward(Tensor grad_output, SymInt[2] output_size, SymInt[4] input_size,
---       bool align_corners, float? scales_h=None, float? scales_w=None) -> Tensor
---     upsample_bicubic2d_backward.grad_input(Tensor grad_output, SymInt[2] output_size, SymInt[4]
---       input_size, bool align_corners, float? scales_h=None, float? scales_w=None, *, Tensor(a!)
---       grad_input) -> Tensor(a!)
---@param ... any
---@return any ...
function TensorOperators:upsample_bicubic2d_backward(...) end

--- upsample_bilinear2d.
---     upsample_bilinear2d.vec(Tensor input, SymInt[]? output_size, bool align_corners, float[]?
---       scale_factors) -> Tensor
---     upsample_bilinear2d(Tensor self, SymInt[2] output_size, bool align_corners, float?
---       scales_h=None, float? scales_w=None) -> Tensor
---@param ... any
---@return any ...
function TensorOperators:upsample_bilinear2d(...) end

--- upsample_bilinear2d_backward.
---     upsample_bilinear2d_backward(Tensor grad_output, SymInt[2] output_size, SymInt[4]
---       input_size, bool align_corners, float? scales_h=None, float? scales_w=None) -> Tensor
---     upsample_bilinear2d_backward.grad_input(Tensor grad_output, SymInt[2] output_size, SymInt[4]
---       input_size, bool align_corners, float? scales_h=None, float? scales_w=None, *, Tensor(a!)
---       grad_input) -> Tensor(a!)
---@param ... any
---@return any ...
function TensorOperators:upsample_bilinear2d_backward(...) end

--- upsample_linear1d.
---     upsample_linear1d(Tensor self, SymInt[1] output_size, bool align_corners, float?
---       scales=None) -> Tensor
---     upsample_linear1d.vec(Tensor input, SymInt[]? output_size, bool align_corners, float[]?
---       scale_factors) -> Tensor
---@param ... any
---@return any ...
function TensorOperators:upsample_linear1d(...) end

--- upsample_linear1d_backward.
---     upsample_linear1d_backward(Tensor grad_output, SymInt[1] output_size, SymInt[3] input_size,
---       bool align_corners, float? scales=None) -> Tensor
---     upsample_linear1d_backward.grad_input(Tensor grad_output, SymInt[1] output_size, SymInt[3]
---       input_size, bool align_corners, float? scales=None, *, Tensor(a!) grad_input) ->
---       Tensor(a!)
---@param ... any
---@return any ...
function TensorOperators:upsample_linear1d_backward(...) end

--- upsample_nearest1d.
---     upsample_nearest1d(Tensor self, SymInt[1] output_size, float? scales=None) -> Tensor
---     upsample_nearest1d.vec(Tensor input, SymInt[]? output_size, float[]? scale_factors) ->
---       Tensor
---@param ... any
---@return any ...
function TensorOperators:upsample_nearest1d(...) end

--- upsample_nearest1d_backward.
---     upsample_nearest1d_backward(Tensor grad_output, SymInt[1] output_size, SymInt[3] input_size,
---       float? scales=None) -> Tensor
---     upsample_nearest1d_backward.grad_input(Tensor grad_output, SymInt[1] output_size, SymInt[3]
---       input_size, float? scales=None, *, Tensor(a!) grad_input) -> Tensor(a!)
---@param ... any
---@return any ...
function TensorOperators:upsample_nearest1d_backward(...) end

--- upsample_nearest2d.
---     upsample_nearest2d.vec(Tensor input, SymInt[]? output_size, float[]? scale_factors) ->
---       Tensor
---     upsample_nearest2d(Tensor self, SymInt[2] output_size, float? scales_h=None, float?
---       scales_w=None) -> Tensor
---@param ... any
---@return any ...
function TensorOperators:upsample_nearest2d(...) end

--- upsample_nearest2d_backward.
---     upsample_nearest2d_backward(Tensor grad_output, SymInt[2] output_size, SymInt[4] input_size,
---       float? scales_h=None, float? scales_w=None) -> Tensor
---     upsample_nearest2d_backward.grad_input(Tensor grad_output, SymInt[2] output_size, SymInt[4]
---       input_size, float? scales_h=None, float? scales_w=None, *, Tensor(a!) grad_input) ->
---       Tensor(a!)
---@param ... any
---@return any ...
function TensorOperators:upsample_nearest2d_backward(...) end

--- upsample_nearest3d.
---     upsample_nearest3d.vec(Tensor input, SymInt[]? output_size, float[]? scale_factors) ->
---       Tensor
---     upsample_nearest3d(Tensor self, SymInt[3] output_size, float? scales_d=None, float?
---       scales_h=None, float? scales_w=None) -> Tensor
---@param ... any
---@return any ...
function TensorOperators:upsample_nearest3d(...) end

--- upsample_nearest3d_backward.
---     upsample_nearest3d_backward(Tensor grad_output, SymInt[3] output_size, SymInt[5] input_size,
---       float? scales_d=None, float? scales_h=None, float? scales_w=None) -> Tensor
---     upsample_nearest3d_backward.grad_input(Tensor grad_output, SymInt[3] output_size, SymInt[5]
---       input_size, float? scales_d=None, float? scales_h=None, float? scales_w=None, *,
---       Tensor(a!) grad_input) -> Tensor(a!)
---@param ... any
---@return any ...
function TensorOperators:upsample_nearest3d_backward(...) end

--- upsample_trilinear3d.
---     upsample_trilinear3d.vec(Tensor input, SymInt[]? output_size, bool align_corners, float[]?
---       scale_factors) -> Tensor
---     upsample_trilinear3d(Tensor self, SymInt[3] output_size, bool align_corners, float?
---       scales_d=None, float? scales_h=None, float? scales_w=None) -> Tensor
---@param ... any
---@return any ...
function TensorOperators:upsample_trilinear3d(...) end

--- upsample_trilinear3d_backward.
---     upsample_trilinear3d_backward(Tensor grad_output, SymInt[3] output_size, SymInt[5]
---       input_size, bool align_corners, float? scales_d=None, float? scales_h=None, float?
---       scales_w=None) -> Tensor
---     upsample_trilinear3d_backward.grad_input(Tensor grad_output, SymInt[3] output_size,
---       SymInt[5] input_size, bool align_corners, float? scales_d=None, float? scales_h=None,
---       float? scales_w=None, *, Tensor(a!) grad_input) -> Tensor(a!)
---@param ... any
---@return any ...
function TensorOperators:upsample_trilinear3d_backward(...) end

--- value_selecting_reduction_backward.
---     value_selecting_reduction_backward(Tensor grad, int dim, Tensor indices, SymInt[] sizes,
---       bool keepdim) -> Tensor
---@param ... any
---@return any ...
function TensorOperators:value_selecting_reduction_backward(...) end

--- values.
---     values(Tensor(a) self) -> Tensor(a)
---@param ... any
---@return any ...
function TensorOperators:values(...) end

--- values_copy.
---     values_copy(Tensor self) -> Tensor
---@param ... any
---@return any ...
function TensorOperators:values_copy(...) end

--- vander.
---     vander(Tensor x, int? N=None, bool increasing=False) -> Tensor
---@param ... any
---@return any ...
function TensorOperators:vander(...) end

--- var.
---     var(Tensor self, bool unbiased=True) -> Tensor
---     var.correction(Tensor self, int[1]? dim=None, *, Scalar? correction=None, bool
---       keepdim=False) -> Tensor
---     var.dim(Tensor self, int[1]? dim, bool unbiased=True, bool keepdim=False) -> Tensor
---@param ... any
---@return any ...
function TensorOperators:var(...) end

--- var_mean.
---     var_mean(Tensor self, bool unbiased=True) -> (Tensor, Tensor)
---     var_mean.correction(Tensor self, int[1]? dim=None, *, Scalar? correction=None, bool
---       keepdim=False) -> (Tensor, Tensor)
---     var_mean.dim(Tensor self, int[1]? dim, bool unbiased=True, bool keepdim=False) -> (Tensor,
---       Tensor)
---@param ... any
---@return any ...
function TensorOperators:var_mean(...) end

--- vdot.
---     vdot(Tensor self, Tensor other) -> Tensor
---@param ... any
---@return any ...
function TensorOperators:vdot(...) end

--- view.
---     view(Tensor(a) self, SymInt[] size) -> Tensor(a)
---     view.dtype(Tensor(a) self, ScalarType dtype) -> Tensor(a)
---@param ... any
---@return any ...
function TensorOperators:view(...) end

--- view_as.
---     view_as(Tensor(a) self, Tensor other) -> Tensor(a)
---@param ... any
---@return any ...
function TensorOperators:view_as(...) end

--- view_as_complex.
---     view_as_complex(Tensor(a) self) -> Tensor(a)
---@param ... any
---@return any ...
function TensorOperators:view_as_complex(...) end

--- view_as_complex_copy.
---     view_as_complex_copy(Tensor self) -> Tensor
---@param ... any
---@return any ...
function TensorOperators:view_as_complex_copy(...) end

--- view_as_real.
---     view_as_real(Tensor(a) self) -> Tensor(a)
---@param ... any
---@return any ...
function TensorOperators:view_as_real(...) end

--- view_as_real_copy.
---     view_as_real_copy(Tensor self) -> Tensor
---@param ... any
---@return any ...
function TensorOperators:view_as_real_copy(...) end

--- view_copy.
---     view_copy(Tensor self, SymInt[] size) -> Tensor
---     view_copy.dtype(Tensor self, ScalarType dtype) -> Tensor
---@param ... any
---@return any ...
function TensorOperators:view_copy(...) end

--- vsplit.
---     vsplit.array(Tensor(a -> *) self, int[] indices) -> Tensor(a)[]
---     vsplit.int(Tensor(a -> *) self, int sections) -> Tensor(a)[]
---@param ... any
---@return any ...
function TensorOperators:vsplit(...) end

--- where.
---     where(Tensor condition) -> Tensor[]
---     where.Scalar(Tensor condition, Scalar self, Scalar other) -> Tensor
---     where.ScalarOther(Tensor condition, Tensor self, Scalar other) -> Tensor
---     where.ScalarSelf(Tensor condition, Scalar self, Tensor other) -> Tensor
---     where.self(Tensor condition, Tensor self, Tensor other) -> Tensor
---@param ... any
---@return any ...
function TensorOperators:where(...) end

--- xlogy.
---     xlogy.Scalar_Other(Tensor self, Scalar other) -> Tensor
---     xlogy.Scalar_Self(Scalar self, Tensor other) -> Tensor
---     xlogy.Tensor(Tensor self, Tensor other) -> Tensor
---@param ... any
---@return any ...
function TensorOperators:xlogy(...) end

--- xlogy_.
---     xlogy_.Scalar_Other(Tensor(a!) self, Scalar other) -> Tensor(a!)
---     xlogy_.Tensor(Tensor(a!) self, Tensor other) -> Tensor(a!)
---@param ... any
---@return any ...
function TensorOperators:xlogy_(...) end

--- zero.
---     zero(Tensor self) -> Tensor
---@param ... any
---@return any ...
function TensorOperators:zero(...) end

--- zero_.
---     zero_(Tensor(a!) self) -> Tensor(a!)
---@param ... any
---@return any ...
function TensorOperators:zero_(...) end

--- zeros_like.
---     zeros_like(Tensor self, *, ScalarType? dtype=None, Layout? layout=None, Device? device=None,
---       bool? pin_memory=None, MemoryFormat? memory_format=None) -> Tensor
---@param ... any
---@return any ...
function TensorOperators:zeros_like(...) end

return operators
