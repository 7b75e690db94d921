"""Operators whose CUDA kernels allocate their results and nothing else.

Names are packets (`aten.add`), which stand for all their overloads. Sources, per group: PyTorch's
aten/src/ATen/native/native_functions.yaml (tag `pointwise` and structured kernels on TensorIterator, which compute with
the operands' own types), and the CUDA files named beside each group.
"""

from __future__ import annotations

# TensorIterator kernels: one launch over the operands as they lie, dtypes converted on the way (CUDALoops.cuh).
_POINTWISE = """
abs acos acosh add addcdiv addcmul angle asin asinh atan atan2 atanh bitwise_and bitwise_left_shift bitwise_not
bitwise_or bitwise_right_shift bitwise_xor ceil celu clamp clamp_max clamp_min complex conj_physical copysign cos cosh
deg2rad digamma div elu elu_backward eq erf erfc erfinv exp exp2 expm1 floor floor_divide fmax fmin fmod frac frexp gcd
ge gelu gelu_backward glu_backward gt hardshrink hardshrink_backward hardsigmoid hardsigmoid_backward hardswish
hardswish_backward hardtanh hardtanh_backward heaviside hypot i0 igamma igammac isinf isnan isneginf isposinf lcm le
leaky_relu leaky_relu_backward lerp lgamma log log10 log1p log2 logaddexp logaddexp2 logical_and logical_not logical_or
logical_xor logit logit_backward lt masked_fill maximum minimum mish mish_backward mul nan_to_num
native_dropout_backward ne neg nextafter polar pow rad2deg reciprocal relu remainder round
rrelu_with_noise_backward rsqrt rsub sgn
sigmoid
sigmoid_backward sign signbit silu silu_backward sin sinc sinh softplus softplus_backward softshrink softshrink_backward
special_entr special_erfcx special_i0e special_i1 special_i1e special_log_ndtr special_ndtri special_xlog1py
special_zeta sqrt sub tan tanh tanh_backward threshold threshold_backward trunc where xlogy _conj_physical _masked_scale
_prelu_kernel _prelu_kernel_backward glu linalg_cross rrelu_with_noise log_sigmoid_forward
__and__ __or__ __xor__ __lshift__ __rshift__ __iand__ __ior__ __ixor__ __ilshift__ __irshift__
"""
# Views and what only looks: no memory at all.
_VIEWS = """
_conj _fw_primal _make_dual _neg_view _reshape_alias _unsafe_view alias as_strided broadcast_to chunk detach diagonal
expand lift lift_fresh narrow permute real imag select slice split split_with_sizes squeeze t transpose unbind unfold
unflatten unsafe_chunk unsafe_split unsafe_split_with_sizes unsqueeze view view_as_complex view_as_real view_as swapaxes
movedim set_ is_same_size is_pinned _has_same_storage_numel record_stream _assert_async _assert_scalar
_assert_tensor_metadata _functional_assert_scalar _linalg_check_errors
sym_constrain_range sym_constrain_range_for_size _local_scalar_dense
numel stride size is_set_to sym_size sym_stride sym_numel sym_storage_offset dim storage_offset
"""
# Factories and fills (TensorFactories.cu, FillKernel.cu, RangeFactories.cu), random fills (Distribution*.cu).
_FACTORIES = """
arange bernoulli cauchy_ empty empty_like empty_permuted empty_strided exponential_ eye fill full full_like geometric_
linspace log_normal_ logspace new_empty new_empty_strided new_full new_ones new_zeros normal_ ones ones_like rand
rand_like randint randint_like randn randn_like normal put random_ range resize_ resize_as_ scalar_tensor tril_indices
triu_indices uniform_ zero zero_ zeros zeros_like _efficientzerotensor
"""
# Copies into a new layout or dtype (Copy.cu: on one device its kernel converts by itself; Shape.cu, Padding).
_COPIES = """
alias_copy as_strided_copy cat clone constant_pad_nd diag_embed diagonal_backward expand_copy flip
lift_fresh_copy permute_copy repeat roll select_backward slice_backward slice_scatter select_scatter
diagonal_scatter as_strided_scatter stack t_copy transpose_copy tril triu unfold_backward view_copy _chunk_cat
split_with_sizes_copy _pin_memory narrow_copy detach_copy squeeze_copy unsqueeze_copy slice_copy select_copy
block_diag rot90 pixel_shuffle pixel_unshuffle channel_shuffle native_channel_shuffle
"""
# Indexing by one dimension with plain reads or atomic additions (Indexing.cu, ScatterGatherKernel.cu).
_INDEXING = """
embedding gather index_add index_copy index_fill index_select scatter scatter_add masked_fill take bucketize
searchsorted
"""
# Softmax and losses that reduce within thread blocks (SoftMax.cu, Loss.cu, NLLLoss.cu).
_BLOCKS = """
_safe_softmax binary_cross_entropy_backward huber_loss_backward mse_loss_backward nll_loss_backward nll_loss_forward
smooth_l1_loss_backward log_sigmoid_backward _masked_softmax
"""
# Pooling, padding and resampling (DilatedMaxPool2d.cu, AveragePool2d.cu, ReflectionPad.cu, UpSample*.cu).
_IMAGES = """
avg_pool2d avg_pool3d max_pool2d_with_indices max_pool2d_with_indices_backward max_pool3d_with_indices
replication_pad1d replication_pad2d replication_pad3d
upsample_bicubic2d upsample_bilinear2d upsample_linear1d upsample_nearest1d upsample_nearest2d upsample_nearest3d
upsample_trilinear3d _upsample_bicubic2d_aa _upsample_bilinear2d_aa _upsample_nearest_exact1d
_upsample_nearest_exact2d _upsample_nearest_exact3d im2col col2im grid_sampler_2d grid_sampler_2d_backward
_weight_norm_interface _weight_norm_interface_backward
"""
# Lists of tensors: results, then kernels whose arguments carry the addresses (MultiTensorApply.cuh, Fused*Kernel.cu).
_FOREACH = """
_foreach_abs _foreach_acos _foreach_add _foreach_addcdiv _foreach_addcmul _foreach_asin _foreach_atan _foreach_ceil
_foreach_clamp_max _foreach_clamp_min _foreach_clone _foreach_copy _foreach_cos _foreach_cosh _foreach_div _foreach_erf
_foreach_erfc _foreach_exp _foreach_expm1 _foreach_floor _foreach_frac _foreach_lerp _foreach_lgamma _foreach_log
_foreach_log10 _foreach_log1p _foreach_log2 _foreach_maximum _foreach_minimum _foreach_mul _foreach_neg _foreach_pow
_foreach_reciprocal _foreach_round _foreach_rsqrt _foreach_sigmoid _foreach_sign _foreach_sin _foreach_sinh
_foreach_sqrt _foreach_sub _foreach_tan _foreach_tanh _foreach_trunc _foreach_zero
_amp_foreach_non_finite_check_and_unscale_ _amp_update_scale_ _fused_adagrad _fused_adam _fused_adamw _fused_sgd
"""
_GROUPS = (_POINTWISE, _VIEWS, _FACTORIES, _COPIES, _INDEXING, _BLOCKS, _IMAGES, _FOREACH)
#: The names that the groups spell, without `aten.`.
NAMES = frozenset(name for group in _GROUPS for name in group.split())


#: Collectives: NCCL's buffers are not PyTorch's, and what its process group allocates is modelled with the ranks.
_SENDING = ("c10d.", "_c10d_functional.", "c10d_functional.", "fsdp.")


def known(op_name: str) -> bool:
    """Whether an operator, as `aten.add` or `aten.add_`, is known to allocate its results only. An in-place name is
    known where the name without its last underscore is."""
    if op_name.startswith(_SENDING):
        return True
    name = op_name.removeprefix("aten.")
    return name != op_name and (name in NAMES or (name.endswith("_") and name[:-1] in NAMES))
